package config

import "strings"

// Way is what keeps brokers and a registry from being reached as it is said, or
// what must not be sent on that way: the rules of the blocks `kafka` and
// `schemaRegistry`, for whoever has no file yet. Files that are named are looked
// at, nothing is connected to. The problems name keys by the flags that stand for
// them, by the key's path.
func Way(k Kafka, r SchemaRegistry, flags map[string]string) []Problem {
	cfg := defaults()
	group, startAt, session := cfg.Kafka.Group, cfg.Kafka.StartAt, cfg.Kafka.SessionTimeout
	cfg.Kafka, cfg.SchemaRegistry = k, r
	cfg.Kafka.Group, cfg.Kafka.StartAt, cfg.Kafka.SessionTimeout = group, startAt, session // which are no part of it
	all := &rules{findings: newFindings(), cfg: &cfg, flags: flags}
	all.kafka(&cfg.Kafka)
	all.schemaRegistry(&cfg.SchemaRegistry)
	for i := range all.problems {
		p := &all.problems[i]
		key, _, _ := strings.Cut(p.Path, "[")
		p.Path = all.say(key, key) + p.Path[len(key):]
	}
	return all.problems
}
