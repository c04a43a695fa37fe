package router_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

func TestEmptyCellsMeanWhatTheColumnChose(t *testing.T) {
	m := customers()
	m.Imports.Patch = &router.Import{ETL: "103", Mode: "UPDATE_ONLY"}
	m.Imports.Merge = &router.Import{ETL: "105", Mode: "CREATE_OR_UPDATE"}
	m.Imports.Create = &router.Import{ETL: "104", Mode: "CREATE_ONLY"}
	for _, tc := range []struct {
		absent, null                  string
		upsert, patch, create, delete bool
	}{
		{"", "", false, true, false, false},
		{"empty", "empty", false, true, false, false},
		{"empty", "immediate", true, true, true, false},
		{"empty", "NULL", true, true, true, false},
		{"immediate", "empty", false, false, false, false},
		{"-", "empty", false, true, false, false},
		{"immediate", "immediate", false, false, false, false},
	} {
		m.Imports.Columns = []router.Column{{Name: "customerNumber"}, {Name: "age", Absent: tc.absent, Null: tc.null}}
		r, problems := router.Compile([]router.Mapping{m})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		c := r.Mappings()[0]
		for op, want := range map[schemas.Op]bool{schemas.Upsert: tc.upsert, schemas.Patch: tc.patch, schemas.Merge: tc.patch, schemas.Create: tc.create, schemas.Delete: tc.delete} {
			if got := c.IgnoresEmpty(op, 1); got != want {
				t.Errorf("absent %q, null %q: %v ignores empty cells: got %v, want %v", tc.absent, tc.null, op, got, want)
			}
			if c.IgnoresEmpty(op, 0) {
				t.Errorf("the key's column: %v ignores empty cells", op)
			}
		}
	}
}

// What a row cannot say takes a call or is refused: nothing is lost quietly.
func TestRowsSayAbsentNullAndEmptyOrAreNone(t *testing.T) {
	const (
		nullLost  = `reject value: age: null is written as an empty cell, which the import of patch takes for nothing said: the column's null must be immediate or a text`
		emptyLost = `: an empty text is an empty cell, which the import of `
		taken     = ` takes for nothing said: the column's null must be immediate`
	)
	for _, tc := range []struct {
		name, absent, null, event, want string
	}{
		{"upsert clears", "", "", `{"attributes":{"age":null}}`, `batch: upsert customers C1 a.customerNumber="C1" a.age=null`},
		{"upsert, empty text", "", "", `{"attributes":{"age":""}}`, `batch: upsert customers C1 a.customerNumber="C1" a.age=""`},
		{"patch leaves alone", "", "", `{"op":"patch","attributes":{}}`, `batch: patch customers C1`},
		{"patch with a value", "", "", `{"op":"patch","attributes":{"age":3}}`, `batch: patch customers C1 a.age=3`},
		{"patch cannot clear", "", "", `{"op":"patch","attributes":{"age":null}}`, `batch: ` + nullLost},
		{"patch cannot empty", "", "", `{"op":"patch","attributes":{"age":""}}`, `batch: reject value: age` + emptyLost + "patch" + taken},
		{"patch clears by a literal", "", "NULL", `{"op":"patch","attributes":{"age":null}}`, `batch: patch customers C1 a.age="NULL"`},
		{"patch clears by a call", "", "immediate", `{"op":"patch","profileId":"p1","attributes":{"age":null}}`, `immediate: patch customers C1 (p1) a.age=null`},
		{"patch empties by a call", "", "immediate", `{"op":"patch","profileId":"p1","attributes":{"age":""}}`, `immediate: patch customers C1 (p1) a.age=""`},
		{
			"patch needs an id for that", "", "immediate", `{"op":"patch","attributes":{"age":null}}`,
			`batch: reject no_id: profileId: a column sends this patch to the immediate lane, where it cannot be written without one`,
		},
		{"upsert with a literal for null", "", "NULL", `{"attributes":{"age":null}}`, `batch: upsert customers C1 a.customerNumber="C1" a.age="NULL"`},
		{"upsert cannot empty beside it", "", "NULL", `{"attributes":{"age":""}}`, `batch: reject value: age` + emptyLost + "upsert" + taken},
		{"upsert empties by a call", "", "immediate", `{"attributes":{"age":""}}`, `immediate: upsert customers C1 a.customerNumber="C1" a.age=""`},
		{"literal for absent", "0", "", `{"attributes":{}}`, `batch: upsert customers C1 a.customerNumber="C1" a.age="0"`},
		{"a patch names nothing by a literal", "0", "", `{"op":"patch","attributes":{}}`, `batch: patch customers C1`},
		{"nor does it clear beside one", "0", "", `{"op":"patch","attributes":{"age":null}}`, `batch: ` + nullLost},
		{"call for absent", "immediate", "", `{"attributes":{}}`, `immediate: upsert customers C1 a.customerNumber="C1"`},
		{
			"a profile's create has no call", "immediate", "", `{"op":"create"}`,
			`batch: reject value: op: a column sends this create to the immediate lane, where a profile cannot be created`,
		},
		{"merge leaves alone", "", "", `{"op":"merge","attributes":{}}`, `batch: merge customers C1 a.customerNumber="C1"`},
		{"merge cannot clear", "", "", `{"op":"merge","attributes":{"age":null}}`, `batch: ` + strings.Replace(nullLost, "patch", "merge", 1)},
		{"merge cannot empty", "", "", `{"op":"merge","attributes":{"age":""}}`, `batch: reject value: age` + emptyLost + "merge" + taken},
		{"merge clears by a literal", "", "NULL", `{"op":"merge","attributes":{"age":null}}`, `batch: merge customers C1 a.customerNumber="C1" a.age="NULL"`},
		{"a merge names nothing by a literal", "0", "", `{"op":"merge","attributes":{}}`, `batch: merge customers C1 a.customerNumber="C1"`},
		{
			"a profile's merge has no call", "", "immediate", `{"op":"merge","profileId":"p1","attributes":{"age":null}}`,
			`batch: reject value: op: a column sends this merge to the immediate lane, where a profile cannot be merged`,
		},
		{"deletes have the key alone", "immediate", "immediate", `{"op":"delete"}`, `batch: delete customers C1`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := customers()
			m.Routes = []router.Route{{Lane: "batch"}}
			m.Imports.Patch = &router.Import{ETL: "103", Mode: "UPDATE_ONLY", IgnoresEmpty: true}
			m.Imports.Merge = &router.Import{ETL: "105", Mode: "CREATE_OR_UPDATE", IgnoresEmpty: true}
			m.Imports.Create = &router.Import{ETL: "104", Mode: "CREATE_ONLY"}
			m.Imports.Columns = []router.Column{{Name: "customerNumber"}, {Name: "age", Absent: tc.absent, Null: tc.null}}
			rec := &router.Record{Topic: "crm.customers", Value: value(t, `{"key":{"customerNumber":"C1"},`+tc.event[1:])}
			if got := story(routeOne(t, compile(t, m), rec)); got != tc.want {
				t.Errorf("routed:\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestTechnicalColumnsAreForCreatingImports(t *testing.T) {
	m := customers()
	m.Imports.Create = &router.Import{ETL: "104", Mode: "CREATE_ONLY"}
	m.Imports.Columns = []router.Column{{Name: "customerNumber"}, {Name: "lastDevice", Absent: "immediate"}}
	m.Routes = []router.Route{{Lane: "batch"}}
	r := compile(t, m)
	for i, want := range []bool{false, true} {
		if got := r.Mappings()[0].Columns[i].CreateOnly; got != want {
			t.Errorf("column %d for creating imports alone: got %v, want %v", i, got, want)
		}
	}
	rec := &router.Record{Topic: "crm.customers", Value: value(t, `{"key":{"customerNumber":"C1"}}`)}
	if got, want := story(routeOne(t, r, rec)), `batch: upsert customers C1 a.customerNumber="C1"`; got != want {
		t.Errorf("an upsert without it: got %s, want %s", got, want)
	}
}

// literals is a mapping of both lanes whose columns have literals of each type.
func literals() router.Mapping {
	m := customers()
	m.Imports.Patch = &router.Import{ETL: "103", Mode: "UPDATE_ONLY", IgnoresEmpty: true}
	m.Imports.Create = &router.Import{ETL: "104", Mode: "CREATE_ONLY"}
	m.Imports.Columns = []router.Column{
		{Name: "customerNumber", Absent: "never", Null: "never"},
		{Name: "note", Absent: "-", Null: "none"},
		{Name: "age", Absent: "0", Null: "-1"},
		{Name: "languages", Absent: `["fr","EN"]`, Null: "de"},
		{Name: "subscriptions#newsletter", Absent: "false"},
		{Name: "S_vip", Absent: "false"},
		{Name: "S_tier", Absent: "none"},
		{Name: "lastDevice", Absent: "unknown"},
	}
	m.Types = []router.Type{{Name: "age", As: "integer"}, {Name: "languages", As: "list", Of: "language"}}
	return m
}

func TestLiteralsOfColumnsAreTheSameInACallAsInAFile(t *testing.T) {
	const filled = ` a.note="-" a.age=0 a.languages=["fr","en"] n.newsletter=false s.vip=false`
	r := compile(t, literals())
	for _, tc := range []struct{ name, op, attributes, want string }{
		{"absent", "upsert", ``, `a.customerNumber="C1" s.tier="TIER"` + filled},
		{"null", "upsert", `"note":null,"age":null,"languages":null`, `a.customerNumber="C1" a.note="none" a.age=-1 a.languages=["de"] s.tier="TIER" n.newsletter=false s.vip=false`},
		{"neither", "upsert", `"note":"","age":3,"languages":[]`, `a.customerNumber="C1" a.note="" a.age=3 a.languages=[] s.tier="TIER" n.newsletter=false s.vip=false`},
		{"absent from a patch", "patch", ``, `(p1) s.tier="TIER"`},
		{"null in a patch", "patch", `"age":null`, `(p1) a.age=-1 s.tier="TIER"`},
		{"a delete", "delete", ``, `(p1)`},
	} {
		for lane, tier := range map[string]string{"immediate": "gold", "batch": "silver"} {
			rec := &router.Record{Topic: "crm.customers", Value: value(t, `{"op":"`+tc.op+`","profileId":"p1","key":{"customerNumber":"C1"},"attributes":{`+
				tc.attributes+`},"segments":{"tier":"`+tier+`"}}`)}
			want := lane + ": " + tc.op + " customers C1 (p1) " + strings.TrimPrefix(strings.ReplaceAll(tc.want, "TIER", tier), "(p1) ")
			want = strings.TrimSuffix(want, " (p1)")
			if got := story(routeOne(t, r, rec)); got != want {
				t.Errorf("%s, %s:\n got %s\nwant %s", tc.name, lane, got, want)
			}
		}
	}
	create := &router.Record{Topic: "crm.customers", Value: value(t, `{"op":"create","key":{"customerNumber":"C1"}}`)}
	want := `batch: create customers C1 a.customerNumber="C1"` + filled + ` s.tier="none" a.lastDevice="unknown"`
	if got := story(routeOne(t, r, create)); got != want {
		t.Errorf("a create:\n got %s\nwant %s", got, want)
	}
}

// Null is nothing that a subscription or a segmentation can be: what stands for it is asked first.
func TestLiteralsForNullAreOfSubscriptionsAndSegmentations(t *testing.T) {
	columns := []router.Column{
		{Name: "customerNumber"},
		{Name: "subscriptions#newsletter", Absent: "false", Null: "true"},
		{Name: "S_tier", Absent: "none", Null: "unknown"},
		{Name: "note", Absent: "-", Null: "none"},
	}
	const nulls, want = `"subscriptions":{"newsletter":null},"segments":{"tier":null}`, ` n.newsletter=true s.tier="unknown"`
	for _, lane := range []string{"immediate", "batch"} {
		canonical, mapped := customers(), customers()
		mapped.Op, mapped.ProfileID = "patch", "p"
		mapped.Fields = []router.Field{
			{From: "id", To: "customerNumber"},
			{From: "news", To: "subscriptions#newsletter", As: "boolean"},
			{From: "tier", To: "S_tier"},
			{From: "note", To: "note", As: "string"},
		}
		for _, m := range []*router.Mapping{&canonical, &mapped} {
			m.Imports.Columns = columns
			m.Imports.Patch = &router.Import{ETL: "103", Mode: "UPDATE_ONLY", IgnoresEmpty: true}
			m.Routes = []router.Route{{Lane: lane}}
		}
		for _, tc := range []struct {
			m           router.Mapping
			event, want string
		}{
			{canonical, `{"op":"upsert","profileId":"p1","key":{"customerNumber":"C1"},` + nulls + `}`, `upsert customers C1 (p1) a.customerNumber="C1"` + want + ` a.note="-"`},
			{canonical, `{"op":"patch","profileId":"p1","key":{"customerNumber":"C1"},` + nulls + `}`, `patch customers C1 (p1)` + want},
			{mapped, `{"id":"C1","p":"p1","news":null,"tier":null,"note":null}`, `patch customers C1 (p1) a.customerNumber="C1"` + want + ` a.note="none"`},
		} {
			rec := &router.Record{Topic: "crm.customers", Value: value(t, tc.event)}
			if got := story(routeOne(t, compile(t, tc.m), rec)); got != lane+": "+tc.want {
				t.Errorf("%s:\n got %s\nwant %s", tc.event, got, lane+": "+tc.want)
			}
		}
	}
}

func TestLiteralsOfColumnsTakeTheFieldsType(t *testing.T) {
	m := mapped(router.Field{From: "total", To: "total", As: "number", Scale: -2})
	m.Fields = append(m.Fields, router.Field{From: "paid", To: "paid", As: "boolean"}, router.Field{From: "on", To: "on", As: "date", Format: "epochDays"})
	m.Imports = customers().Imports
	m.Imports.Columns = []router.Column{
		{Name: "businessKey"}, {Name: "total", Absent: "12.50"}, {Name: "paid", Null: "false"}, {Name: "on", Absent: "1970-01-01"}, {Name: "source", Absent: "shop"},
	}
	for _, lane := range []string{"immediate", "batch"} {
		m.Routes = []router.Route{{Lane: lane}}
		rec := &router.Record{Topic: "shop.orders", Value: value(t, `{"id":"k","paid":null}`)}
		want := lane + `: upsert orders k p.paid="false" p.total=12.50 p.on="1970-01-01" p.source="shop"`
		if got := story(routeOne(t, compile(t, m), rec)); got != want {
			t.Errorf("routed:\n got %s\nwant %s", got, want)
		}
	}
}

func TestLiteralsThatAreNoValuesOfTheColumnAreRefused(t *testing.T) {
	m := literals()
	for _, c := range []struct {
		column int
		text   string
		want   string
	}{
		{2, "NULL", `mappings[0].imports.columns[2].null: "NULL" must be a whole number from -2147483648 to 2147483647; hint: write a value of the column, empty or immediate`},
		{3, "[fr", `mappings[0].imports.columns[3].null: "[fr" must be a list such as ["a","b"], or one element of it; hint: write a value of the column, empty or immediate`},
		{4, "empty", `mappings[0].imports.columns[4].null: "subscriptions#newsletter" is never null, so that neither a row nor a call can say it; hint: write a value for null, such as none or false, or null: omit at the field`},
		{4, "immediate", `null: omit at the field`},
		{6, "empty", `null: omit at the field`},
		{4, "no", `mappings[0].imports.columns[4].null: "no" must be true or false; hint: write a value of the column, empty or immediate`},
		{1, strings.Repeat("x", 256), `at most 255 characters; hint: write a value of the column, empty or immediate`},
	} {
		m.Imports.Columns[c.column].Null = c.text
		_, problems := router.Compile([]router.Mapping{m})
		m.Imports.Columns[c.column].Null = ""
		if len(problems) != 1 || !strings.HasSuffix(problems[0].String(), c.want) {
			t.Errorf("null %q: got %v, want %s", c.text, problems, c.want)
		}
	}
}

// patching is a mapping with patches by file.
func patching(patch router.Import, columns ...router.Column) router.Mapping {
	m := customers()
	patch.ETL, patch.Mode = "103", "UPDATE_ONLY"
	m.Imports.Patch = &patch
	m.Imports.Columns = append([]router.Column{{Name: "customerNumber"}}, columns...)
	return m
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
		r, problems := router.Compile([]router.Mapping{m})
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

func TestFileColumnsAreThoseOfTheOp(t *testing.T) {
	m := customers()
	m.Imports.Create = &router.Import{ETL: "104", Mode: "CREATE_ONLY"}
	m.Imports.Columns = []router.Column{{Name: "customerNumber"}, {Name: "age", Null: "immediate"}, {Name: "lastDevice"}}
	c := compile(t, m).Mappings()[0]
	for op, want := range map[schemas.Op][]router.FileColumn{
		schemas.Upsert: {{"customerNumber", false}, {"age", true}},
		schemas.Create: {{"customerNumber", false}, {"age", true}, {"lastDevice", false}},
		schemas.Delete: {{"customerNumber", false}},
	} {
		if got := c.FileColumns(op); !reflect.DeepEqual(got, want) {
			t.Errorf("%v: got %v, want %v", op, got, want)
		}
	}
}
