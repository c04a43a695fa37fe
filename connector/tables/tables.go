// Package tables tells which mappings write files for which tables, and by what names ledgers
// know those.
package tables

import (
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Filed are the mappings with files, those of a bundle together and parents first,
// as the batcher wants them; otherwise in the order of the configuration.
func Filed(mappings []*router.Compiled) (filed []*router.Compiled) {
	for _, m := range mappings {
		if !m.Uses(schemas.Batch) || slices.Contains(filed, m) {
			continue
		}
		if bundle := m.Bundle(); bundle != nil {
			filed = append(filed, bundle...)
			continue
		}
		filed = append(filed, m)
	}
	return filed
}

// LedgerTable is the table that the ledger knows the mapping's imports by: its own,
// or that of its bundle's first mapping.
func LedgerTable(m *router.Compiled) string {
	if bundle := m.Bundle(); bundle != nil {
		return bundle[0].Table.Qualified()
	}
	return m.Table.Qualified()
}

// LedgerTables is LedgerTable by mapping.
func LedgerTables(mappings []*router.Compiled) []string {
	tables := make([]string, len(mappings))
	for _, m := range mappings {
		tables[m.Index] = LedgerTable(m)
	}
	return tables
}

// ByTopic are, by topic, the tables that the ledger knows the imports of the
// topic's records by.
func ByTopic(mappings []*router.Compiled) map[string][]string {
	tables := map[string][]string{}
	for _, m := range Filed(mappings) {
		for _, topic := range m.Config.Topics {
			if t := LedgerTable(m); !slices.Contains(tables[topic], t) {
				tables[topic] = append(tables[topic], t)
			}
		}
	}
	return tables
}

// Counted are, by topic, the tables whose imports are counted in the ledger of the topic's
// partition 0.
func Counted(mappings []*router.Compiled) func(topic string) []string {
	tables := map[string][]string{}
	for _, m := range Filed(mappings) {
		home := m.Config.Topics[0]
		tables[home] = append(tables[home], m.Table.Qualified())
	}
	return func(topic string) []string { return tables[topic] }
}

// DualLane is the topics of mappings with both lanes.
func DualLane(mappings []*router.Compiled) map[string]bool {
	topics := map[string]bool{}
	for _, m := range mappings {
		if m.DualLane() {
			for _, topic := range m.Config.Topics {
				topics[topic] = true
			}
		}
	}
	return topics
}

// groups names, for each topic, the group of tables it feeds: tables that
// share a topic, or are joined by `after` or `bundle`, need one owner. A group
// is named after its first mapping.
func groups(mappings []*router.Compiled) map[string]string {
	leader := make([]int, len(mappings)) // each points to an earlier one of its group, or to itself
	for i := range leader {
		leader[i] = i
	}
	find := func(i int) int {
		for leader[i] != i {
			i = leader[i]
		}
		return i
	}
	join := func(i, j int) {
		a, b := find(i), find(j)
		leader[max(a, b)] = min(a, b)
	}
	first := map[string]int{} // by what joins: a topic, a bundle, a mapping's name
	for i, m := range mappings {
		joins := []string{"mapping " + m.Name}
		for _, topic := range m.Config.Topics {
			joins = append(joins, "topic "+topic)
		}
		for _, parent := range m.Config.After {
			joins = append(joins, "mapping "+parent)
		}
		if m.Config.Bundle != "" {
			joins = append(joins, "bundle "+m.Config.Bundle)
		}
		for _, key := range joins {
			if j, seen := first[key]; seen {
				join(i, j)
			} else {
				first[key] = i
			}
		}
	}
	byTopic := map[string]string{}
	for i, m := range mappings {
		for _, topic := range m.Config.Topics {
			byTopic[topic] = mappings[find(i)].Name
		}
	}
	return byTopic
}

// Of are, by topic, the group of tables that it feeds, and the tables that the
// ledger knows the imports of its records by.
func Of(mappings []*router.Compiled) (group func(topic string) string, filed func(topic string) []string) {
	byTopic, tables := groups(mappings), ByTopic(mappings)
	return func(topic string) string { return byTopic[topic] }, func(topic string) []string { return tables[topic] }
}

// Upgrade brings a ledger of the topic up to date that a former version wrote: it
// knew tables by their names, without the kind. Where the mappings have two tables
// of a name, it cannot be told whose slots were counted: they count for both. An
// import is that of the mapping whose fingerprint it has, or that its file is named
// after, or else both tables wait for it.
func Upgrade(mappings []*router.Compiled, topic string, l *ack.Ledger) {
	if len(l.Imports)+len(l.Slots) == 0 {
		return // most have nothing to bring up to date, and there may be thousands
	}
	var imports []ack.Import
	for _, im := range l.Imports {
		for _, table := range qualify(im.Table, mappings,
			func(m *router.Compiled) bool { return slices.Contains(m.Config.Topics, topic) },
			func(m *router.Compiled) bool { return m.FileFingerprint() == im.Fingerprint },
			func(m *router.Compiled) bool { return namedAfter(im.File, m.Name) },
		) {
			im.Table = table
			imports = append(imports, im)
		}
	}
	var slots []ack.Slots
	for _, sl := range l.Slots {
		for _, table := range qualify(sl.Table, mappings,
			func(m *router.Compiled) bool { return m.Config.Topics[0] == topic },
		) {
			slots = append(slots, ack.Slots{Table: table, Used: slices.Clone(sl.Used)})
		}
	}
	l.Imports, l.Slots = imports, slots
}

// qualify are the tables that a name on a ledger may stand for. Each clue leaves
// those mappings whom it fits, if there are any.
func qualify(name string, mappings []*router.Compiled, clues ...func(*router.Compiled) bool) (tables []string) {
	if _, ok := schemas.ParseTable(name); ok {
		return []string{name}
	}
	var candidates []*router.Compiled
	for _, m := range Filed(mappings) {
		if m.Table.Name == name {
			candidates = append(candidates, m)
		}
	}
	for _, clue := range clues {
		fitting := slices.Clone(candidates)
		if fitting = slices.DeleteFunc(fitting, func(m *router.Compiled) bool { return !clue(m) }); len(fitting) > 0 {
			candidates = fitting
		}
	}
	for _, m := range candidates {
		tables = append(tables, m.Table.Qualified())
	}
	if len(tables) == 0 { // no mapping writes to it any more
		return []string{name}
	}
	return tables
}

// fileTime is the time in the name of a file, behind that of its mapping.
const fileTime = "20060102T150405Z"

// namedAfter reports whether the file is named after the mapping, or bundle.
func namedAfter(file, mapping string) bool {
	rest, ok := strings.CutPrefix(file, mapping+"-")
	if !ok || len(rest) < len(fileTime) {
		return false
	}
	_, err := time.Parse(fileTime, rest[:len(fileTime)])
	return err == nil
}

// Mapping is the mapping that writes files for a table, as ledgers know it; nil: there is none.
func Mapping(mappings []*router.Compiled, table string) *router.Compiled {
	for _, m := range mappings {
		if m.Uses(schemas.Batch) && m.Table.Qualified() == table {
			return m
		}
	}
	return nil
}

// Called are the tables that mappings of the immediate lane write, each once.
func Called(mappings []*router.Compiled) (tables []schemas.Table) {
	seen := map[schemas.Table]bool{}
	for _, m := range mappings {
		if m.Uses(schemas.Immediate) && !seen[m.Table] {
			seen[m.Table] = true
			tables = append(tables, m.Table)
		}
	}
	return tables
}

// Routes is what the configuration says of each topic to a lane.
func Routes(r *router.Router, which schemas.Lane) func(topic string) kafka.TopicRoutes {
	topics, followed := map[string]kafka.TopicRoutes{}, DualLane(r.Mappings())
	for _, topic := range r.Topics(which) {
		routes := kafka.TopicRoutes{
			LaneRoutes: ack.LaneRoutes{Batch: which == schemas.Batch, Shared: r.Reads(topic, schemas.Immediate) && r.Reads(topic, schemas.Batch)},
			Follows:    which == schemas.Batch && followed[topic],
		}
		for _, m := range r.TopicMappings(topic) {
			routes.Fingerprints = append(routes.Fingerprints, m.Routes)
			if !m.Uses(which.Other()) {
				routes.Alone = append(routes.Alone, m.Routes)
			}
		}
		routes.Fingerprints = slices.Clip(routes.Fingerprints)
		topics[topic] = routes
	}
	return func(topic string) kafka.TopicRoutes { return topics[topic] }
}
