package router_test

import (
	"strings"
	"testing"

	"github.com/feedsink/feedsink/router"
)

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
