package check_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/check"
	"github.com/feedsink/feedsink/router/problem"
	"github.com/feedsink/feedsink/schemas"
)

// crm is two mappings of one bundle, orders behind the customers that they link to
// but before them in the configuration.
func crm() []router.Mapping {
	c, o := customers(), orders()
	c.Bundle, o.Bundle = "crm", "crm"
	c.Routes, o.Routes = []router.Route{{Lane: "batch"}}, []router.Route{{Lane: "batch"}}
	o.After = []string{"customers"}
	o.Imports = c.Imports
	o.Imports.Delete = nil
	o.Imports.Upsert = &router.Import{ETL: "101", Mode: "CREATE_OR_UPDATE"}
	o.Imports.Columns = []router.Column{{Name: "businessKey"}, {Name: "status"}}
	return []router.Mapping{o, c}
}

func TestBundlesThatCannotWorkAreRefused(t *testing.T) {
	create := &router.Import{ETL: "104", Mode: "CREATE_ONLY"}
	merge := &router.Import{ETL: "105", Mode: "CREATE_OR_UPDATE", IgnoresEmpty: true}
	for _, tc := range []struct {
		name   string
		change func(ms []router.Mapping) []router.Mapping
		want   string
	}{
		{"name", func(ms []router.Mapping) []router.Mapping { ms[0].Bundle, ms[1].Bundle = "C R M", "C R M"; return ms }, `bundle: "C R M": 1 to 100 lower-case letters, digits`},
		{"alone", func(ms []router.Mapping) []router.Mapping { ms[0].Bundle = "crn"; return ms }, `bundle: no other mapping is in the bundle "crn"; hint: did you mean "crm"?`},
		{"calls alone", func(ms []router.Mapping) []router.Mapping {
			ms[0].Routes, ms[0].Imports = []router.Route{{Lane: "immediate"}}, router.Imports{}
			return ms
		}, `bundle: no route leads to the batch lane, so there are no files to be bundled; hint: leave it out`},
		{"compression", func(ms []router.Mapping) []router.Mapping { ms[0].Imports.CSV.Compression = "GZIP"; return ms }, `imports.csv.compression: GZIP: the files of a bundle go as one ZIP; hint: leave it out`},
		{"roll", func(ms []router.Mapping) []router.Mapping { ms[1].Imports.Roll.Age = time.Hour; return ms }, `imports.roll: the files of a bundle are complete together, but mappings[0] of the bundle "crm" has another; hint: write what mappings[0] has`},
		{"retries", func(ms []router.Mapping) []router.Mapping { ms[1].Imports.RetryFailed = 0; return ms }, `imports.retryFailed: the files of a bundle are tried again together`},
		{"timezone", func(ms []router.Mapping) []router.Mapping { ms[1].Imports.Timezone = "Europe/Paris"; return ms }, `imports.timezone: the imports of a bundle belong to one calendar day`},
		{"ETL", func(ms []router.Mapping) []router.Mapping {
			ms[1].Imports.Upsert = &router.Import{ETL: "999", Mode: "CREATE_UPDATE"}
			return ms
		}, "imports.upsert.etl: 999, but mappings[0] of the bundle \"crm\" names 101: one ETL loads what one ZIP holds; hint: `feedsink etl create` makes the one for all of them"},
		{"name of an entry", func(ms []router.Mapping) []router.Mapping { ms[0].Imports.FileName = "../o.csv"; return ms }, `imports.fileName: "../o.csv": letters, digits`},
		{"entry twice", func(ms []router.Mapping) []router.Mapping { ms[1].Imports.FileName = "Orders.csv"; return ms }, `imports.fileName: "Orders.csv" is the name of the file of mappings[0] too`},
		{"calls of a parent", func(ms []router.Mapping) []router.Mapping { ms[1].Routes = customers().Routes; return ms }, `after[0]: "customers" goes through the immediate lane too, which a file that holds its rows cannot wait for; hint: route all of it to the batch lane`},
		{"name of another mapping", func(ms []router.Mapping) []router.Mapping {
			visits := orders()
			visits.Name, visits.CustomTable = "crm", "visits"
			return append(ms, visits)
		}, `bundle: "crm" is the name of mappings[2], which is not in it`},
		{"out of the bundle and back", func(ms []router.Mapping) []router.Mapping {
			visits := orders()
			visits.Name, visits.CustomTable, visits.After = "visits", "visits", []string{"customers"}
			ms[0].After = []string{"visits"}
			return append(ms, visits)
		}, `after[0]: "visits" waits for a mapping of the bundle "crm", which would wait for itself; hint: put it into the bundle too`},
		{"creates behind upserts", func(ms []router.Mapping) []router.Mapping { ms[1].Imports.Create = create; return ms }, `imports.create: creates are loaded behind the upserts of "orders", which link to them; hint: load them by upsert`},
		{"merges behind upserts", func(ms []router.Mapping) []router.Mapping { ms[1].Imports.Merge = merge; return ms }, `imports.merge: merges are loaded behind the other files of "orders", whose rows link to them; hint: load the mappings of the bundle by merges and deletes alone, or leave out bundle`},
		{"creates behind patches", func(ms []router.Mapping) []router.Mapping {
			ms[1].Imports.Create, ms[1].Imports.Patch = create, &router.Import{ETL: "103", Mode: "UPDATE_ONLY", IgnoresEmpty: true}
			return ms
		}, `imports.create: a create behind a patch goes behind the rows of "orders", which link to it`},
		{"entry of no bundle", func([]router.Mapping) []router.Mapping {
			m := customers()
			m.Imports.FileName = "x.csv"
			return []router.Mapping{m}
		}, `imports.fileName: is a name in the ZIP of a bundle, and the mapping is in none`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, problems := check.Compile(tc.change(crm()))
			if !slices.ContainsFunc(problems, func(p problem.Problem) bool { return strings.Contains(p.String(), tc.want) }) {
				t.Errorf("got %v\nwant %s", problems, tc.want)
			}
		})
	}
}

func TestBundlesThatWaitForOneAnotherAreRefused(t *testing.T) {
	ms := crm()
	for i, m := range crm() {
		m.Name, m.Bundle, m.After, m.Imports = fmt.Sprint("more", i), "more", nil, ownETLs(m.Imports, "more")
		m.ProfileTable, m.CustomTable = strings.Replace(m.ProfileTable, "customers", "prospects", 1), strings.Replace(m.CustomTable, "orders", "offers", 1)
		ms = append(ms, m)
	}
	ms[0].After, ms[3].After = []string{"more0"}, []string{"customers"}
	_, problems := check.Compile(ms)
	if len(problems) != 2 || problems[0].Path != "mappings[0].after[0]" || problems[1].Path != "mappings[3].after[0]" {
		t.Errorf("got %v, want both refused to wait", problems)
	}
	ms[3].After = nil
	if _, problems := check.Compile(ms); len(problems) > 0 {
		t.Errorf("one waits for the other: got %v, want no problem", problems)
	}
}

func TestAnETLOfABundleThatNoLongerFitsIsRefusedAtEachMapping(t *testing.T) {
	r, problems := check.Compile(crm())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	changed := crm()
	changed[1].Imports.Columns = changed[1].Imports.Columns[:2]
	for i := range changed {
		changed[i].Imports.Upsert = &router.Import{ETL: "101", Mode: "CREATE_OR_UPDATE", Fingerprint: r.Mappings()[i].ETLFingerprint(schemas.Upsert)}
	}
	_, problems = check.Compile(changed)
	if len(problems) != 2 || !strings.Contains(problems[0].String(), "mappings[0].imports.upsert.fingerprint: the ETL 101 was created for other columns") {
		t.Errorf("got %v, want the ETL's fingerprint refused at both mappings", problems)
	}
}
