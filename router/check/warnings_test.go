package check_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/check"
)

func warningsOf(t *testing.T, ms ...router.Mapping) string {
	t.Helper()
	r, problems := check.Compile(ms)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return fmt.Sprint(check.Warnings(r))
}

func TestMergesOfProfilesThatAreRoutedToCallsAreWarnedOf(t *testing.T) {
	m := customers()
	m.Fields, m.Op = []router.Field{{From: "number", To: "customerNumber"}}, "merge"
	m.Imports.Columns, m.Imports.Merge = m.Imports.Columns[:1], &router.Import{ETL: "105", Mode: "CREATE_OR_UPDATE", IgnoresEmpty: true}
	m.Routes = []router.Route{{Lane: "immediate"}}
	want := "[mappings[0].routes[0].lane: has no effect: every record is a merge, which for a profile goes only by an import; hint: write batch]"
	if got := warningsOf(t, m); got != want {
		t.Errorf("calls: got %s, want %s", got, want)
	}
	m.Routes[0].Lane = "batch"
	if got := warningsOf(t, m); got != "[]" {
		t.Errorf("files: got %s, want no warning", got)
	}
}

func TestTablesWhoseSlotsDoNotFitIntoALedgerAreWarnedOf(t *testing.T) {
	var ms []router.Mapping
	for i := range 8 {
		m := customers()
		m.Name, m.ProfileTable, m.When = fmt.Sprint("m", i), fmt.Sprint("t", i), fmt.Sprintf(`op == "delete" or attributes.country == %d`, i)
		m.Imports = ownETLs(m.Imports, m.Name)
		m.Imports.SlotsPerDay = 96
		ms = append(ms, m)
	}
	if got := warningsOf(t, ms[:7]...); got != "[]" {
		t.Errorf("7 tables: got %s, want no warning", got)
	}
	want := fmt.Sprintf("[mappings[7].imports.slotsPerDay: 8 tables have the first topic %s: the ledger of its partition 0 has hardly room for all of their slots, "+
		"and imports wait for each other; hint: lower slotsPerDay; or have fewer tables with this topic as their first]", ms[0].Topics[0])
	if got := warningsOf(t, ms...); got != want {
		t.Errorf("8 tables: got %s\nwant %s", got, want)
	}
	for i := range ms {
		ms[i].Imports.SlotsPerDay = 12
	}
	if got := warningsOf(t, ms...); got != "[]" {
		t.Errorf("with fewer slots: got %s, want no warning", got)
	}
}

func TestTimesOfDayThatMayWantMoreThanTheReserveAreWarnedOf(t *testing.T) {
	m := customers() // it loads upserts and deletes
	m.Imports.Roll.At = []string{"05:28", "05:29"}
	if got := warningsOf(t, m); got != "[]" {
		t.Errorf("a reserve of 2: got %s, want no warning", got)
	}
	m.Imports.Reserve = 0
	want := "[mappings[0].imports.roll.at: each op is an import of its own, so that a time may want 2 and the day 2 beyond those kept for it; " +
		"they take of the reserve (0), and with none left rows wait; hint: raise imports.reserve to 2, or have fewer times]"
	if got := warningsOf(t, m); got != want {
		t.Errorf("no reserve: got %s\nwant %s", got, want)
	}
	m.Imports.Delete = nil
	if got := warningsOf(t, m); got != "[]" {
		t.Errorf("one op: got %s, want no warning", got)
	}
}

func TestTopicThatTwoMappingsTakeWholeIsAWarning(t *testing.T) {
	first, second := orders(), orders()
	second.Name, second.CustomTable, second.Topics = "lines", "lines", []string{"shop.returns", "shop.orders"}
	const want = "[mappings[1].topics[1]: mappings[0] takes every record of the topic shop.orders, too, so each is written to both tables; " +
		"hint: divide the topic by when; or join the mappings by after or bundle, if both tables are meant]"
	if got := warningsOf(t, first, second); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	for name, change := range map[string]func(){
		"another topic":    func() { second.Topics = second.Topics[:1] },
		"a condition":      func() { second.When = `op == "delete" or properties.line != nil` },
		"a condition, too": func() { first.When = `properties.line == nil` },
		"a parent":         func() { second.After = []string{"orders"} },
		"a child":          func() { first.After = []string{"lines"} },
		"another kind": func() {
			second = customers()
			second.Topics = first.Topics
		},
		"a bundle": func() {
			for _, m := range []*router.Mapping{&first, &second} {
				m.Bundle, m.Routes, m.Imports = "shop", []router.Route{{Lane: "batch"}}, customers().Imports
				m.Imports.Columns = []router.Column{{Name: "businessKey"}}
			}
		},
	} {
		first, second = orders(), orders()
		second.Name, second.CustomTable, second.Topics = "lines", "lines", []string{"shop.returns", "shop.orders"}
		if change(); warningsOf(t, first, second) != "[]" {
			t.Errorf("%s: got %s, want no warning", name, warningsOf(t, first, second))
		}
	}
}

func TestRouteToCallsThatNoRecordTakesIsAWarning(t *testing.T) {
	m := customers()
	m.Op, m.Fields = "patch", []router.Field{{From: "id", To: m.Key}}
	m.Routes = []router.Route{{When: "vip == true", Lane: "immediate"}, {Lane: "batch"}}
	m.Imports.Patch, m.Imports.Columns = &router.Import{ETL: "9", Mode: "UPDATE_ONLY", IgnoresEmpty: true}, []router.Column{{Name: m.Key}}
	const want = "mappings[0].routes[0].lane: has no effect: every record is a patch, and without the profile's id it goes by file; " +
		"hint: add profileId, the path of the service's id; or write batch"
	if got := warningsOf(t, m); !strings.Contains(got, want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
	m.ProfileID = "pid"
	if got := warningsOf(t, m); strings.Contains(got, "no effect") {
		t.Errorf("with profileId: got %s, want no warning", got)
	}
	m.ProfileID, m.Op, m.Imports.Create = "", "create", &router.Import{ETL: "8", Mode: "CREATE_ONLY"}
	if got := warningsOf(t, m); !strings.Contains(got, "every record is a create, which for a profile goes only by an import") {
		t.Errorf("a create: got %s, want a warning", got)
	}
	m.Op = "upsert"
	if got := warningsOf(t, m); strings.Contains(got, "no effect") {
		t.Errorf("an upsert: got %s, want no warning", got)
	}
}

func TestAutoRoutesOfWhichAllRowsGoByFileAreWarnedOf(t *testing.T) {
	m := customers()
	m.Routes = []router.Route{{Lane: "auto"}}
	if got := warningsOf(t, m); got != "[]" {
		t.Errorf("calls: got %s, want no warning", got)
	}
	m.Routes = []router.Route{{When: `op == "delete"`, Lane: "immediate"}, {Lane: "auto"}}
	if got := warningsOf(t, m); got != "[]" {
		t.Errorf("both lanes: got %s, want no warning", got)
	}
	child := orders()
	child.After, child.Routes, child.Imports = []string{m.Name}, []router.Route{{Lane: "auto"}}, ownETLs(m.Imports, "orders")
	child.Imports.Columns = []router.Column{{Name: "businessKey"}}
	const want = "auto is as batch here, and all rows go by file: a mapping that it comes after makes calls in the immediate lane, which only a file waits for; hint: write batch"
	if got := warningsOf(t, m, child); !strings.Contains(got, want) {
		t.Errorf("behind calls: got %s, want %s", got, want)
	}
}

func TestTableThatDependsOnTheLaneIsAWarning(t *testing.T) {
	m := orders()
	m.Fields = []router.Field{{From: "id", To: "businessKey"}, {From: "total", To: "total"}, {From: "status", To: "status"}}
	m.Routes = []router.Route{{When: "total > 100", Lane: "immediate"}, {Lane: "batch"}}
	m.Imports = customers().Imports
	m.Imports.Columns = []router.Column{{Name: "businessKey"}, {Name: "total"}, {Name: "status"}}
	const want = "[mappings[0].imports.columns: an upsert that does not name total or status clears that by file, and keeps it by call: the table depends on the lane; hint: "
	const keep = "write the columns as {name: NAME, null: immediate}, so that a file keeps them, too, and create the ETL again]"
	if got := warningsOf(t, m); got != want+"write absent: null for their fields, so that a call clears them, too; or "+keep {
		t.Errorf("got %s", got)
	}
	for name, change := range map[string]func(*router.Mapping){
		"a call clears, too": func(m *router.Mapping) {
			m.Fields[1].Absent, m.Fields[2].Absent = router.AsNull, router.AsNull
		},
		"never without": func(m *router.Mapping) {
			m.Fields[1].Absent, m.Fields[2] = router.Refuse, router.Field{Value: `"PAID"`, To: "status"}
		},
		"a default": func(m *router.Mapping) { m.Fields[1].Default, m.Fields[2].Default = "0", `"NEW"` },
		"a file keeps": func(m *router.Mapping) {
			m.Imports.Columns[1].Null, m.Imports.Columns[2].Null = "immediate", "immediate"
		},
		"the ETL keeps": func(m *router.Mapping) {
			m.Imports.Upsert = &router.Import{ETL: "1", Mode: "CREATE_UPDATE", IgnoresEmpty: true}
		},
		"calls alone":   func(m *router.Mapping) { m.Routes = m.Routes[:1:1]; m.Routes[0].When = "" },
		"an auto route": func(m *router.Mapping) { m.Routes = []router.Route{{Lane: "auto"}} },
		"the key alone": func(m *router.Mapping) {
			m.Fields, m.Imports.Columns = m.Fields[:1], m.Imports.Columns[:1]
		},
		"no upsert":       func(m *router.Mapping) { m.Op, m.Imports.Delete = "delete", &router.Import{ETL: "2", Mode: "DELETE"} },
		"whole rows":      func(m *router.Mapping) { m.Envelope = "debezium" },
		"deletes by call": func(m *router.Mapping) { m.Fields, m.Routes[0].When = nil, `op == "delete"` },
	} {
		one := m
		one.Fields, one.Routes, one.Imports.Columns = slices.Clone(m.Fields), slices.Clone(m.Routes), slices.Clone(m.Imports.Columns)
		if change(&one); strings.Contains(warningsOf(t, one), "depends on the lane") {
			t.Errorf("%s: got %s, want no warning", name, warningsOf(t, one))
		}
	}
	called := m
	called.Routes, called.Imports.Columns = m.Routes[1:], []router.Column{{Name: "businessKey"}, {Name: "total"}, {Name: "status", Null: "immediate"}}
	if got := warningsOf(t, called); !strings.Contains(got, "an upsert that does not name total clears that by file, and keeps it by call") {
		t.Errorf("a call for another column: got %s", got)
	}
	m.Fields, m.Routes[0].When = nil, "properties.total > 100"
	if got := warningsOf(t, m); got != want+keep {
		t.Errorf("canonical events: got %s", got)
	}
}

// What a file keeps of a profile, a call, which replaces it, clears.
func TestProfileThatDependsOnTheLaneIsAWarning(t *testing.T) {
	m := customers()
	m.Imports.Columns = []router.Column{{Name: m.Key}, {Name: "emailAddress"}, {Name: "country", Null: "immediate"}, {Name: "S_tier", Null: "none"}}
	const want = "[mappings[0].imports.columns: an upsert that does not name %s keeps that by file, and clears it by call: the table depends on the lane; " +
		"hint: write absent: immediate for the columns, so that such an event is a call; or absent: VALUE, which both lanes write; " +
		"or leave out their null and ignoresEmpty, so that a file clears them, too; then create the ETL again]"
	for name, c := range map[string]struct {
		change func(*router.Mapping)
		named  string
	}{
		"routes":       {func(*router.Mapping) {}, "country or S_tier"},
		"an auto lane": {func(m *router.Mapping) { m.Routes[1].Lane = "auto" }, "country or S_tier"},
		"the ETL keeps": {func(m *router.Mapping) {
			m.Imports.Upsert = &router.Import{ETL: "1", Mode: "CREATE_UPDATE", IgnoresEmpty: true}
		}, "emailAddress, country or S_tier"},
		"another column's calls": {func(m *router.Mapping) { m.Routes = m.Routes[1:] }, "S_tier"},
		"two columns' calls": {func(m *router.Mapping) {
			m.Routes, m.Imports.Columns[3] = m.Routes[1:], router.Column{Name: "city", Null: "immediate"}
		}, "country or city"},
	} {
		one := m
		one.Routes, one.Imports.Columns = slices.Clone(m.Routes), slices.Clone(m.Imports.Columns)
		if c.change(&one); warningsOf(t, one) != fmt.Sprintf(want, c.named) {
			t.Errorf("%s: got %s\nwant %s", name, warningsOf(t, one), fmt.Sprintf(want, c.named))
		}
	}
	for name, change := range map[string]func(*router.Mapping){
		"a file clears, too": func(m *router.Mapping) { m.Imports.Columns = m.Imports.Columns[:2] },
		"a call for each": func(m *router.Mapping) {
			m.Imports.Columns[2].Absent, m.Imports.Columns[3].Absent = "immediate", "immediate"
		},
		"a text in place": func(m *router.Mapping) { m.Imports.Columns[2].Absent, m.Imports.Columns[3].Absent = "FR", "none" },
		"files alone":     func(m *router.Mapping) { m.Routes, m.Imports.Columns = m.Routes[1:], m.Imports.Columns[:3] },
		"rows that are called": func(m *router.Mapping) {
			m.Routes, m.Imports.Columns = []router.Route{{Lane: "auto"}}, append(m.Imports.Columns[:2], m.Imports.Columns[3])
		},
		"deletes by call": func(m *router.Mapping) { m.Routes[0].When, m.Imports.Columns = `op == "delete"`, m.Imports.Columns[:3] },
	} {
		one := m
		one.Routes, one.Imports.Columns = slices.Clone(m.Routes), slices.Clone(m.Imports.Columns)
		if change(&one); warningsOf(t, one) != "[]" {
			t.Errorf("%s: got %s, want no warning", name, warningsOf(t, one))
		}
	}
}

// Without its type a literal is text, which a cell is not: a call says "0" where a file says 0.
func TestLiteralsOfWhichTheTypeIsNotKnownAreWarnedOf(t *testing.T) {
	profile, table := customers(), orders()
	table.Imports = profile.Imports
	table.Routes, table.Imports.Columns = []router.Route{{Lane: "auto"}}, []router.Column{{Name: "businessKey"}}
	warning := func(path, text, name, as, what string) string {
		return fmt.Sprintf("mappings[0].imports.columns[%s: %s is text in a call, as the type of %q is not known: where the column is %s, a file is taken and a call refused; "+
			"hint: name its type: types: [{name: %s, as: %s}], or as: string if it is text", path, text, name, what, name, as)
	}
	for _, c := range []struct {
		m      router.Mapping
		column router.Column
		want   string
	}{
		{profile, router.Column{Name: "n", Absent: "0", Null: "-1.5"}, "[" + warning("1].absent", `"0"`, "n", "number", "a number") + " " + warning("1].null", `"-1.5"`, "n", "number", "a number") + "]"},
		{profile, router.Column{Name: "b", Absent: "false"}, "[" + warning("1].absent", `"false"`, "b", "boolean", "true or false") + "]"},
		{profile, router.Column{Name: "l", Absent: `["x"]`}, "[" + warning("1].absent", `"[\"x\"]"`, "l", "list", "a list") + "]"},
		{table, router.Column{Name: "n", Absent: "0"}, "[" + warning("1].absent", `"0"`, "n", "number", "a number") + "]"},
		{table, router.Column{Name: "b", Absent: "false"}, "[]"}, // a property that is true or false is text
		{profile, router.Column{Name: "n", Absent: "none"}, "[]"},
		{profile, router.Column{Name: "n", Absent: "007"}, "[]"},
		{profile, router.Column{Name: "S_vip", Absent: "false", Null: "false"}, "[]"},
		{profile, router.Column{Name: "subscriptions#news", Absent: "true"}, "[]"},
	} {
		m := c.m
		m.Imports.Columns = []router.Column{m.Imports.Columns[0], c.column}
		if got := warningsOf(t, m); got != c.want {
			t.Errorf("%+v: got %s\nwant %s", c.column, got, c.want)
		}
	}
	for name, change := range map[string]func(*router.Mapping){
		"a type": func(m *router.Mapping) { m.Types = []router.Type{{Name: "n", As: "number"}} },
		"a field": func(m *router.Mapping) {
			m.Fields = []router.Field{{From: "id", To: m.Key}, {From: "n", To: "n", As: "number"}}
		},
		"files": func(*router.Mapping) {},
	} {
		m := profile
		m.Routes, m.Imports.Columns = []router.Route{{Lane: "auto"}}, []router.Column{{Name: m.Key}, {Name: "n", Absent: "0", Null: "0"}}
		if name == "files" {
			m.Routes[0].Lane = "batch"
		}
		if change(&m); warningsOf(t, m) != "[]" {
			t.Errorf("%s: got %s, want no warning", name, warningsOf(t, m))
		}
	}
}

func TestFieldsThatNoFileHasAreWarnedOf(t *testing.T) {
	m := orders()
	m.Fields = []router.Field{{From: "id", To: "businessKey"}, {From: "total", To: "total"}, {From: "status", To: "status"}}
	m.Routes, m.Imports = []router.Route{{Lane: "batch"}}, customers().Imports
	m.Imports.Columns = []router.Column{{Name: "businessKey"}}
	const want = "[mappings[0].imports.columns: files leave out what fields say of total or status, for which no column is listed; " +
		"hint: add the column and create the ETL again, or remove the field]"
	for name, change := range map[string]func(*router.Mapping){
		"rows": func(*router.Mapping) {},
		"auto": func(m *router.Mapping) { m.Routes[0].Lane = "auto" },
		"both": func(m *router.Mapping) {
			m.Routes = []router.Route{{When: "total > 100", Lane: "immediate"}, {Lane: "batch"}}
		},
	} {
		one := m
		one.Routes = slices.Clone(m.Routes)
		if change(&one); warningsOf(t, one) != want {
			t.Errorf("%s: got %s\nwant %s", name, warningsOf(t, one), want)
		}
	}
	for name, change := range map[string]func(*router.Mapping){
		"columns": func(m *router.Mapping) {
			m.Imports.Columns = append(m.Imports.Columns, router.Column{Name: "total"}, router.Column{Name: "status"})
		},
		"calls":   func(m *router.Mapping) { m.Routes[0].Lane = "immediate" },
		"deletes": func(m *router.Mapping) { m.Op = "delete" },
		"events":  func(m *router.Mapping) { m.Fields = nil },
	} {
		one := m
		one.Routes, one.Imports.Columns = slices.Clone(m.Routes), slices.Clone(m.Imports.Columns)
		if change(&one); warningsOf(t, one) != "[]" {
			t.Errorf("%s: got %s, want no warning", name, warningsOf(t, one))
		}
	}
}

func TestProfileFieldsThatNoFileHasAreWarnedOf(t *testing.T) {
	m := customers()
	m.Fields = []router.Field{{From: "number", To: m.Key}, {From: "at", To: "dataCollection.date"}, {From: "mail", To: "emailAddress"}}
	m.Routes, m.Imports.Columns = []router.Route{{Lane: "immediate"}}, []router.Column{{Name: m.Key}, {Name: "emailAddress"}}
	if got := warningsOf(t, m); got != "[]" {
		t.Errorf("files of deletes: got %s, want no warning", got)
	}
	m.Op, m.ProfileID, m.Imports.Patch = `gone ? "delete" : "patch"`, "pid", &router.Import{ETL: "103", Mode: "UPDATE_ONLY", IgnoresEmpty: true}
	const want = "mappings[0].fields: files leave out what fields say of dataCollection.date, for which a file can have no column; " +
		"hint: route to the immediate lane what needs it, or remove the field"
	if got := warningsOf(t, m); !strings.Contains(got, want) {
		t.Errorf("patches without an id: got %s\nwant %s", got, want)
	}
}
