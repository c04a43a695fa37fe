package router_test

import (
	"strings"
	"testing"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// patching is a mapping with patches by file.
func patching(patch router.Import, columns ...router.Column) router.Mapping {
	m := customers()
	patch.ETL, patch.Mode = "103", "UPDATE_ONLY"
	m.Imports.Patch = &patch
	m.Imports.Columns = append([]router.Column{{Name: "customerNumber"}}, columns...)
	return m
}

func TestPatchesByFileNeedAnETLKnownToIgnoreEmptyValues(t *testing.T) {
	const refusal = "mappings[0].imports.patch: a patch's row leaves empty what it does not name, and nothing says that the ETL 103 ignores empty values: " +
		"where it does not, every such row would erase fields of the table; hint: if the ETL's definition has ignoreEmptyValues: true for every column but the key's, " +
		"write `patch: {etl: \"103\", mode: UPDATE_ONLY, ignoresEmpty: true}`; if not, or if that cannot be told, " +
		"create one that has with `feedsink etl create --mapping customers --op patch` and write the line that it prints"
	email, age := router.Column{Name: "emailAddress"}, router.Column{Name: "age", Absent: "0", Null: "0"}
	called := router.Column{Name: "emailAddress", Absent: "immediate"}
	fingerprint := func(columns ...router.Column) string {
		r, problems := router.CompileUnfinished([]router.Mapping{patching(router.Import{}, columns...)})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return r.Mappings()[0].ETLFingerprint(schemas.Patch)
	}
	for name, c := range map[string]struct {
		m    router.Mapping
		want string
	}{
		"nothing is known":              {patching(router.Import{}, email), refusal},
		"of a literal neither":          {patching(router.Import{}, age), refusal},
		"one column is enough":          {patching(router.Import{}, called, age), refusal},
		"declared":                      {patching(router.Import{IgnoresEmpty: true}, email, age), ""},
		"created":                       {patching(router.Import{Fingerprint: fingerprint(email)}, email), ""},
		"no cell is ever left unsaid":   {patching(router.Import{}, called), ""},
		"created for other columns":     {patching(router.Import{Fingerprint: fingerprint(email)}, email, age), "was created for other columns"},
		"created when it was another's": {patching(router.Import{Fingerprint: fingerprint(called)}, email), "was created for other columns"},
	} {
		_, problems := router.Compile([]router.Mapping{c.m})
		got := ""
		for _, p := range problems {
			got += p.String()
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
		if _, problems := router.CompileUnfinished([]router.Mapping{c.m}); len(problems) > 0 {
			t.Errorf("%s, to create ETLs for: got %v, want no problem", name, problems)
		}
	}
}

func TestOneETLLoadsOneOp(t *testing.T) {
	m := customers()
	m.Imports.Delete.ETL = m.Imports.Upsert.ETL
	_, problems := router.Compile([]router.Mapping{m})
	want := "mappings[0].imports.delete.etl: 101 is the ETL of imports.upsert too, and an ETL has one mode; hint: create one with `feedsink etl create --mapping customers --op delete`"
	if len(problems) != 1 || problems[0].String() != want {
		t.Errorf("got %v, want %s", problems, want)
	}
	m = customers()
	m.Imports.Delete.IgnoresEmpty = true
	_, problems = router.Compile([]router.Mapping{m})
	want = "mappings[0].imports.delete.ignoresEmpty: a file of deletes has no column but the key's; hint: leave it out"
	if len(problems) != 1 || problems[0].String() != want {
		t.Errorf("got %v, want %s", problems, want)
	}
}

// An ETL that ignores all empty values ignores those that were to clear a field:
// what no row can say then is refused, not lost.
func TestNullIsNotLostInAnETLThatIgnoresEmptyValues(t *testing.T) {
	m := customers()
	m.Routes = []router.Route{{Lane: "batch"}}
	m.Imports.Upsert.IgnoresEmpty = true
	m.Imports.Columns = []router.Column{{Name: "customerNumber"}, {Name: "age"}, {Name: "note", Absent: "immediate", Null: "immediate"}}
	r := compile(t, m)
	for event, want := range map[string]string{
		`"note":"x"`:            `batch: upsert customers C1 a.note="x" a.customerNumber="C1"`,
		`"note":"x","age":null`: `batch: reject value: age: null is written as an empty cell, which the import of upsert takes for nothing said: the column's null must be immediate or a text`,
		`"note":""`:             `immediate: upsert customers C1 a.note="" a.customerNumber="C1"`,
	} {
		rec := &router.Record{Topic: "crm.customers", Value: value(t, `{"attributes":{`+event+`,"customerNumber":"C1"}}`)}
		if got := story(routeOne(t, r, rec)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", event, got, want)
		}
	}
	for i, want := range []bool{false, true, true} {
		if got := r.Mappings()[0].FileColumns(schemas.Upsert)[i].IgnoresEmpty; got != want {
			t.Errorf("column %d ignores empty cells: got %v, want %v", i, got, want)
		}
	}
}

// The ledger's imports are adopted by their fingerprint: the line that patches
// need now must not have their records read again.
func TestIgnoresEmptyCountsWhereItMakesOtherRows(t *testing.T) {
	of := func(m router.Mapping) uint64 {
		t.Helper()
		r, problems := router.CompileUnfinished([]router.Mapping{m})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return r.Mappings()[0].Fingerprint
	}
	email, called := router.Column{Name: "emailAddress"}, router.Column{Name: "emailAddress", Absent: "immediate"}
	if got, want := of(patching(router.Import{IgnoresEmpty: true}, email)), of(patching(router.Import{}, email)); got != want {
		t.Errorf("declared of a patch whose empty cells are ignored anyway: got %#x, want the same %#x", got, want)
	}
	if got, without := of(patching(router.Import{IgnoresEmpty: true}, called)), of(patching(router.Import{}, called)); got == without {
		t.Errorf("declared of a patch whose empty cells clear: got the same %#x, want another", got)
	}
}
