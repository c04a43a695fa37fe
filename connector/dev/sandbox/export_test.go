package sandbox

// Overview is what the page is answered.
type Overview = overview

// ClearRejections ends all rejections.
func (s *Sandbox) ClearRejections() { s.clearRejections() }

// SlotDays tells how many imports of a table were accepted, by yyyy-MM-dd.
func (s *Sandbox) SlotDays(table string) map[string]int { return s.slotDays(table) }

// Empty removes every row of every table. Ids are not given twice.
func (s *Sandbox) Empty() {
	for _, t := range s.tables {
		t.mu.Lock()
		t.clear()
		t.mu.Unlock()
	}
}
