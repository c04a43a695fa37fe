package check_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/check"
	"github.com/feedsink/feedsink/schemas"
)

// patching is a mapping with patches by file, or merges.
func patching(op schemas.Op, load router.Import, columns ...router.Column) router.Mapping {
	m := customers()
	if load.ETL, load.Mode = "103", "UPDATE_ONLY"; op == schemas.Merge {
		load.Mode, m.Imports.Merge = "CREATE_OR_UPDATE", &load
	} else {
		m.Imports.Patch = &load
	}
	m.Imports.Columns = append([]router.Column{{Name: "customerNumber"}}, columns...)
	return m
}

func TestPatchesAndMergesByFileNeedAnETLKnownToIgnoreEmptyValues(t *testing.T) {
	for _, op := range []schemas.Op{schemas.Patch, schemas.Merge} {
		t.Run(op.String(), func(t *testing.T) { needsETL(t, op) })
	}
}

func needsETL(t *testing.T, op schemas.Op) {
	refusal := "mappings[0].imports.patch: a patch's row leaves empty what it does not name, and nothing says that the ETL 103 ignores empty values: " +
		"where it does not, every such row would erase fields of the table; hint: if the ETL's definition has ignoreEmptyValues: true for every column but the key's, " +
		"write `patch: {etl: \"103\", mode: UPDATE_ONLY, ignoresEmpty: true}`; if not, or if that cannot be told, " +
		"create one that has with `feedsink etl create --mapping customers --op patch` and write the line that it prints"
	if op == schemas.Merge {
		refusal = strings.NewReplacer("patch", "merge", "UPDATE_ONLY", "CREATE_OR_UPDATE").Replace(refusal)
	}
	email, age := router.Column{Name: "emailAddress"}, router.Column{Name: "age", Absent: "0", Null: "0"}
	called := router.Column{Name: "emailAddress", Absent: "immediate"}
	fingerprint := func(columns ...router.Column) string {
		r, problems := check.CompileUnfinished([]router.Mapping{patching(op, router.Import{}, columns...)})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return r.Mappings()[0].ETLFingerprint(op)
	}
	for name, c := range map[string]struct {
		m    router.Mapping
		want string
	}{
		"nothing is known":              {patching(op, router.Import{}, email), refusal},
		"of a literal neither":          {patching(op, router.Import{}, age), refusal},
		"one column is enough":          {patching(op, router.Import{}, called, age), refusal},
		"declared":                      {patching(op, router.Import{IgnoresEmpty: true}, email, age), ""},
		"created":                       {patching(op, router.Import{Fingerprint: fingerprint(email)}, email), ""},
		"no cell is ever left unsaid":   {patching(op, router.Import{}, called), ""},
		"created for other columns":     {patching(op, router.Import{Fingerprint: fingerprint(email)}, email, age), "was created for other columns"},
		"created when it was another's": {patching(op, router.Import{Fingerprint: fingerprint(called)}, email), "was created for other columns"},
	} {
		_, problems := check.Compile([]router.Mapping{c.m})
		got := ""
		for _, p := range problems {
			got += p.String()
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
		if _, problems := check.CompileUnfinished([]router.Mapping{c.m}); len(problems) > 0 {
			t.Errorf("%s, to create ETLs for: got %v, want no problem", name, problems)
		}
	}
}

func TestOneETLLoadsOneOp(t *testing.T) {
	m := customers()
	m.Imports.Delete.ETL = m.Imports.Upsert.ETL
	_, problems := check.Compile([]router.Mapping{m})
	want := "mappings[0].imports.delete.etl: 101 is the ETL of imports.upsert too, and an ETL has one mode; hint: create one with `feedsink etl create --mapping customers --op delete`"
	if len(problems) != 1 || problems[0].String() != want {
		t.Errorf("got %v, want %s", problems, want)
	}
	m = customers()
	m.Imports.Delete.IgnoresEmpty = true
	_, problems = check.Compile([]router.Mapping{m})
	want = "mappings[0].imports.delete.ignoresEmpty: a file of deletes has no column but the key's; hint: leave it out"
	if len(problems) != 1 || problems[0].String() != want {
		t.Errorf("got %v, want %s", problems, want)
	}
}

func TestOneETLLoadsOneTableOrBundle(t *testing.T) {
	refused := func(at, etl, of, first, command string) string {
		return fmt.Sprintf("mappings[%s.etl: %s is the ETL of %s too, and an ETL loads rows of one op into one table, or into those of one bundle; "+
			"hint: leave it to %q, and create one with `feedsink etl create --mapping %s`", at, etl, of, first, command)
	}
	behind := func(change func(*router.Mapping)) []router.Mapping {
		m := customers()
		m.Name, m.ProfileTable, m.When, m.Imports = "prospects", "prospects", "attributes.age > 5", ownETLs(m.Imports, "own")
		change(&m)
		return []router.Mapping{customers(), m}
	}
	for name, tc := range map[string]struct {
		ms   []router.Mapping
		want string // "": they work
	}{
		"its own":       {behind(func(*router.Mapping) {}), ""},
		"another table": {behind(func(m *router.Mapping) { m.Imports.Upsert.ETL = "101" }), refused("1].imports.upsert", "101", "imports.upsert of mappings[0]", "customers", "prospects --op upsert")},
		"another op":    {behind(func(m *router.Mapping) { m.Imports.Delete.ETL = "101" }), refused("1].imports.delete", "101", "imports.upsert of mappings[0]", "customers", "prospects --op delete")},
		"another kind of table of the same name": {behind(func(m *router.Mapping) {
			*m = orders()
			m.CustomTable, m.Routes, m.Imports = "customers", []router.Route{{Lane: "batch"}}, customers().Imports
			m.Imports.Columns, m.Imports.Delete = []router.Column{{Name: "businessKey"}}, nil
		}), refused("1].imports.upsert", "101", "imports.upsert of mappings[0]", "customers", "orders --op upsert")},
		"of a mapping that makes no files": {behind(func(m *router.Mapping) {
			m.Routes, m.Imports.Upsert.ETL = []router.Route{{Lane: "immediate"}}, "101"
		}), refused("1].imports.upsert", "101", "imports.upsert of mappings[0]", "customers", "prospects --op upsert")},
		"none yet":   {behind(func(m *router.Mapping) { m.Imports.Upsert.ETL = "" }), "mappings[1].imports.upsert.etl: missing"},
		"one bundle": {crm(), ""},
		"another op of the bundle": {func() []router.Mapping {
			ms := crm()
			ms[1].Imports.Delete.ETL = "101"
			ms[1].Imports.Upsert.ETL = "103"
			return ms
		}(), refused("1].imports.delete", "101", "imports.upsert of mappings[0]", "orders", "customers --op delete")},
		"outside of the bundle": {append(crm(), behind(func(m *router.Mapping) { m.Imports.Upsert.ETL = "101" })[1]), refused("2].imports.upsert", "101", "imports.upsert of mappings[0]", "orders", "prospects --op upsert")},
	} {
		if got := problemsOf(tc.ms...); tc.want == "" && got != "[]" || !strings.Contains(got, tc.want) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, tc.want)
		}
	}
	if _, problems := check.CompileUnfinished(behind(func(m *router.Mapping) { m.Imports.Upsert.ETL = "101" })); len(problems) > 0 {
		t.Errorf("to create ETLs for: got %v, want no problem", problems)
	}
}

func TestAnETLThatNoLongerFitsIsRefused(t *testing.T) {
	m := customers()
	r, problems := check.Compile([]router.Mapping{m})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	mark := r.Mappings()[0].ETLFingerprint(schemas.Upsert)
	upsert := *m.Imports.Upsert
	upsert.Fingerprint = mark
	m.Imports.Upsert = &upsert
	fits := map[string]func(*router.Mapping){
		"as it was":                 func(*router.Mapping) {},
		"another pace":              func(m *router.Mapping) { m.Imports.Roll.Rows, m.Imports.SlotsPerDay = 7, 3 },
		"a default that is spelled": func(m *router.Mapping) { m.Imports.CSV.Separator = "," },
		"another ETL":               func(*router.Mapping) { upsert.ETL = "999" },
	}
	for name, change := range fits {
		changed := m
		change(&changed)
		if _, problems := check.Compile([]router.Mapping{changed}); len(problems) > 0 {
			t.Errorf("%s: got %v, want no problem", name, problems)
		}
	}
	for name, change := range map[string]func(*router.Mapping){
		"a column more": func(m *router.Mapping) {
			m.Imports.Columns = append(slices.Clip(m.Imports.Columns), router.Column{Name: "shoeSize"})
		},
		"another separator":   func(m *router.Mapping) { m.Imports.CSV.Separator = ";" },
		"another compression": func(m *router.Mapping) { m.Imports.CSV.Compression = "ZIP" },
		"another table":       func(m *router.Mapping) { m.ProfileTable = "clients" },
	} {
		changed := m
		change(&changed)
		_, problems := check.Compile([]router.Mapping{changed})
		if len(problems) != 1 || problems[0].Path != "mappings[0].imports.upsert.fingerprint" || !strings.Contains(problems[0].Hint, "feedsink etl create --mapping customers --op upsert") {
			t.Errorf("%s: got %v, want one problem at imports.upsert.fingerprint with a hint", name, problems)
		}
	}
}
