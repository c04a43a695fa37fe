package check_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/check"
)

// customers is a profile mapping with both lanes.
func customers() router.Mapping {
	return router.Mapping{
		Name: "customers", Topics: []string{"crm.customers"}, ProfileTable: "customers", Key: "customerNumber",
		Routes: []router.Route{{When: `segments.tier == "gold"`, Lane: "immediate"}, {Lane: "batch"}},
		Imports: router.Imports{
			Upsert:      &router.Import{ETL: "101", Mode: "CREATE_OR_UPDATE"},
			Delete:      &router.Import{ETL: "102", Mode: "DELETE"},
			Columns:     []router.Column{{Name: "customerNumber"}, {Name: "emailAddress"}, {Name: "subscriptions#newsletter"}, {Name: "S_tier"}},
			Roll:        router.Roll{Rows: 500_000, Bytes: 256 << 20, Age: 2 * time.Hour},
			SlotsPerDay: 12, Reserve: 2, RetryFailed: 1, Timezone: "UTC",
		},
	}
}

// orders is a custom table's mapping of canonical events, immediate only.
func orders() router.Mapping {
	return router.Mapping{
		Name: "orders", Topics: []string{"shop.orders"}, CustomTable: "orders", Key: "businessKey",
		Routes: []router.Route{{Lane: "immediate"}},
	}
}

// ownETLs are a mapping's imports by ETLs of its own, of which its name tells them from those of others.
func ownETLs(im router.Imports, name string) router.Imports {
	for _, load := range []**router.Import{&im.Upsert, &im.Patch, &im.Merge, &im.Create, &im.Delete} {
		if *load != nil {
			own := **load
			own.ETL += name
			*load = &own
		}
	}
	return im
}

func problemsOf(ms ...router.Mapping) string {
	_, problems := check.Compile(ms)
	return fmt.Sprint(problems)
}

const (
	weightRule    = "routes[0].weight: must be above 0, from 0.000001 to 1000000, is "
	objectiveRule = "routes[0].objective: must be above 0 and below 1, is "
	objectiveHint = "; hint: write 0.999 for 99.9 %"
	weightHint    = "; hint: 10 gives the route ten times the calls of one without a weight"
)

func withObjective(share float64) func(*router.Mapping) {
	return func(m *router.Mapping) { m.Routes[0].Within, m.Routes[0].Objective = time.Second, &share }
}

// keyed has the mapping's key filled by a field.
func keyed(f router.Field) func(*router.Mapping) {
	return func(m *router.Mapping) {
		f.To = m.Key
		m.Fields, m.Routes, m.Imports.Columns = []router.Field{f}, m.Routes[1:], m.Imports.Columns[:1]
	}
}

func TestCompileRefusesWhatCannotWork(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*router.Mapping)
		want   string
	}{
		{"no name", func(m *router.Mapping) { m.Name = "" }, `name: missing`},
		{"name", func(m *router.Mapping) { m.Name = "My Customers" }, `name: "My Customers": 1 to 100 lower-case letters, digits, dots, dashes and underscores, no dot first`},
		{"name that is a dot", func(m *router.Mapping) { m.Name = "." }, `name: ".": 1 to 100 lower-case letters, digits, dots, dashes and underscores, no dot first`},
		{"name that is two dots", func(m *router.Mapping) { m.Name = ".." }, `name: "..": 1 to 100 lower-case letters, digits, dots, dashes and underscores, no dot first`},
		{"name that begins with a dot", func(m *router.Mapping) { m.Name = ".orders" }, `name: ".orders": 1 to 100 lower-case letters, digits, dots, dashes and underscores, no dot first`},
		{"long name", func(m *router.Mapping) { m.Name = strings.Repeat("n", 101) }, `name: "` + strings.Repeat("n", 101) + `": 1 to 100 lower-case letters, digits, dots, dashes and underscores, no dot first`},
		{"no topics", func(m *router.Mapping) { m.Topics = nil }, `topics: missing; hint: name at least one topic`},
		{"topic", func(m *router.Mapping) { m.Topics = []string{"a b"} }, `topics[0]: "a b" is not the name of a topic; hint: write up to 249 of the characters a-z A-Z 0-9 . _ -`},
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
		{"key format", func(m *router.Mapping) { m.KafkaKey = "binary" }, `kafkaKey: unknown value "binary"; hint: one of text, json, avro, json-schema, protobuf`},
		{"no table", func(m *router.Mapping) { m.ProfileTable = "" }, `names no table; hint: add profileTable or customTable`},
		{"no key", func(m *router.Mapping) { m.Key = "" }, `key: missing; hint: name the unique-key attribute of the table`},
		{"profile id", func(m *router.Mapping) { m.ProfileID = "a..b" }, `profileId: "a..b" is not a path: column 3: a name is missing; hint: write names separated by dots, elements as [0] or [*], other names as ["a.b"]`},
		{"no routes", func(m *router.Mapping) { m.Routes = nil }, `routes: missing; hint: write [{lane: immediate}] or [{lane: batch}]`},
		{"last route", func(m *router.Mapping) { m.Routes = m.Routes[:1] }, `routes[0].when: the last route must have no condition; hint: add a last route without when`},
		{"early end", func(m *router.Mapping) { m.Routes[0].When = "" }, `routes[0]: has no condition, so the routes after it can never match`},
		{
			"early end, and a condition last", func(m *router.Mapping) { m.Routes[0].When, m.Routes[1].When = "", m.Routes[0].When },
			`routes[0]: has no condition, so the routes after it can never match`,
		},
		{"no lane", func(m *router.Mapping) { m.Routes[0].Lane = "" }, `routes[0].lane: missing; hint: immediate, batch, auto or skip`},
		{"lane", func(m *router.Mapping) { m.Routes[0].Lane = "bach" }, `routes[0].lane: unknown lane "bach"; hint: did you mean "batch"?`},
		{
			"weight of rows", func(m *router.Mapping) { m.Routes[1].Weight = new(2.0) },
			`routes[1].weight: is a share of calls, and the route makes none; hint: remove it, or make the route's lane immediate or auto`,
		},
		{
			"within of nothing", func(m *router.Mapping) { m.Routes[0].Lane, m.Routes[0].Within = "skip", time.Hour },
			`routes[0].within: is how fresh the route's records are to be, and skip writes none; hint: remove it`,
		},
		{"within of the past", func(m *router.Mapping) { m.Routes[1].Within = -time.Hour }, `routes[1].within: -1h0m0s: not below 0; hint: write a duration, such as 2h`},
		{
			"objective without within", func(m *router.Mapping) { m.Routes[0].Objective = new(0.999) },
			`routes[0].objective: is the share of records that are in time, and nothing says when they are; hint: add within: 5s, how old a record may be when it is confirmed`,
		},
		{"objective in percent", withObjective(99.9), objectiveRule + "99.9" + objectiveHint},
		{"objective of all", withObjective(1), objectiveRule + "1" + objectiveHint},
		{"objective of none", withObjective(0), objectiveRule + "0" + objectiveHint},
		{"objective that is no number", withObjective(math.NaN()), objectiveRule + "NaN" + objectiveHint},
		{"name of a route", func(m *router.Mapping) { m.Routes[0].Name = "Gold" }, `routes[0].name: "Gold": 1 to 100 lower-case letters, digits, dots, dashes and underscores, a letter first`},
		{"name that is a number", func(m *router.Mapping) { m.Routes[0].Name = "2" }, `routes[0].name: "2": 1 to 100 lower-case letters, digits, dots, dashes and underscores, a letter first`},
		{
			"name of two routes", func(m *router.Mapping) { m.Routes[0].Name, m.Routes[1].Name = "gold", "gold" },
			`routes[1].name: "gold" is the name of routes[0] too; hint: give each route of the mapping a name of its own`,
		},
		{
			"spare of rows", func(m *router.Mapping) { m.Routes[1].Spare = new(false) },
			`routes[1].spare: is about calls in the place of rows, and only an auto route makes them; hint: remove it, or make the route's lane auto`,
		},
		{
			"no call ever", func(m *router.Mapping) { m.Routes[1].Lane, m.Routes[1].Spare = "auto", new(false) },
			"routes[1].spare: without within, no row is ever late, and no call would be made; hint: add within: 2h, or write lane: batch",
		},
		{"weight of none", func(m *router.Mapping) { m.Routes[0].Weight = new(0.0) }, weightRule + "0" + weightHint},
		{"negative weight", func(m *router.Mapping) { m.Routes[0].Weight = new(-1.0) }, weightRule + "-1" + weightHint},
		{"weight without end", func(m *router.Mapping) { m.Routes[0].Weight = new(math.Inf(1)) }, weightRule + "+Inf" + weightHint},
		{"weight that is no number", func(m *router.Mapping) { m.Routes[0].Weight = new(math.NaN()) }, weightRule + "NaN" + weightHint},
		{"no etl", func(m *router.Mapping) { m.Imports.Upsert.ETL = "" }, "imports.upsert.etl: missing; hint: `feedsink etl create --mapping customers` creates one and prints the line to write here"},
		{"mode", func(m *router.Mapping) { m.Imports.Upsert.Mode = "DELETE" }, `imports.upsert.mode: "DELETE" is not a mode that loads upsert; hint: write CREATE_OR_UPDATE`},
		{"columns", func(m *router.Mapping) { m.Imports.Columns = nil }, `imports.columns: missing; hint: list the columns of the CSV file, the key among them`},
		{"key column", func(m *router.Mapping) { m.Imports.Columns = m.Imports.Columns[1:] }, `imports.columns: the key column is missing; hint: add "customerNumber"`},
		{
			"misspelt key", func(m *router.Mapping) { m.Key = "customerNumbr" },
			`imports.columns: the key column is missing; hint: did you mean key: customerNumber? Else add "customerNumbr"`,
		},
		{"column twice", func(m *router.Mapping) { m.Imports.Columns[1].Name = "customerNumber" }, `imports.columns[1]: "customerNumber" is listed twice`},
		{"column without name", func(m *router.Mapping) { m.Imports.Columns[1].Name = "" }, `imports.columns[1]: missing`},
		{"segment without name", func(m *router.Mapping) { m.Imports.Columns[1].Name = "S_" }, `imports.columns[1]: "S_": the name is missing`},
		{"consent column", func(m *router.Mapping) { m.Imports.Columns[1].Name = "dataCollection.way" }, `imports.columns[1]: "dataCollection.way": a file has no column for dataCollection`},
		{"separator", func(m *router.Mapping) { m.Imports.CSV.Separator = ";;" }, `imports.csv.separator: ";;": one ASCII character, not a line break; hint: write two characters that differ, such as separator: ";" and enclosing: "'"`},
		{"enclosing", func(m *router.Mapping) { m.Imports.CSV.Separator, m.Imports.CSV.Enclosing = ";", ";" }, `imports.csv.enclosing: ";" is the separator too; hint: write two characters that differ, such as separator: ";" and enclosing: "'"`},
		{
			"enclosing as the separator of default", func(m *router.Mapping) { m.Imports.CSV.Separator, m.Imports.CSV.Enclosing = "", "," },
			`imports.csv.enclosing: "," is the separator too; hint: write two characters that differ, such as separator: ";" and enclosing: "'"`,
		},
		{
			"separator as the enclosing of default", func(m *router.Mapping) { m.Imports.CSV.Separator, m.Imports.CSV.Enclosing = `"`, "" },
			`imports.csv.separator: "\"" is the enclosing character too; hint: write two characters that differ, such as separator: ";" and enclosing: "'"`,
		},
		{
			"separator as the enclosing that is spelled", func(m *router.Mapping) { m.Imports.CSV.Separator, m.Imports.CSV.Enclosing = `"`, `"` },
			`imports.csv.separator: "\"" is the enclosing character too; hint: write two characters that differ, such as separator: ";" and enclosing: "'"`,
		},
		{
			"header that cannot be written", func(m *router.Mapping) {
				m.Imports.CSV.Encoding, m.Imports.Columns[1].Name = "ISO-8859-1", "price_in_€"
			},
			`imports.columns[1]: "price_in_€" has a character that the file's encoding ISO-8859-1 cannot write; hint: write csv: {encoding: UTF-8}, and have the ETL's definition say the same`,
		},
		{
			"key that is no attribute", func(m *router.Mapping) { m.Key, m.Imports.Columns[0].Name = "S_number", "S_number" },
			`key: "S_number" is no attribute; hint: name the unique-key attribute of the table`,
		},
		{"encoding", func(m *router.Mapping) { m.Imports.CSV.Encoding = "UTF-9" }, `imports.csv.encoding: "UTF-9" is not the name of an encoding; hint: write an IANA name such as UTF-8 or ISO-8859-1`},
		{"compression", func(m *router.Mapping) { m.Imports.CSV.Compression = "GIZP" }, `imports.csv.compression: unknown compression "GIZP"; hint: did you mean "GZIP"?`},
		{"rows", func(m *router.Mapping) { m.Imports.Roll.Rows = -1 }, `imports.roll.rows: -1: not below 0`},
		{"bytes", func(m *router.Mapping) { m.Imports.Roll.Bytes = -1 }, `imports.roll.bytes: -1: not below 0`},
		{"age", func(m *router.Mapping) { m.Imports.Roll.Age = -time.Second }, `imports.roll.age: -1s: not below 0`},
		{"no roll", func(m *router.Mapping) { m.Imports.Roll = router.Roll{} }, `imports.roll: without any limit a file would never be complete; hint: set rows, bytes, age or at`},
		{"no time of day", func(m *router.Mapping) { m.Imports.Roll.At = []string{"06:30", "24:00"} }, `imports.roll.at[1]: "24:00" is no time of day such as 06:30; hint: write hours and minutes in quotes, from "00:00" to "23:59"`},
		{"short time of day", func(m *router.Mapping) { m.Imports.Roll.At = []string{"6:30"} }, `imports.roll.at[0]: "6:30" is no time of day such as 06:30; hint: write hours and minutes in quotes, from "00:00" to "23:59"`},
		{"time of day twice", func(m *router.Mapping) { m.Imports.Roll.At = []string{"06:30", "06:30"} }, `imports.roll.at[1]: "06:30" is there twice; hint: leave it out`},
		{"times of day without slots", func(m *router.Mapping) { m.Imports.Roll.At, m.Imports.Reserve = []string{"06:30", "12:00"}, 11 }, `imports.roll.at: more times of day (2) than slots for files (1): each time needs one of slotsPerDay less reserve; hint: leave out some, or lower imports.reserve`},
		{"rows of a file", func(m *router.Mapping) { m.Imports.MaxFile.Rows = -1 }, `imports.maxFile.rows: -1: not below 0`},
		{"bytes of a file", func(m *router.Mapping) { m.Imports.MaxFile.Bytes = -1 }, `imports.maxFile.bytes: -1: not below 0`},
		{"hardly any bytes of a file", func(m *router.Mapping) { m.Imports.MaxFile.Bytes = 100 }, `imports.maxFile.bytes: 100: at least 1KiB, for the header and a row; hint: write 0 for no limit`},
		{
			"hardly any bytes beside the header", func(m *router.Mapping) {
				m.Imports.CSV.Compression, m.Imports.MaxFile.Bytes = "NONE", 2<<10
				m.Imports.Columns[1].Name = strings.Repeat("x", 2<<10-len("customerNumber,,subscriptions#newsletter,S_tier\n"))
			}, `imports.maxFile.bytes: 2048: at least 4KiB, for the header and a row; hint: write 0 for no limit`,
		},
		{"retries", func(m *router.Mapping) { m.Imports.RetryFailed = -1 }, `imports.retryFailed: -1: not below 0`},
		{"no slots", func(m *router.Mapping) { m.Imports.SlotsPerDay, m.Imports.Reserve = 0, 0 }, `imports.slotsPerDay: 0: from 1 to 1000000; hint: write how many imports of a day the table may take, such as 12`},
		{"more slots than are counted", func(m *router.Mapping) { m.Imports.SlotsPerDay = 99999999999 }, `imports.slotsPerDay: 99999999999: from 1 to 1000000; hint: write how many imports of a day the table may take, such as 12`},
		{"reserve", func(m *router.Mapping) { m.Imports.Reserve = 12 }, `imports.reserve: 12: from 0 to slotsPerDay (12) less one; hint: leave it out for two, or for all but one of fewer than three`},
		{"timezone", func(m *router.Mapping) { m.Imports.Timezone = "Mars/Base" }, `imports.timezone: "Mars/Base" is not a time zone; hint: write an IANA name such as Europe/Paris or UTC`},
		{"local timezone", func(m *router.Mapping) { m.Imports.Timezone = "Local" }, `imports.timezone: "Local" is not a time zone; hint: write an IANA name such as Europe/Paris or UTC`},
		{
			"key that is a constant", keyed(router.Field{Value: "1"}),
			`fields[0].value: the key "customerNumber" is the same for every record, so that all of them would be one row; hint: write from, the path of what tells records apart, or expr`,
		},
		{
			"key with a default", keyed(router.Field{From: "id", Default: `"0"`}),
			`fields[0].default: records without the key "customerNumber" would all be one row; hint: remove it: a record without a key is a dead letter`,
		},
		{"unknown parent", func(m *router.Mapping) { m.After = []string{"nobody"} }, `after[0]: there is no mapping "nobody"`},
		{"own parent", func(m *router.Mapping) { m.After = []string{"customers"} }, `after[0]: a mapping cannot wait for itself`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := customers()
			tc.change(&m)
			r, problems := check.Compile([]router.Mapping{m})
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

func TestCompileLooksAtMappingsTogether(t *testing.T) {
	a, b, c := customers(), orders(), orders()
	a.After = []string{"orders"}
	b.Topics = []string{"crm.customers"}
	b.KafkaKey = "json"
	b.After = []string{"customers"}
	c.Key = "id"
	_, problems := check.Compile([]router.Mapping{a, b, c})
	got := ""
	for _, p := range problems {
		got += p.String() + "\n"
	}
	want := `mappings[0].after[0]: "orders" waits for this mapping, directly or through others
mappings[1].kafkaKey: json, but mappings[0] reads the topic crm.customers as text; hint: write the same for all mappings of the topic: a record is decoded once
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
	_, problems := check.Compile([]router.Mapping{m})
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
	_, problems := check.Compile([]router.Mapping{m})
	want := `[mappings[0].imports: a route leads to the batch lane, but no import is configured; hint: name an ETL for each op that its events have, such as upsert]`
	if got := fmt.Sprint(problems); got != want {
		t.Errorf("problems:\n got %s\nwant %s", got, want)
	}
}

// A mapping whose records could only end as dead letters does not start.
func TestRoutesThatLeadNowhereAreRefused(t *testing.T) {
	fields := []router.Field{{From: "id", To: "customerNumber"}}
	immediate, batch := []router.Route{{Lane: "immediate"}}, []router.Route{{Lane: "batch"}}
	for _, tc := range []struct {
		name   string
		change func(*router.Mapping)
		want   string // "": it works
	}{
		{"patches by call without id", func(m *router.Mapping) { m.Op, m.Routes = "patch", immediate }, `routes[0].lane: every record is a patch, and a call needs the profile's id; hint: add profileId, the path of the service's id, or imports.patch`},
		{"deletes by call without id", func(m *router.Mapping) { m.Op, m.Routes, m.Imports.Delete = "delete", immediate, nil }, `routes[0].lane: every record is a delete, and a call needs the profile's id; hint: add profileId, the path of the service's id, or imports.delete`},
		{"creates by call", func(m *router.Mapping) { m.Op, m.Routes = "create", immediate }, `routes[0].lane: every record is a create, and a profile is created only by an import; hint: add imports.create`},
		{"merges by call", func(m *router.Mapping) { m.Op, m.ProfileID, m.Routes = "merge", "pid", immediate }, `routes[0].lane: every record is a merge, and a profile is merged only by an import; hint: add imports.merge`},
		{"merges as rows without import", func(m *router.Mapping) { m.Op, m.Routes = "merge", batch }, `routes[0].lane: every record is a merge, and no import loads it; hint: add imports.merge`},
		{"merges by call with an import", func(m *router.Mapping) {
			m.Op, m.Routes, m.Imports.Merge = "merge", immediate, &router.Import{ETL: "1", Mode: "CREATE_UPDATE"}
		}, ``},
		{"merges that update only", func(m *router.Mapping) {
			m.Op, m.Imports.Merge = "merge", &router.Import{ETL: "1", Mode: "UPDATE_ONLY"}
		}, `imports.merge.mode: "UPDATE_ONLY" is not a mode that loads merge; hint: write CREATE_OR_UPDATE`},
		{"upserts as rows without import", func(m *router.Mapping) { m.Routes, m.Imports.Upsert = batch, nil }, `routes[0].lane: every record is an upsert, and no import loads it; hint: add imports.upsert`},
		{"patches as rows without import", func(m *router.Mapping) { m.Op, m.ProfileID, m.Routes = "patch", "pid", batch }, `routes[0].lane: every record is a patch, and no import loads it; hint: add imports.patch`},
		{"patches by call with a path to the id", func(m *router.Mapping) { m.Op, m.ProfileID, m.Routes = "patch", "pid", immediate }, ``},
		{"patches by call with an import", func(m *router.Mapping) {
			m.Op, m.Routes, m.Imports.Patch = "patch", immediate, &router.Import{ETL: "1", Mode: "UPDATE_ONLY"}
		}, ``},
		{"an op that is computed", func(m *router.Mapping) { m.Op, m.Routes = `deleted ? "delete" : "upsert"`, immediate }, ``},
		{"events say theirs", func(m *router.Mapping) { m.Fields, m.Routes = nil, immediate }, ``},
		{"op beside events", func(m *router.Mapping) { m.Fields, m.Op = nil, "patch" }, `op: events without fields say their op themselves; hint: remove it, or add fields`},
		{"an op that is no expression", func(m *router.Mapping) { m.Op = "patch it" }, `op: column 7: unexpected token Identifier("it")`},
		{"what the service computes", func(m *router.Mapping) { m.Fields = append(fields[:1:1], router.Field{From: "d", To: "lastDevice"}) }, `fields[1].to: lastDevice is computed by the service and may be given only with op create, and no record of this mapping does that; hint: write op: create and imports.create for a mapping that creates profiles`},
		{"what the service computes, of some", func(m *router.Mapping) {
			m.Op, m.Imports.Create = `fresh == true ? "create" : "upsert"`, &router.Import{ETL: "104", Mode: "CREATE_ONLY"}
			m.Fields = append(fields[:1:1], router.Field{Expr: "fresh == true ? device : nil", To: "lastDevice"})
		}, ``},
		{"what the service computes, of changes", func(m *router.Mapping) {
			m.Envelope, m.Fields = "debezium", append(fields[:1:1], router.Field{From: "device", To: "lastDevice"})
		}, `fields[1].to: lastDevice is computed by the service and may be given only with op create, and no record of this mapping does that; hint: write op: create and imports.create for a mapping that creates profiles`},
		{"a column for that", func(m *router.Mapping) {
			m.Fields, m.Imports.Columns = nil, append(m.Imports.Columns, router.Column{Name: "blacklistMoment"})
		}, `imports.columns[1]: "blacklistMoment" is computed by the service: only an import of mode CREATE_ONLY may supply it; hint: remove it, or add imports.create`},
		{"a column that no field fills", func(m *router.Mapping) {
			m.Imports.Columns = append(m.Imports.Columns, router.Column{Name: "custmerNumber"})
		}, `imports.columns[1]: no field fills "custmerNumber"; hint: did you mean "customerNumber"?`},
		{"a column of a constant", func(m *router.Mapping) {
			m.Imports.Columns = append(m.Imports.Columns, router.Column{Name: "origin", Absent: "crm"})
		}, ``},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := customers()
			m.Fields, m.Imports.Columns = fields, []router.Column{{Name: "customerNumber"}}
			m.Routes = []router.Route{{When: `tier == "gold"`, Lane: "immediate"}, {Lane: "batch"}}
			tc.change(&m)
			if m.Fields == nil {
				m.Routes = m.Routes[len(m.Routes)-1:]
			}
			want := "[]"
			if tc.want != "" {
				want = "[mappings[0]." + tc.want + "]"
			}
			if got := problemsOf(m); got != want {
				t.Errorf("problems:\n got %s\nwant %s", got, want)
			}
		})
	}
}

// Every mistake is reported at once, each with its place and a hint.
func ExampleCompile() {
	_, problems := check.Compile([]router.Mapping{{
		Name: "customers", Topics: []string{"crm.customers"}, ProfileTable: "customers",
		Routes: []router.Route{{When: `segment.tier == "gold"`, Lane: "immediate"}, {Lane: "imediate"}},
	}})
	for _, p := range problems {
		fmt.Println(p)
	}
	// Output:
	// mappings[0].key: missing; hint: name the unique-key attribute of the table
	// mappings[0].routes[0].when: column 1: unknown name segment; hint: did you mean "segments"?
	// mappings[0].routes[1].lane: unknown lane "imediate"; hint: did you mean "immediate"?
}
