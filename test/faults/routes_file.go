package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// The tables of the sink whose routes change. A mapping of copies reads the
// topic of stock.
const (
	contacts = "contacts"
	leads    = "leads"
	parcels  = "parcels"
	stock    = "stock"
	copies   = "copies"

	moreContacts = "contacts.more" // a second topic of contacts
)

type routedTable struct {
	name   string
	custom bool
	etls   string
	loads  string // of the imports section
}

// routedTables are these tables by the digit that their ETLs begin with, and how
// each op of their mappings is loaded.
var routedTables = []routedTable{
	{contacts, false, "6", "upsert patch delete"},
	{leads, false, "7", "upsert"},
	{parcels, true, "8", "upsert patch delete create"},
	{stock, true, "9", "upsert delete"},
	{copies, true, "10", "upsert delete"},
}

// lanes of the sink.
const (
	immediate = "immediate"
	batch     = "batch"
)

// routesFile is one version of the configuration.
type routesFile struct {
	name     string // what is particular about it
	text     string
	reads    map[string][]string // topics, by lane
	mappings map[string]bool     // by table
}

func (f *routesFile) uses(lane string) bool { return len(f.reads[lane]) > 0 }

func (f *routesFile) readsTopic(topic string) bool {
	return slices.Contains(f.reads[immediate], topic) || slices.Contains(f.reads[batch], topic)
}

const routesHead = `
kafka: {brokers: ["${BROKERS}"], group: ` + routesGroup + `, sessionTimeout: 6s}
service:
  baseURL: ${SERVICE}
  authURL: ${SERVICE}
  entity: acme
  apiKey: ${API_KEY}
  timeout: 3s
  concurrency: {start: 4, max: 8}
  breaker: {failures: 10, openFor: 500ms}
retry: {initial: 50ms, max: 1s}
dlq: {topic: ` + routesLetters + `}
spool: {dir: "${SPOOL}", maxBytes: 1GiB}
admin: {listen: "127.0.0.1:0"}
mappings:
`

// anyFile writes a configuration by chance: one in eight has no use for the
// batch lane, one in eight none for the immediate lane. A whole one has every
// mapping and both lanes.
func anyFile(rnd *rand.Rand, whole bool) *routesFile {
	f := &routesFile{reads: map[string][]string{}, mappings: map[string]bool{}}
	dice := rnd.IntN(8)
	switch {
	case whole:
		f.name = "every mapping"
	case dice == 0:
		f.name = "immediate lane alone"
	case dice == 1:
		f.name = "batch lane alone"
	default:
		f.name = "both lanes"
	}
	text := &strings.Builder{}
	text.WriteString(routesHead)
	for _, t := range routedTables {
		if t.name == copies && !f.mappings[stock] {
			continue // alone it would pass by what the table of stock misses
		}
		routes := anyRoutes(rnd)
		switch f.name {
		case "immediate lane alone":
			routes = `{lane: immediate}`
			if t.name == contacts {
				continue // some of whose events name no id, and need an import
			}
		case "batch lane alone":
			routes = `{lane: batch}`
		default:
			if !whole && rnd.IntN(6) == 0 {
				continue
			}
		}
		f.mappings[t.name] = true
		f.mapping(text, rnd, t, routes, whole)
	}
	f.text = text.String()
	if len(f.mappings) == 0 {
		return anyFile(rnd, whole)
	}
	f.name += fmt.Sprint(", ", strings.Join(slices.Sorted(maps.Keys(f.mappings)), " "))
	return f
}

// anyRoutes are routes by conditions on headers, on the event or on nothing.
func anyRoutes(rnd *rand.Rand) string {
	lanes := []string{immediate, batch}
	rnd.Shuffle(2, func(i, j int) { lanes[i], lanes[j] = lanes[j], lanes[i] })
	last := "{lane: " + lanes[1] + "}"
	switch rnd.IntN(6) {
	case 0:
		return last
	case 1:
		return fmt.Sprintf(`{when: 'attributes.seq %% 2 == 1 || properties.seq %% 2 == 1', lane: %s}, %s`, lanes[0], last)
	case 2:
		return fmt.Sprintf(`{when: 'op == "patch"', lane: %s}, %s`, lanes[0], last)
	}
	some := []string{`"0"`} // in nothing is never true, which is refused
	for n := range 9 {
		if rnd.IntN(2) == 0 {
			some = append(some, fmt.Sprintf("%q", fmt.Sprint(1+n)))
		}
	}
	return fmt.Sprintf(`{when: 'headers.dice in [%s]', lane: %s}, %s`, strings.Join(some, ", "), lanes[0], last)
}

// mapping writes a table's mapping, under one name or another.
func (f *routesFile) mapping(text *strings.Builder, rnd *rand.Rand, t routedTable, routes string, whole bool) {
	name := t.name
	topics := []string{name}
	switch {
	case name == copies:
		topics = []string{stock}
	case name == contacts && (whole || rnd.IntN(3) > 0):
		topics = append(topics, moreContacts)
	}
	title := name
	if rnd.IntN(3) == 0 {
		title += "-renamed"
	}
	kind, key, columns := "profileTable", "customerNumber", "customerNumber, seq, note, S_tier"
	if t.custom {
		kind, key, columns = "customTable", "businessKey", "businessKey, seq, status, total"
	}
	fmt.Fprintf(text, "  - {name: %s, topics: [%s], %s: %s, key: %s, routes: [%s]", title, strings.Join(topics, ", "), kind, name, key, routes)
	both := map[string]bool{immediate: strings.Contains(routes, immediate), batch: strings.Contains(routes, batch)}
	if both[batch] || name == contacts {
		both[batch] = true
		text.WriteString(", imports: {")
		for n, op := range strings.Fields(t.loads) {
			fmt.Fprintf(text, "%s: {etl: %q, %s}, ", op, fmt.Sprint(t.etls, "0", n), map[string]string{
				"upsert": "mode: CREATE_OR_UPDATE", "patch": "mode: UPDATE_ONLY, ignoresEmpty: true", "delete": "mode: DELETE", "create": "mode: CREATE_ONLY",
			}[op])
		}
		fmt.Fprintf(text, "columns: [%s], roll: {rows: 200, bytes: 1MiB, age: 1500ms}, slotsPerDay: %d}", columns, slotsPerDay)
	}
	text.WriteString("}\n")
	for lane, is := range both {
		if !is {
			continue
		}
		for _, topic := range topics {
			if !slices.Contains(f.reads[lane], topic) {
				f.reads[lane] = append(f.reads[lane], topic)
			}
		}
	}
}
