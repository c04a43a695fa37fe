package check_test

import (
	"fmt"
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
	want := "[mappings[0].routes[1].lane: auto is as batch here, and all rows go by file: " +
		"some of the mapping's records take the immediate lane, whose calls a call of this route could overtake; hint: write batch]"
	if got := warningsOf(t, m); got != want {
		t.Errorf("both lanes: got %s, want %s", got, want)
	}
}
