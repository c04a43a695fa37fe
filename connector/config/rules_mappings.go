package config

// mappings has the router compile every mapping, which is the one place that
// knows what a mapping may say, and puts its findings at their lines.
func (r *rules) mappings() {
	if len(r.cfg.Mappings) == 0 {
		r.breaks("mappings", "is required", "at least one mapping, from topics to a table")
		return
	}
	_, problems := r.compile(r.cfg.Mappings)
	for _, p := range problems {
		r.breaks(p.Path, p.Message, p.Hint)
	}
}
