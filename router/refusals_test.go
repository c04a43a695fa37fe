package router_test

import (
	"fmt"
	"testing"

	"github.com/feedsink/feedsink/router"
)

func problemsOf(ms ...router.Mapping) string {
	_, problems := router.Compile(ms)
	return fmt.Sprint(problems)
}

func TestFieldMistakesSayWhereWhyAndWhatInstead(t *testing.T) {
	for _, tc := range []struct {
		field router.Field
		want  string
	}{
		{router.Field{From: "a", Value: `1`}, `fields[1]: from, value and expr are given together; hint: keep the one that is meant`},
		{router.Field{}, `fields[1].from: missing; hint: write from, or value for a constant, or expr for an expression`},
		{router.Field{From: "a[x]"}, `fields[1].from: "a[x]" is not a path: column 2: [ wants a number, * or a name in quotes, and ]; hint: write names separated by dots, elements as [0] or [*], other names as ["a.b"]`},
		{router.Field{From: "headers"}, `fields[1].from: "headers" is not a path: name one header, such as headers.source; hint: write names separated by dots, elements as [0] or [*], other names as ["a.b"]`},
		{router.Field{Expr: "a +"}, `fields[1].expr: column 3: unexpected token EOF`},
		{router.Field{Expr: "uper(a)"}, `fields[1].expr: column 1: unknown function uper; hint: did you mean "upper"?`},
		{router.Field{Expr: "now()"}, `fields[1].expr: column 1: now is not available: the result may depend on nothing but the record`},
		{router.Field{Expr: `1 + "a"`}, `fields[1].expr: column 3: invalid operation: + (mismatched types int and string)`},
		{router.Field{Value: `broken`}, `fields[1].value: "broken" is not a constant; hint: write text, a number, true or false`},
		{router.Field{Value: `"x"`, As: "integer"}, `fields[1].value: "x" must be a whole number from -2147483648 to 2147483647`},
		{router.Field{Value: `1`, Default: `2`}, `fields[1].value: a constant is never missing; hint: remove default, absent and null`},
		{router.Field{From: "a", As: "date", Default: `"21.11.2026"`}, `fields[1].default: "21.11.2026" must be a date like 2006-01-02`},
		{router.Field{From: "a", Default: `[1]`}, `fields[1].default: [1] must be a number, text, true or false`},
		{router.Field{From: "a", Absent: "skip"}, `fields[1].absent: unknown choice "skip"; hint: one of omit, null, reject`},
		{router.Field{From: "a", Null: "omitt"}, `fields[1].null: unknown choice "omitt"; hint: did you mean "omit"?`},
		{router.Field{From: "a", Of: "string"}, `fields[1].of: only a list has elements; hint: write as: list`},
		{router.Field{From: "a", As: "list"}, `fields[1].as: list is not what a property takes: text or a number`},
		{router.Field{From: "a", Format: "epochMillis"}, `fields[1].format: only a date or a timestamp has a format; hint: write as: date or as: timestamp`},
		{router.Field{From: "a", As: "string", Timezone: "UTC"}, `fields[1].timezone: only a date or a timestamp has a timezone; hint: write as: date or as: timestamp`},
		{router.Field{From: "a", As: "date", Format: "dd.MM.yyyy"}, `fields[1].format: "dd.MM.yyyy" does not say year, month and day; hint: did you mean "%d.%m.%Y"?`},
		{router.Field{From: "a", As: "timestamp", Timezone: "Paris"}, `fields[1].timezone: "Paris" is not a time zone; hint: write an IANA name such as Europe/Paris or UTC`},
	} {
		tc.field.To = "x"
		if got, want := problemsOf(mapped(tc.field)), "[mappings[0]."+tc.want+"]"; got != want {
			t.Errorf("%+v:\n got %s\nwant %s", tc.field, got, want)
		}
	}
}

func TestConversionsThatTheirTargetRefusesAreRefused(t *testing.T) {
	for to, as := range map[string]string{
		"subscriptions#newsletter": "string", "S_tier": "number", "dataCollection.date": "integer", "dataCollection.way": "list",
	} {
		m := customers()
		m.Routes, m.Imports = []router.Route{{Lane: "immediate"}}, router.Imports{}
		m.Fields = []router.Field{{From: "id", To: "customerNumber"}, {From: "a", To: to, As: as}}
		_, problems := router.Compile([]router.Mapping{m})
		if len(problems) != 1 || problems[0].Path != "mappings[0].fields[1].as" {
			t.Errorf("%s as %s: got %v, want it refused", to, as, problems)
		}
	}
}

func TestTypeMistakesAreRefused(t *testing.T) {
	for _, tc := range []struct {
		typed router.Type
		want  string
	}{
		{router.Type{As: "date"}, `types[0].name: missing`},
		{router.Type{Name: "S_tier"}, `types[0].name: "S_tier": the type of subscriptions, segmentations and dataCollection is fixed`},
		{router.Type{Name: "lastDevice"}, `types[0].name: "lastDevice": the type of what the service computes is fixed`},
		{router.Type{Name: "a", As: "mail"}, `types[0].as: unknown conversion "mail"; hint: did you mean "email"?`},
		{router.Type{Name: "a", As: "list", Of: "list"}, `types[0].of: a list holds no lists`},
		{router.Type{Name: "a", Length: -1}, `types[0].length: -1: from 1 to 1048576, or 0 for 255`},
	} {
		m := customers()
		m.Types = []router.Type{tc.typed}
		if got, want := problemsOf(m), "[mappings[0]."+tc.want+"]"; got != want {
			t.Errorf("%+v:\n got %s\nwant %s", tc.typed, got, want)
		}
	}
	m := customers()
	m.Types = []router.Type{{Name: "a"}, {Name: "a"}}
	if got, want := problemsOf(m), `[mappings[0].types[1].name: "a" is named twice]`; got != want {
		t.Errorf("twice: got %s, want %s", got, want)
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
