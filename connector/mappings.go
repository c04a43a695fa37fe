package connector

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/batcher/slots"
	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// reconcilingPart is the batch lane's part of service.rate where a mapping uses both
// lanes, or creates table records by files: it calls only for keys that were
// written by both at the same time, and to read records that rows have met.
const reconcilingPart = 0.1

// rateOf is a lane's part of service.rate, which is the whole deployment's. It
// follows from the mappings alone, so that members that run different lanes agree
// on it without asking. Imports are not counted: there are a few a day.
func rateOf(which schemas.Lane, mappings []*router.Compiled) float64 {
	part := 0.0
	if slices.ContainsFunc(mappings, func(m *router.Compiled) bool { return m.DualLane() || creates(m) }) {
		part = reconcilingPart
	}
	if which == schemas.Immediate {
		part = 1 - part - autoRate(mappings)
	}
	return part
}

// autoRate is the part of service.rate for calls in the place of rows: of what reconciling
// leaves, as much as the weights of the auto routes are of those of all routes that make
// calls.
func autoRate(mappings []*router.Compiled) float64 {
	rows, others := 0.0, 0.0
	for _, m := range mappings {
		immediate := 0.0
		for i, r := range m.Config.Routes {
			if _, _, auto := m.Auto(i); auto {
				rows += m.Weight(i)
			} else if r.Lane == "immediate" {
				immediate += m.Weight(i)
			}
		}
		if m.Uses(schemas.Immediate) && immediate == 0 {
			immediate = 1 // its columns send rows to the immediate lane
		}
		others += immediate
	}
	if rows == 0 {
		return 0
	}
	return (1 - rateOf(schemas.Batch, mappings)) * rows / (rows + others)
}

// creates reports whether the mapping has files that create table records.
func creates(m *router.Compiled) bool {
	return m.Uses(schemas.Batch) && m.Table.Custom && m.Config.Imports.Create != nil
}

// eitherRate is the part of the batch lane's calls that reconcile keys, and that
// of those which read records: each has half where both may be needed.
func eitherRate(mappings []*router.Compiled) float64 {
	part := rateOf(schemas.Batch, mappings)
	if slices.ContainsFunc(mappings, creates) && slices.ContainsFunc(mappings, (*router.Compiled).DualLane) {
		part /= 2
	}
	return part
}

// partsOf is for how many pending records of each topic the immediate lane has room,
// however many of other topics wait: half as many as maxPending for all topics, by the
// weights of their most urgent routes; nil: there is one topic.
func partsOf(mappings []*router.Compiled) map[string]int {
	weights, all := map[string]float64{}, 0.0
	for _, m := range mappings {
		weight := 0.0
		for i, r := range m.Config.Routes {
			if r.Lane == "immediate" {
				weight = max(weight, m.Weight(i))
			}
		}
		if m.Uses(schemas.Immediate) && weight == 0 {
			weight = 1 // its columns send rows to the immediate lane
		}
		for _, topic := range m.Config.Topics {
			weights[topic] = max(weights[topic], weight)
		}
	}
	if len(weights) == 1 { // there is no other to be held up
		return nil
	}
	for _, weight := range weights {
		all += weight
	}
	parts := map[string]int{}
	for topic, weight := range weights {
		parts[topic] = 1 + int(maxPending/2*weight/all)
	}
	return parts
}

// share is this member's share of a lane's part of the rate: that of the lane's
// partitions which it has.
func share(source *kafka.Source, part float64) func() float64 {
	return func() float64 { return part * source.Share() }
}

// tableGroups names, for each topic, the group of tables it feeds: tables that
// share a topic, or are joined by `after` or `bundle`, need one owner. A group
// is named after its first mapping.
func tableGroups(mappings []*router.Compiled) map[string]string {
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
	groups := map[string]string{}
	for i, m := range mappings {
		for _, topic := range m.Config.Topics {
			groups[topic] = mappings[find(i)].Name
		}
	}
	return groups
}

// tablesOf are, by topic, the group of tables that it feeds, and the tables that the
// ledger knows the imports of its records by.
func tablesOf(mappings []*router.Compiled) (group func(topic string) string, filed func(topic string) []string) {
	groups, tables := tableGroups(mappings), filedTables(mappings)
	return func(topic string) string { return groups[topic] }, func(topic string) []string { return tables[topic] }
}

// upgrade is kafka.Upgrade. Most ledgers have nothing to bring up to date, and there may be
// thousands.
func (s *pipeline) upgrade(topic string, l *ack.Ledger) {
	if len(l.Imports)+len(l.Slots) > 0 {
		upgrade(s.router.Mappings(), topic, l)
	}
}

// upgrade brings a ledger of the topic up to date that a former version wrote: it
// knew tables by their names, without the kind. Where the mappings have two tables
// of a name, it cannot be told whose slots were counted: they count for both. An
// import is that of the mapping whose fingerprint it has, or that its file is named
// after, or else both tables wait for it.
func upgrade(mappings []*router.Compiled, topic string, l *ack.Ledger) {
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
	for _, m := range filed(mappings) {
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

// batchMappings are the mappings with files, the calendar of each ETL's table, and, for
// the pacing, each table's slots.
func (s *pipeline) batchMappings() (zones map[string]*time.Location, mappings []batcher.Mapping, err error) {
	zones = map[string]*time.Location{}
	for _, m := range filed(s.router.Mappings()) {
		im := m.Config.Imports
		zone, err := time.LoadLocation(im.Timezone)
		if err != nil {
			return nil, nil, fmt.Errorf("mapping %s: imports.timezone: %w", m.Name, err)
		}
		mapping := build.BatchMapping(m)
		mapping.Zone = zone
		mappings = append(mappings, mapping)
		for _, load := range mapping.Loads {
			zones[load.ETL] = zone
		}
		s.pacing.tables[m.Name] = &tableSlots{
			Plan:  slots.Plan{PerDay: im.SlotsPerDay, Reserve: im.Reserve, Zone: zone, At: mapping.Roll.At, Every: im.Roll.Age},
			table: m.Table.Qualified(), label: m.Label, slotTopic: m.Config.Topics[0], topics: m.Config.Topics,
		}
	}
	return zones, mappings, nil
}
