package router_test

import (
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/feedsink/feedsink/router"
)

// escaping is a mapping whose column sends rows to the immediate lane.
func escaping() router.Mapping {
	m := customers()
	m.Imports.Patch = &router.Import{ETL: "103", Mode: "UPDATE_ONLY", IgnoresEmpty: true}
	m.Imports.Columns = []router.Column{{Name: "customerNumber"}, {Name: "age", Null: "immediate"}, {Name: "city"}}
	return m
}

// escapingFields is escaping with fields.
func escapingFields() router.Mapping {
	m := escaping()
	m.Routes[0].When = `tier == "gold"`
	m.Fields = []router.Field{
		{From: "id", To: "customerNumber"},
		{From: "age", To: "age", As: "integer"},
		{From: "city", To: "city"},
	}
	return m
}

// aSample is a record of the mappings above.
type aSample struct{ key, value string }

var samples = map[string][]aSample{
	"customers": {
		{`C1`, `{"key":{"customerNumber":"C1"},"segments":{"tier":"gold"}}`},
		{`C1`, `{"key":{"customerNumber":"C1"},"segments":{"tier":"silver"}}`},
		{`C1`, `{"op":"delete","key":{"customerNumber":"C1"},"segments":{"tier":"gold"}}`},
		{`C1`, `{"op":"patch","profileId":"p1","key":{"customerNumber":"C1"},"segments":{"tier":"gold"}}`},
		{`C1`, `{"op":"patch","key":{"customerNumber":"C1"},"segments":{"tier":"gold"},"attributes":{"age":1}}`},
		{`C1`, `{"op":"patch","profileId":"p1","key":{"customerNumber":"C1"},"attributes":{"age":null}}`},
		{`C1`, `{"key":{"customerNumber":"C1"},"attributes":{"age":null}}`},
		{`C1`, `{"key":{"customerNumber":"C1"},"attributes":{"age":""}}`},
		{`C1`, `{"key":{"customerNumber":"C1"},"attributes":{"age":null,"city":9}}`},
		{`C1`, `{"key":{"customerNumber":"C1"},"attributes":{"city":null}}`},
		{`C1`, `{"key":{"customerNumber":"C1"},"attributes":{"age":null},"segments":{"vip":null}}`},
		{`C1`, `{"key":{"customerNumber":"C1"}}`},
		{`{"customerNumber":"C1"}`, ``},
		{`C1`, ``},
		{`C1`, `[]`},
	},
	"fields": {
		{`C1`, `{"id":"C1","age":1,"city":"Paris"}`},
		{`C1`, `{"id":"C1","age":"1","city":"Paris","tier":"gold"}`},
		{`C1`, `{"id":"C1","age":null,"city":"Paris"}`},
		{`C1`, `{"id":"C1","age":null,"city":9}`},
		{`C1`, `{"id":"C1","age":null,"city":"9.5"}`},
		{`C1`, `{"id":"C1","age":null,"city":"Y"}`},
		{`C1`, `{"id":"C1","city":"Paris"}`},
		{`C1`, `{"id":"C1","age":"old","town":null}`},
		{`C1`, `{"id":"C1","age":null,"city":{}}`},
		{`C1`, ``},
	},
	"rows": {
		{`{"id":1}`, `{"op":"c","source":{},"after":{"id":1,"status":"NEW","note":null}}`},
		{`{"id":7}`, `{"op":"u","source":{},"after":{"id":7,"status":"__debezium_unavailable_value"}}`},
		{`{"id":8}`, `{"op":"u","source":{},"after":{"id":8,"blob":"__debezium_unavailable_value"}}`},
		{`{"id":8}`, `{"op":"u","source":{},"after":{"id":8,"note":"gone"}}`},
		{`{"id":7}`, ``},
	},
}

var bases = map[string]func() router.Mapping{
	"customers": customers, "escaping": escaping, "fields": escapingFields, "rows": patchedRows,
}

// patchedRows is rows whose patches, which updates become that leave a value out, are files.
func patchedRows() router.Mapping {
	m := rows()
	m.Routes[0].When = `op == "patch"`
	m.Imports.Patch = &router.Import{ETL: "3", Mode: "UPDATE_ONLY", IgnoresEmpty: true}
	return m
}

// lanes are those of all samples, for one letter each.
func lanes(t *testing.T, base string, m router.Mapping) (fingerprint uint64, letters string) {
	t.Helper()
	r := compile(t, m)
	of := samples[base]
	if base == "escaping" {
		of = samples["customers"]
	}
	for _, s := range of {
		rec := &router.Record{Topic: m.Topics[0], Key: []byte(s.key), Tombstone: s.value == ""}
		if !rec.Tombstone {
			rec.Value = value(t, s.value)
		}
		letters += routeOne(t, r, rec).Lane.String()[:1]
	}
	return r.Mappings()[0].Routes, letters
}

func TestRoutesFingerprintStaysWhereNoRecordChangesItsLane(t *testing.T) {
	for _, tc := range []struct {
		name, base string
		change     func(*router.Mapping)
	}{
		{"name", "customers", func(m *router.Mapping) { m.Name = "others" }},
		{"what is the default, spelled out", "customers", func(m *router.Mapping) { m.Format, m.Envelope, m.KafkaKey = "json", "none", "text" }},
		{"a weight", "customers", func(m *router.Mapping) { m.Routes[0].Weight = new(10.0) }},
		{"an objective", "customers", func(m *router.Mapping) { m.Routes[0].Within = time.Second }},
		{"an objective's share", "customers", func(m *router.Mapping) { m.Routes[0].Within, m.Routes[0].Objective = time.Second, new(0.999) }},
		{"a route's name", "customers", func(m *router.Mapping) { m.Routes[1].Name = "rest" }},
		{"a number of the files", "customers", func(m *router.Mapping) { m.Imports.Roll.Rows, m.Imports.SlotsPerDay = 7, 3 }},
		{"an ETL", "customers", func(m *router.Mapping) { m.Imports.Upsert.ETL = "7" }},
		{"a column", "customers", func(m *router.Mapping) { m.Imports.Columns = m.Imports.Columns[:2] }},
		{"order of columns", "customers", func(m *router.Mapping) { swap(m.Imports.Columns) }},
		{"a literal", "customers", func(m *router.Mapping) { m.Imports.Columns[1].Absent = "none" }},
		{"a type", "customers", func(m *router.Mapping) { m.Types = []router.Type{{Name: "age", As: "integer"}} }},
		{"an import of upserts, which are called", "customers", func(m *router.Mapping) {
			m.Routes, m.Imports.Upsert = []router.Route{{Lane: "immediate"}}, nil
		}},
		{"blanks in the mapping's condition", "customers", func(m *router.Mapping) { m.When = `op!="delete"` }},
		{"two routes that skip one after the other", "customers", func(m *router.Mapping) {
			m.Routes = []router.Route{{When: `op == "patch"`, Lane: "batch"}, {When: `op == "delete"`, Lane: "skip"}, {Lane: "skip"}}
		}},
		{"blanks in a condition", "customers", func(m *router.Mapping) { m.Routes[0].When = "segments . tier\n  ==\"gold\"" }},
		{"quotes in a condition", "customers", func(m *router.Mapping) { m.Routes[0].When = `segments.tier == 'gold'` }},
		{"a comment in a condition", "customers", func(m *router.Mapping) { m.Routes[0].When = `segments.tier == "gold" // of the shop` }},
		{"a condition with the lane of the last route", "customers", func(m *router.Mapping) {
			m.Routes = []router.Route{m.Routes[0], {When: `segments.tier == "silver"`, Lane: "batch"}, m.Routes[1]}
		}},
		{"the condition of the only lane", "customers", func(m *router.Mapping) {
			m.Routes = []router.Route{{When: `op == "delete"`, Lane: "batch"}, {Lane: "batch"}}
		}},
		{"the service's id where nothing is called", "customers", func(m *router.Mapping) {
			m.Routes, m.ProfileID = []router.Route{{Lane: "batch"}}, "id"
		}},
		{"order of columns, one of which escapes", "escaping", func(m *router.Mapping) { swap(m.Imports.Columns[1:]) }},
		{"a column that does not escape", "escaping", func(m *router.Mapping) { m.Imports.Columns = m.Imports.Columns[:2] }},
		{"a literal that an ETL ignores anyway", "escaping", func(m *router.Mapping) {
			m.Imports.Upsert.IgnoresEmpty, m.Imports.Columns[1].Absent = true, "-"
		}},
		{"the default of a column, spelled out", "escaping", func(m *router.Mapping) { m.Imports.Columns[1].Absent = "empty" }},
		{"a literal of another column", "escaping", func(m *router.Mapping) { m.Imports.Columns[2].Null = "none" }},
		{"order of fields", "fields", func(m *router.Mapping) { swap(m.Fields[1:]) }},
		{"quotes in a path", "fields", func(m *router.Mapping) { m.Fields[2].From = `["city"]` }},
		{"a choice of a field, spelled out", "fields", func(m *router.Mapping) { m.Fields[2].Absent, m.Fields[2].Null = "omit", "null" }},
		{"the point of a number, spelled out", "fields", func(m *router.Mapping) { m.Fields[1].Decimal = "." }},
		{"op, spelled out", "fields", func(m *router.Mapping) { m.Op = "upsert" }},
		{"an op's quotes", "fields", func(m *router.Mapping) { m.Op = `tier == 'x' ? "patch": "upsert"` }},
		{"order of columns of rows", "rows", func(m *router.Mapping) { swap(m.Imports.Columns[1:]) }},
		{"a conversion", "rows", func(m *router.Mapping) { m.Fields[3].As = "" }},
		{"the placeholder, spelled out", "rows", func(m *router.Mapping) { m.UnavailableValue = "__debezium_unavailable_value" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, after := bases[tc.base](), bases[tc.base]()
			switch tc.name { // what a change is compared with is not always the base
			case "an import of upserts, which are called":
				before.Routes = []router.Route{{Lane: "immediate"}}
			case "the condition of the only lane", "the service's id where nothing is called":
				before.Routes = []router.Route{{Lane: "batch"}}
			case "blanks in the mapping's condition":
				before.When = `op != 'delete'`
			case "two routes that skip one after the other":
				before.Routes = []router.Route{{When: `op == "patch"`, Lane: "batch"}, {Lane: "skip"}}
			case "an op's quotes":
				before.Op = `tier=="x"?"patch":"upsert"`
			}
			tc.change(&after)
			want, lanesBefore := lanes(t, tc.base, before)
			got, lanesAfter := lanes(t, tc.base, after)
			if lanesBefore != lanesAfter {
				t.Fatalf("the test: lanes of the samples: before %s, after %s, want the same", lanesBefore, lanesAfter)
			}
			if got != want {
				t.Errorf("got %#x, want the same as before %#x", got, want)
			}
		})
	}
}

func swap[T any](s []T) { s[0], s[1] = s[1], s[0] }

func TestRoutesFingerprintChangesWithTheLaneOfARecord(t *testing.T) {
	for _, tc := range []struct {
		name, base string
		change     func(*router.Mapping)
	}{
		{"a condition", "customers", func(m *router.Mapping) { m.Routes[0].When = `segments.tier == "silver"` }},
		{"a blank inside a text of a condition", "customers", func(m *router.Mapping) { m.Routes[0].When = `segments.tier == "go ld"` }},
		{"a lane", "customers", func(m *router.Mapping) { m.Routes[1].Lane = "immediate" }},
		{"both lanes", "customers", func(m *router.Mapping) { m.Routes[0].Lane, m.Routes[1].Lane = "batch", "immediate" }},
		{"order of routes", "customers", func(m *router.Mapping) {
			m.Routes = []router.Route{{When: `op == "delete"`, Lane: "batch"}, {When: `op != "create"`, Lane: "immediate"}, m.Routes[1]}
		}},
		{"a route that skips", "customers", func(m *router.Mapping) { m.Routes[0].Lane = "skip" }},
		{"a last route that skips", "customers", func(m *router.Mapping) { m.Routes[1].Lane = "skip" }},
		{"a condition of the only lane beside skip", "customers", func(m *router.Mapping) {
			m.Routes = []router.Route{{When: `segments.tier == "silver"`, Lane: "skip"}, {Lane: "batch"}}
		}},
		{"a condition for the mapping", "customers", func(m *router.Mapping) { m.When = `op == "delete"` }},
		{"how a key is read", "customers", func(m *router.Mapping) { m.KafkaKey = "json" }},
		{"an import of what cannot be called", "customers", func(m *router.Mapping) {
			m.Imports.Patch = &router.Import{ETL: "103", Mode: "UPDATE_ONLY", IgnoresEmpty: true}
		}},
		{"an import of deletes", "customers", func(m *router.Mapping) { m.Imports.Delete = nil }},
		{"where the service's id is", "customers", func(m *router.Mapping) { m.ProfileID = "key.customerNumber" }},
		{"the column that escapes", "escaping", func(m *router.Mapping) { m.Imports.Columns[1].Null, m.Imports.Columns[2].Null = "", "immediate" }},
		{"a choice of the column that escapes", "escaping", func(m *router.Mapping) { m.Imports.Columns[1].Absent = "immediate" }},
		{"a null that is a literal now", "escaping", func(m *router.Mapping) { m.Imports.Columns[1].Null = "-" }},
		{"a literal with which the ETL clears by empty cells", "escaping", func(m *router.Mapping) { m.Imports.Columns[1].Absent = "-" }},
		{"a value for the null of a segmentation", "escaping", func(m *router.Mapping) {
			m.Imports.Columns = append(m.Imports.Columns, router.Column{Name: "S_vip", Null: "false"})
		}},
		{"an import whose rows escape", "escaping", func(m *router.Mapping) { m.Imports.Upsert = nil }},
		{"a type that refuses", "escaping", func(m *router.Mapping) { m.Types = []router.Type{{Name: "city", As: "date"}} }},
		{"a field of the column that escapes", "fields", func(m *router.Mapping) { m.Fields[1].From = "city" }},
		{"a default of the column that escapes", "fields", func(m *router.Mapping) { m.Fields[1].Default = "3" }},
		{"an empty default of the column that escapes", "fields", func(m *router.Mapping) { m.Fields[1].As, m.Fields[1].Null = "", "omit" }},
		{"a field that refuses", "fields", func(m *router.Mapping) { m.Fields[2].As = "date" }},
		{"a field that refuses what is missing", "fields", func(m *router.Mapping) { m.Fields[2].From, m.Fields[2].Absent = "town", "reject" }},
		{"a comma that refuses a point", "fields", func(m *router.Mapping) { m.Fields[2].Decimal = "," }},
		{"a word for true", "fields", func(m *router.Mapping) { m.Fields[2].True = []string{"Y"} }},
		{"op", "fields", func(m *router.Mapping) { m.Op = "patch" }},
		{"a column whose value may be left out", "rows", func(m *router.Mapping) { m.Fields[2].From = "blob" }},
		{"the placeholder", "rows", func(m *router.Mapping) { m.UnavailableValue = "gone" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, after := bases[tc.base](), bases[tc.base]()
			switch tc.name { // what a change is compared with is not always the base
			case "a condition of the only lane beside skip":
				before.Routes = []router.Route{{When: `segments.tier == "gold"`, Lane: "skip"}, {Lane: "batch"}}
			case "a comma that refuses a point":
				before.Fields[2].As, after.Fields[2].As = "number", "number"
			case "a word for true":
				before.Fields[2].As, after.Fields[2].As = "boolean", "boolean"
			}
			tc.change(&after)
			old, lanesBefore := lanes(t, tc.base, before)
			got, lanesAfter := lanes(t, tc.base, after)
			if lanesBefore == lanesAfter {
				t.Fatalf("the test: lanes of the samples: %s before and after, want another lane for one of them", lanesBefore)
			}
			if got == old {
				t.Errorf("got the same %#x, want another", got)
			}
		})
	}
}

func TestRoutesFingerprintChangesWithTheRow(t *testing.T) {
	for name, change := range map[string]func(*router.Mapping){
		"table":        func(m *router.Mapping) { m.ProfileTable = "people" },
		"kind":         func(m *router.Mapping) { *m = orders(); m.CustomTable = "customers" },
		"key":          func(m *router.Mapping) { m.Key, m.Fields[0].To, m.Imports.Columns[0].Name = "id", "id", "id" },
		"key's path":   func(m *router.Mapping) { m.Fields[0].From = "number" },
		"key's values": func(m *router.Mapping) { m.Fields[0].As = "integer" },
		"key's length": func(m *router.Mapping) { m.Types = []router.Type{{Name: "customerNumber", Length: 9}} },
		"event's key": func(m *router.Mapping) {
			m.Fields, m.Routes, m.Types = nil, []router.Route{{Lane: "batch"}}, []router.Type{{Name: "customerNumber", As: "country"}}
		},
		"format": func(m *router.Mapping) { m.Format = "avro" },
	} {
		before, after := escapingFields(), escapingFields()
		before.Routes, after.Routes = before.Routes[1:], after.Routes[1:]
		before.Imports.Columns[1].Null, after.Imports.Columns[1].Null = "", "" // one lane: only the row is left
		change(&after)
		if after.Fields == nil {
			before.Fields, before.Routes = nil, after.Routes
		}
		old, got := compile(t, before).Mappings()[0].Routes, compile(t, after).Mappings()[0].Routes
		if got == old {
			t.Errorf("%s: got the same %#x, want another", name, got)
		}
	}
}

func TestRoutesFingerprintDoesNotSeeHowTheFileIsWritten(t *testing.T) {
	of := func(routes string) uint64 {
		m := customers()
		m.Routes = nil
		if err := yaml.Unmarshal([]byte(routes), &m); err != nil {
			t.Fatal(err)
		}
		return compile(t, m).Mappings()[0].Routes
	}
	want := of(`routes: [{when: 'segments.tier == "gold"', lane: immediate}, {lane: batch}]`)
	for _, text := range []string{
		"routes:\n  # urgent\n  - lane: \"immediate\"\n    when: >-\n      segments.tier ==\n      \"gold\"\n  - lane: batch # the rest\n",
		`{"routes": [{"when": "segments.tier == \"gold\"", "lane": "immediate"}, {"lane": "batch"}]}`,
	} {
		if got := of(text); got != want {
			t.Errorf("%s\ngot %#x, want %#x", text, got, want)
		}
	}
}
