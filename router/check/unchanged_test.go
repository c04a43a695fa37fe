package check_test

import (
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/check"
)

// skipping are orders of which a call that says nothing new is not made.
func skipping() router.Mapping {
	m := orders()
	m.Unchanged, m.UnchangedFor = "skip", 24*time.Hour
	return m
}

func TestUnchangedIsRefusedWhereOthersMayWriteTheRow(t *testing.T) {
	parent := router.Mapping{
		Name: "customers", Topics: []string{"crm.customers"}, ProfileTable: "customers", Key: "customerNumber",
		Routes: []router.Route{{Lane: "immediate"}},
	}
	load := &router.Import{ETL: "103", Mode: "CREATE_OR_UPDATE"}
	for name, c := range map[string]struct {
		change func(*router.Mapping)
		want   string
	}{
		"skip": {func(*router.Mapping) {}, "[]"},
		"another word": {
			func(m *router.Mapping) { m.Unchanged = "yes" },
			`unchanged: "yes" is no choice; hint: write skip, or nothing`,
		},
		"a time that is none": {func(m *router.Mapping) { m.UnchangedFor = 0 }, `unchangedFor: must be at least 1s, is 0s; hint: 24h is the default`},
		"a time without it":   {func(m *router.Mapping) { m.Unchanged, m.UnchangedFor = "", time.Hour }, "unchangedFor: means nothing without unchanged; hint: add unchanged: skip"},
		"two topics":          {func(m *router.Mapping) { m.Topics = append(m.Topics, "shop.more") }, "unchanged: skip is for one topic: two members"},
		"a route to files": {func(m *router.Mapping) {
			m.Routes = []router.Route{{When: "op == 'delete'", Lane: "immediate"}, {Lane: "batch"}}
			m.Imports.Upsert = load
		}, "unchanged: skip is for mappings whose records all go by calls"},
		"files alone":            {func(m *router.Mapping) { m.Routes[0].Lane = "batch"; m.Imports.Upsert = load }, "unchanged: skip is for routes that lead to the immediate lane"},
		"an auto route":          {func(m *router.Mapping) { m.Routes[0].Lane = "auto"; m.Imports.Upsert = load }, "unchanged: skip is for routes that lead to the immediate lane"},
		"creates":                {func(m *router.Mapping) { m.Op, m.Fields = "create", []router.Field{{From: "id", To: "businessKey"}} }, "unchanged: has no effect: every record is a create"},
		"a profile's linked row": {func(m *router.Mapping) { m.After = []string{"customers"} }, `unchanged: skip cannot be used after "customers": a profile that is deleted`},
	} {
		m := skipping()
		c.change(&m)
		if got := problemsOf(parent, m); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestWhatCouldSkipIsWhatIsNotRefused(t *testing.T) {
	parent := customers()
	parent.Name = "parent"
	for name, c := range map[string]struct {
		change func(*router.Mapping)
		want   bool
	}{
		"calls":      {func(*router.Mapping) {}, true},
		"two topics": {func(m *router.Mapping) { m.Topics = append(m.Topics, "shop.more") }, false},
		"files": {func(m *router.Mapping) {
			m.Routes[0].Lane, m.Imports.Upsert = "batch", &router.Import{ETL: "103", Mode: "CREATE_OR_UPDATE"}
		}, false},
		"a profile's linked row": {func(m *router.Mapping) { m.After = []string{"parent"} }, false},
	} {
		m := orders()
		c.change(&m)
		r, problems := router.Compile([]router.Mapping{parent, m})
		if len(problems) > 0 {
			t.Fatal(name, problems)
		}
		if got := check.CouldSkipUnchanged(r.Mappings(), r.Mappings()[1]); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestRecordsThatMayGoWithAProfileAreWarnedOf(t *testing.T) {
	const want = "if the definition of table orders deletes its records with the profile that they are linked to"
	profiles := customers()
	for name, c := range map[string]struct {
		all  []router.Mapping
		want bool
	}{
		"profiles beside it":  {[]router.Mapping{profiles, skipping()}, true},
		"none":                {[]router.Mapping{skipping()}, false},
		"profiles themselves": {[]router.Mapping{profiles, orders()}, false},
	} {
		if got := warningsOf(t, c.all...); strings.Contains(got, want) != c.want {
			t.Errorf("%s: got %s", name, got)
		}
	}
}
