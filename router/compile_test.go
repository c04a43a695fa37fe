package router_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

func TestCompileRefusesWhatCannotWork(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*router.Mapping)
		want   string
	}{
		{"no name", func(m *router.Mapping) { m.Name = "" }, `name: missing`},
		{"name", func(m *router.Mapping) { m.Name = "My Customers" }, `name: "My Customers": lower-case letters, digits, dots, dashes and underscores only`},
		{"no topics", func(m *router.Mapping) { m.Topics = nil }, `topics: missing; hint: name at least one topic`},
		{"topic", func(m *router.Mapping) { m.Topics = []string{"a b"} }, `topics[0]: "a b" is not the name of a topic`},
		{"topic twice", func(m *router.Mapping) { m.Topics = []string{"a", "a"} }, `topics[1]: "a" is named twice`},
		{"format", func(m *router.Mapping) { m.Format = "jsno" }, `format: unknown value "jsno"; hint: did you mean "json"?`},
		{
			"bundle", func(m *router.Mapping) { m.Bundle = "crm" },
			`bundle: no other mapping is in the bundle "crm"; hint: leave it out, or give it to the mappings whose files go with this one's`,
		},
		{
			"rows without fields", func(m *router.Mapping) { m.Envelope = "debezium" },
			`fields: missing: what Debezium sends are rows of a database, not canonical events; hint: name the columns of the source table: {from: id, to: customerNumber}`,
		},
		{
			"unavailable value of nobody", func(m *router.Mapping) { m.UnavailableValue = "x" },
			`unavailableValue: is a word of Debezium's, but the mapping reads other events; hint: add envelope: debezium`,
		},
		{"key format", func(m *router.Mapping) { m.KafkaKey = "binary" }, `kafkaKey: unknown value "binary"; hint: one of text, json, avro`},
		{"no table", func(m *router.Mapping) { m.ProfileTable = "" }, `names no table; hint: add profileTable or customTable`},
		{"no key", func(m *router.Mapping) { m.Key = "" }, `key: missing; hint: name the unique-key attribute of the table`},
		{"profile id", func(m *router.Mapping) { m.ProfileID = "a..b" }, `profileId: "a..b" is not a path: column 3: a name is missing; hint: write names separated by dots, elements as [0] or [*], other names as ["a.b"]`},
		{"no routes", func(m *router.Mapping) { m.Routes = nil }, `routes: missing; hint: write [{lane: immediate}] or [{lane: batch}]`},
		{"last route", func(m *router.Mapping) { m.Routes = m.Routes[:1] }, `routes[0].when: the last route must have no condition; hint: add a last route without when`},
		{"early end", func(m *router.Mapping) { m.Routes[0].When = "" }, `routes[0]: has no condition, so the routes after it can never match`},
		{"no lane", func(m *router.Mapping) { m.Routes[0].Lane = "" }, `routes[0].lane: missing; hint: immediate or batch`},
		{"lane", func(m *router.Mapping) { m.Routes[0].Lane = "bach" }, `routes[0].lane: unknown lane "bach"; hint: did you mean "batch"?`},
		{"no etl", func(m *router.Mapping) { m.Imports.Upsert.ETL = "" }, `imports.upsert.etl: missing`},
		{"mode", func(m *router.Mapping) { m.Imports.Upsert.Mode = "DELETE" }, `imports.upsert.mode: "DELETE" is not a mode that loads upsert; hint: write CREATE_OR_UPDATE`},
		{"columns", func(m *router.Mapping) { m.Imports.Columns = nil }, `imports.columns: missing; hint: list the columns of the CSV file, the key among them`},
		{"key column", func(m *router.Mapping) { m.Imports.Columns = m.Imports.Columns[1:] }, `imports.columns: the key column is missing; hint: add "customerNumber"`},
		{"column twice", func(m *router.Mapping) { m.Imports.Columns[1].Name = "customerNumber" }, `imports.columns[1]: "customerNumber" is listed twice`},
		{"column without name", func(m *router.Mapping) { m.Imports.Columns[1].Name = "" }, `imports.columns[1]: missing`},
		{"segment without name", func(m *router.Mapping) { m.Imports.Columns[1].Name = "S_" }, `imports.columns[1]: "S_": the name is missing`},
		{"consent column", func(m *router.Mapping) { m.Imports.Columns[1].Name = "dataCollection.way" }, `imports.columns[1]: "dataCollection.way": a file has no column for dataCollection`},
		{"separator", func(m *router.Mapping) { m.Imports.CSV.Separator = ";;" }, `imports.csv.separator: ";;": one ASCII character, not a line break`},
		{"enclosing", func(m *router.Mapping) { m.Imports.CSV.Separator, m.Imports.CSV.Enclosing = ";", ";" }, `imports.csv.enclosing: ";" is the separator too`},
		{"encoding", func(m *router.Mapping) { m.Imports.CSV.Encoding = "UTF-9" }, `imports.csv.encoding: "UTF-9" is not the name of an encoding; hint: write an IANA name such as UTF-8 or ISO-8859-1`},
		{"compression", func(m *router.Mapping) { m.Imports.CSV.Compression = "GIZP" }, `imports.csv.compression: unknown compression "GIZP"; hint: did you mean "GZIP"?`},
		{"rows", func(m *router.Mapping) { m.Imports.Roll.Rows = -1 }, `imports.roll.rows: -1: not below 0`},
		{"bytes", func(m *router.Mapping) { m.Imports.Roll.Bytes = -1 }, `imports.roll.bytes: -1: not below 0`},
		{"age", func(m *router.Mapping) { m.Imports.Roll.Age = -time.Second }, `imports.roll.age: -1s: not below 0`},
		{"no roll", func(m *router.Mapping) { m.Imports.Roll = router.Roll{} }, `imports.roll: without any limit a file would never be complete; hint: set rows, bytes or age`},
		{"retries", func(m *router.Mapping) { m.Imports.RetryFailed = -1 }, `imports.retryFailed: -1: not below 0`},
		{"reserve", func(m *router.Mapping) { m.Imports.Reserve = 12 }, `imports.reserve: 12: from 0 to slotsPerDay (12) less one`},
		{"timezone", func(m *router.Mapping) { m.Imports.Timezone = "Mars/Base" }, `imports.timezone: "Mars/Base" is not a time zone; hint: write an IANA name such as Europe/Paris or UTC`},
		{"local timezone", func(m *router.Mapping) { m.Imports.Timezone = "Local" }, `imports.timezone: "Local" is not a time zone; hint: write an IANA name such as Europe/Paris or UTC`},
		{"unknown parent", func(m *router.Mapping) { m.After = []string{"nobody"} }, `after[0]: there is no mapping "nobody"; hint: one of `},
		{"own parent", func(m *router.Mapping) { m.After = []string{"customers"} }, `after[0]: a mapping cannot wait for itself`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := customers()
			tc.change(&m)
			r, problems := router.Compile([]router.Mapping{m})
			if len(problems) != 1 || r != nil {
				t.Fatalf("problems: got %v, want one", problems)
			}
			sep := "."
			if tc.name == "no table" {
				sep = ": "
			}
			if got, want := problems[0].String(), "mappings[0]"+sep+tc.want; got != want {
				t.Errorf("problem:\n got %s\nwant %s", got, want)
			}
		})
	}
}

func TestCompileRefusesFieldsThatCannotWork(t *testing.T) {
	for _, tc := range []struct {
		field router.Field
		want  string
	}{
		{router.Field{From: "", To: "x"}, `fields[4].from: missing; hint: write from, or value for a constant, or expr for an expression`},
		{router.Field{From: "x", To: ""}, `fields[4].to: missing`},
		{router.Field{From: "x", To: "status"}, `fields[4].to: "status" is filled twice`},
		{router.Field{From: "x", To: "subscriptions#a"}, `fields[4].to: "subscriptions#a": a custom table has no subscriptions`},
		{router.Field{From: "x", To: "x", As: "numbr"}, `fields[4].as: unknown conversion "numbr"; hint: did you mean "number"?`},
		{router.Field{From: "x", To: "x", Scale: 2}, `fields[4].scale: only a number has a scale; hint: write as: number`},
		{router.Field{From: "x", To: "x", As: "number", Scale: 101}, `fields[4].scale: 101: from -100 to 100`},
	} {
		m := mappedOrders()
		m.Fields = append(m.Fields, tc.field)
		_, problems := router.Compile([]router.Mapping{m})
		if got, want := fmt.Sprint(problems), "[mappings[0]."+tc.want+"]"; got != want {
			t.Errorf("problems:\n got %s\nwant %s", got, want)
		}
	}
	m := mappedOrders()
	m.Fields = m.Fields[1:]
	_, problems := router.Compile([]router.Mapping{m})
	if got, want := fmt.Sprint(problems), `[mappings[0].fields: none of them fills the key "businessKey"; hint: add {from: …, to: businessKey}]`; got != want {
		t.Errorf("problems:\n got %s\nwant %s", got, want)
	}
}

func TestCompileLooksAtMappingsTogether(t *testing.T) {
	a, b, c := customers(), orders(), orders()
	a.After = []string{"orders"}
	b.Topics = []string{"crm.customers"}
	b.KafkaKey = "json"
	b.After = []string{"customers"}
	c.Key = "id"
	_, problems := router.Compile([]router.Mapping{a, b, c})
	got := ""
	for _, p := range problems {
		got += p.String() + "\n"
	}
	want := `mappings[0].after[0]: "orders" waits for this mapping, directly or through others
mappings[1].kafkaKey: json, but mappings[0] reads the topic crm.customers as text
mappings[1].after[0]: "customers" waits for this mapping, directly or through others
mappings[2].key: the key of a custom table is businessKey, not "id"; hint: write businessKey
mappings[2].name: "orders" is the name of mappings[1] too
mappings[2].customTable: mappings[1] feeds the table "orders" already; hint: give one mapping all of the table's topics
`
	if got != want {
		t.Errorf("problems:\n got %s\nwant %s", got, want)
	}
}

func TestCompileReportsEveryProblemAtOnce(t *testing.T) {
	m := customers()
	m.Format, m.Key, m.CustomTable = "xml", "", "orders"
	m.Routes = []router.Route{{When: "nope == 1", Lane: "slow"}}
	m.Imports.SlotsPerDay = 0
	_, problems := router.Compile([]router.Mapping{m})
	var paths []string
	for _, p := range problems {
		paths = append(paths, strings.TrimPrefix(p.Path, "mappings[0]."))
	}
	want := []string{"format", "customTable", "key", "routes[0].when", "routes[0].when", "routes[0].lane"}
	if !slices.Equal(paths, want) {
		t.Errorf("paths: got %q, want %q", paths, want)
	}
}

func TestCompileNeedsAnImportForTheBatchLane(t *testing.T) {
	m := customers()
	m.Imports.Upsert, m.Imports.Delete = nil, nil
	_, problems := router.Compile([]router.Mapping{m})
	want := `[mappings[0].imports: a route leads to the batch lane, but no import is configured; hint: name an ETL for each op that its events have, such as upsert]`
	if got := fmt.Sprint(problems); got != want {
		t.Errorf("problems:\n got %s\nwant %s", got, want)
	}
}

func TestLanesFollowRoutesAndImports(t *testing.T) {
	immediate := []router.Route{{Lane: "immediate"}}
	for _, tc := range []struct {
		name             string
		change           func(*router.Mapping)
		immediate, batch bool
	}{
		{"both routes", func(*router.Mapping) {}, true, true},
		{"batch only", func(m *router.Mapping) { m.Routes = []router.Route{{Lane: "batch"}} }, false, true},
		{"immediate with a delete import", func(m *router.Mapping) { m.Routes = immediate }, true, true},
		{"immediate with an upsert import", func(m *router.Mapping) { m.Routes, m.Imports.Delete = immediate, nil }, true, false},
	} {
		m := customers()
		tc.change(&m)
		r := compile(t, m)
		gotI, gotB := r.TopicLanes("crm.customers")
		if gotI != tc.immediate || gotB != tc.batch {
			t.Errorf("%s: topic: got immediate %v, batch %v, want %v, %v", tc.name, gotI, gotB, tc.immediate, tc.batch)
		}
		if i, b := r.Mappings()[0].Lanes(); i != gotI || b != gotB {
			t.Errorf("%s: mapping: got %v, %v, want as its only topic %v, %v", tc.name, i, b, gotI, gotB)
		}
	}
}

func TestRouterTellsTopicsByLane(t *testing.T) {
	r := compile(t, customers(), orders())
	if got, want := r.Topics(schemas.Immediate), []string{"crm.customers", "shop.orders"}; !slices.Equal(got, want) {
		t.Errorf("immediate topics: got %q, want %q", got, want)
	}
	if got, want := r.Topics(schemas.Batch), []string{"crm.customers"}; !slices.Equal(got, want) {
		t.Errorf("batch topics: got %q, want %q", got, want)
	}
	if got, want := r.Format("shop.orders"), "json"; got != want {
		t.Errorf("format: got %q, want %q", got, want)
	}
	if got := r.Format("unknown"); got != "" {
		t.Errorf("format of an unknown topic: got %q, want none", got)
	}
	if got := r.TopicMappings("shop.orders"); len(got) != 1 || got[0].Name != "orders" {
		t.Errorf("mappings of shop.orders: got %d, want the one of that name", len(got))
	}
}

func TestColumnsNameTheCellThatFillsThem(t *testing.T) {
	m := customers()
	m.Imports.Columns[1].Null = "NULL"
	want := []router.CSVColumn{
		{Header: "customerNumber", Section: schemas.Attributes, Name: "customerNumber", Absent: "empty", Null: "empty"},
		{Header: "emailAddress", Section: schemas.Attributes, Name: "emailAddress", Absent: "empty", Null: "NULL"},
		{Header: "subscriptions#newsletter", Section: schemas.Subscriptions, Name: "newsletter", Absent: "empty", Null: "empty"},
		{Header: "S_tier", Section: schemas.Segments, Name: "tier", Absent: "empty", Null: "empty"},
	}
	if got := compile(t, m).Mappings()[0].Columns; !slices.Equal(got, want) {
		t.Errorf("columns:\n got %+v\nwant %+v", got, want)
	}
}

// A ledger in Kafka holds fingerprints: the same configuration must keep its
// own across versions.
func TestFingerprintFollowsWhatARecordBecomes(t *testing.T) {
	of := func(change func(*router.Mapping)) uint64 {
		m := customers()
		change(&m)
		return compile(t, m).Mappings()[0].Fingerprint
	}
	base := of(func(*router.Mapping) {})
	if want := uint64(0xbfdce094d7a28d3d); base != want {
		t.Errorf("fingerprint of an unchanged mapping: got %#x, want %#x", base, want)
	}
	for name, change := range map[string]func(*router.Mapping){
		"name": func(m *router.Mapping) { m.Name = "others" }, "topics": func(m *router.Mapping) { m.Topics = []string{"x"} },
		"roll": func(m *router.Mapping) { m.Imports.Roll.Rows = 1 }, "csv": func(m *router.Mapping) { m.Imports.CSV.Separator = ";" },
		"slots": func(m *router.Mapping) { m.Imports.SlotsPerDay = 3 }, "default format": func(m *router.Mapping) { m.Format = "json" },
		"default column": func(m *router.Mapping) { m.Imports.Columns[0].Absent = "empty" },
	} {
		if got := of(change); got != base {
			t.Errorf("%s changed: got %#x, want the same %#x", name, got, base)
		}
	}
	for name, change := range map[string]func(*router.Mapping){
		"route":  func(m *router.Mapping) { m.Routes[0].When = `segments.tier == "silver"` },
		"column": func(m *router.Mapping) { m.Imports.Columns[1].Name = "name" },
		"absent": func(m *router.Mapping) { m.Imports.Columns[1].Absent = "0" },
		"etl":    func(m *router.Mapping) { m.Imports.Upsert.ETL = "7" },
		"table":  func(m *router.Mapping) { m.ProfileTable = "people" },
		"fields": func(m *router.Mapping) {
			m.Fields, m.Imports.Columns = []router.Field{{From: "n", To: "customerNumber"}}, m.Imports.Columns[:1]
		},
		"kafkaKey": func(m *router.Mapping) { m.KafkaKey = "json" },
		"types":    func(m *router.Mapping) { m.Types = []router.Type{{Name: "age", As: "integer"}} },
	} {
		if got := of(change); got == base {
			t.Errorf("%s changed: got the same %#x, want another", name, got)
		}
	}
}

func TestFingerprintFollowsEveryMemberOfAField(t *testing.T) {
	of := func(change func(*router.Mapping, *router.Field)) uint64 {
		m := mappedOrders()
		change(&m, &m.Fields[1])
		return compile(t, m).Mappings()[0].Fingerprint
	}
	base := of(func(*router.Mapping, *router.Field) {})
	if want := uint64(0x6e5e6755f2c383fc); base != want {
		t.Errorf("fingerprint of an unchanged mapping: got %#x, want %#x", base, want)
	}
	for name, change := range map[string]func(*router.Mapping, *router.Field){
		"op spelled out":     func(m *router.Mapping, _ *router.Field) { m.Op = "upsert" },
		"absent spelled out": func(_ *router.Mapping, f *router.Field) { f.Absent = router.Omit },
		"null spelled out":   func(_ *router.Mapping, f *router.Field) { f.Null = router.AsNull },
	} {
		if got := of(change); got != base {
			t.Errorf("%s: got %#x, want the same %#x", name, got, base)
		}
	}
	seen := map[uint64]string{base: "nothing"}
	for name, change := range map[string]func(*router.Mapping, *router.Field){
		"from":     func(_ *router.Mapping, f *router.Field) { f.From = "cents" },
		"value":    func(_ *router.Mapping, f *router.Field) { f.From, f.Value = "", "1" },
		"expr":     func(_ *router.Mapping, f *router.Field) { f.From, f.Expr = "", "1" },
		"to":       func(_ *router.Mapping, f *router.Field) { f.To = "total" },
		"as":       func(_ *router.Mapping, f *router.Field) { f.As = "integer" },
		"scale":    func(_ *router.Mapping, f *router.Field) { f.Scale = -3 },
		"format":   func(_ *router.Mapping, f *router.Field) { f.As, f.Scale, f.Format = "date", 0, "epochDays" },
		"timezone": func(_ *router.Mapping, f *router.Field) { f.As, f.Scale, f.Timezone = "date", 0, "UTC" },
		"default":  func(_ *router.Mapping, f *router.Field) { f.Default = "0" },
		"absent":   func(_ *router.Mapping, f *router.Field) { f.Absent = router.AsNull },
		"null":     func(_ *router.Mapping, f *router.Field) { f.Null = router.Omit },
		"both":     func(_ *router.Mapping, f *router.Field) { f.Default, f.Absent = "0", router.Omit },
		"op":       func(m *router.Mapping, _ *router.Field) { m.Op = "patch" },
		"length":   func(m *router.Mapping, _ *router.Field) { m.Types = []router.Type{{Name: "status", Length: 9}} },
	} {
		got := of(change)
		if other, ok := seen[got]; ok {
			t.Errorf("%s changed: got %#x, the fingerprint with %s changed", name, got, other)
		}
		seen[got] = name
	}
}
