package router_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

func TestCompileRefusesFieldsThatCannotWork(t *testing.T) {
	for _, tc := range []struct {
		field router.Field
		want  string
	}{
		{router.Field{From: "", To: "x"}, `fields[4].from: missing; hint: write from, or value for a constant, or expr for an expression`},
		{router.Field{From: "x", To: ""}, `fields[4].to: missing`},
		{router.Field{From: "x", To: "status"}, `fields[4].to: "status" is filled twice`},
		{router.Field{From: "x", To: "subscriptions#a"}, `fields[4].to: "subscriptions#a": a custom table has no subscriptions`},
		{router.Field{From: "x", To: "x", As: "numbr"}, `fields[4].as: unknown conversion "numbr"; hint: did you mean "number"?`},
		{router.Field{From: "x", To: "x", Scale: 2}, `fields[4].scale: only a number has a scale; hint: write as: number`},
		{router.Field{From: "x", To: "x", As: "number", Scale: 101}, `fields[4].scale: 101: from -100 to 100`},
		{router.Field{From: "x", To: "x", True: []string{"Y"}}, `fields[4].true: only a boolean has words for true; hint: write as: boolean`},
		{router.Field{From: "x", To: "x", As: "number", False: []string{"N"}}, `fields[4].false: only a boolean has words for false; hint: write as: boolean`},
		{router.Field{From: "x", To: "x", As: "boolean", True: []string{"Y", "1"}, False: []string{"0", "1"}}, `fields[4].false[1]: "1" is a word for true, too`},
		{router.Field{From: "x", To: "x", Decimal: ","}, `fields[4].decimal: only a number has a decimal separator; hint: write as: number`},
		{router.Field{From: "x", To: "x", As: "number", Decimal: ".,"}, `fields[4].decimal: ".," is not a decimal separator; hint: write "," or "."`},
	} {
		m := mappedOrders()
		m.Fields = append(m.Fields, tc.field)
		_, problems := router.Compile([]router.Mapping{m})
		if got, want := fmt.Sprint(problems), "[mappings[0]."+tc.want+"]"; got != want {
			t.Errorf("problems:\n got %s\nwant %s", got, want)
		}
	}
	m := mappedOrders()
	m.Fields = m.Fields[1:]
	_, problems := router.Compile([]router.Mapping{m})
	if got, want := fmt.Sprint(problems), `[mappings[0].fields: none of them fills the key "businessKey"; hint: add {from: …, to: businessKey}]`; got != want {
		t.Errorf("problems:\n got %s\nwant %s", got, want)
	}
}

func TestLanesFollowRoutesAndImports(t *testing.T) {
	immediate := []router.Route{{Lane: "immediate"}}
	for _, tc := range []struct {
		name             string
		change           func(*router.Mapping)
		immediate, batch bool
	}{
		{"both routes", func(*router.Mapping) {}, true, true},
		{"batch only", func(m *router.Mapping) { m.Routes = []router.Route{{Lane: "batch"}} }, false, true},
		{"immediate with a delete import", func(m *router.Mapping) { m.Routes = immediate }, true, true},
		{"immediate with an upsert import", func(m *router.Mapping) { m.Routes, m.Imports.Delete = immediate, nil }, true, false},
	} {
		m := customers()
		tc.change(&m)
		r := compile(t, m)
		gotI, gotB := r.Reads("crm.customers", schemas.Immediate), r.Reads("crm.customers", schemas.Batch)
		if gotI != tc.immediate || gotB != tc.batch {
			t.Errorf("%s: topic: got immediate %v, batch %v, want %v, %v", tc.name, gotI, gotB, tc.immediate, tc.batch)
		}
		if i, b := r.Mappings()[0].Uses(schemas.Immediate), r.Mappings()[0].Uses(schemas.Batch); i != gotI || b != gotB {
			t.Errorf("%s: mapping: got %v, %v, want as its only topic %v, %v", tc.name, i, b, gotI, gotB)
		}
	}
}

func TestWritesNameTheRouteWhoseWeightCounts(t *testing.T) {
	m := customers()
	m.Routes = []router.Route{
		{When: `op == "delete"`, Lane: "batch"},
		{When: `segments.tier == "gold"`, Lane: "immediate", Weight: new(10.0)},
		{When: `segments.tier == "tin"`, Lane: "immediate", Weight: new(0.5)},
		{Lane: "immediate"},
	}
	r := compile(t, m)
	for _, tc := range []struct {
		value  string
		route  int
		weight float64
	}{
		{`{"op":"delete","key":{"customerNumber":"C1"}}`, 0, 1},
		{`{"key":{"customerNumber":"C1"},"segments":{"tier":"gold"}}`, 1, 10},
		{`{"key":{"customerNumber":"C1"},"segments":{"tier":"tin"}}`, 2, 0.5},
		{`{"key":{"customerNumber":"C1"}}`, 3, 1},
	} {
		got := routeOne(t, r, &router.Record{Topic: "crm.customers", Value: value(t, tc.value)})
		if weight := got.Mapping.Weight(got.Route); got.Route != tc.route || weight != tc.weight {
			t.Errorf("%s: got route %d of weight %v, want %d of %v", tc.value, got.Route, weight, tc.route, tc.weight)
		}
	}
}

func TestRouterTellsTopicsByLane(t *testing.T) {
	r := compile(t, customers(), orders())
	if got, want := r.Topics(schemas.Immediate), []string{"crm.customers", "shop.orders"}; !slices.Equal(got, want) {
		t.Errorf("immediate topics: got %q, want %q", got, want)
	}
	if got, want := r.Topics(schemas.Batch), []string{"crm.customers"}; !slices.Equal(got, want) {
		t.Errorf("batch topics: got %q, want %q", got, want)
	}
	if got, want := r.Mappings()[1].Config.ValueFormat(), "json"; got != want {
		t.Errorf("format: got %q, want %q", got, want)
	}
	if got := r.TopicMappings("unknown"); len(got) != 0 {
		t.Errorf("mappings of an unknown topic: got %d, want none", len(got))
	}
	if got := r.TopicMappings("shop.orders"); len(got) != 1 || got[0].Name != "orders" {
		t.Errorf("mappings of shop.orders: got %d, want the one of that name", len(got))
	}
}

func TestColumnsNameTheCellThatFillsThem(t *testing.T) {
	m := customers()
	m.Imports.Columns[1].Null = "NULL"
	want := []router.CSVColumn{
		{Header: "customerNumber", Place: schemas.Place{Section: schemas.Attributes, Name: "customerNumber"}, Absent: "empty", Null: "empty"},
		{Header: "emailAddress", Place: schemas.Place{Section: schemas.Attributes, Name: "emailAddress"}, Absent: "empty", Null: "NULL"},
		{Header: "subscriptions#newsletter", Place: schemas.Place{Section: schemas.Subscriptions, Name: "newsletter"}, Absent: "empty", Null: "empty"},
		{Header: "S_tier", Place: schemas.Place{Section: schemas.Segments, Name: "tier"}, Absent: "empty", Null: "empty"},
	}
	if got := compile(t, m).Mappings()[0].Columns; !slices.Equal(got, want) {
		t.Errorf("columns:\n got %+v\nwant %+v", got, want)
	}
}

// A ledger in Kafka holds fingerprints: the same configuration must keep its
// own across versions.
func TestFingerprintFollowsWhatARecordBecomes(t *testing.T) {
	of := func(change func(*router.Mapping)) uint64 {
		m := customers()
		change(&m)
		return compile(t, m).Mappings()[0].Fingerprint
	}
	base := of(func(*router.Mapping) {})
	if want := uint64(0xbfdce094d7a28d3d); base != want {
		t.Errorf("fingerprint of an unchanged mapping: got %#x, want %#x", base, want)
	}
	for name, change := range map[string]func(*router.Mapping){
		"name": func(m *router.Mapping) { m.Name = "others" }, "topics": func(m *router.Mapping) { m.Topics = []string{"x"} },
		"roll": func(m *router.Mapping) { m.Imports.Roll.Rows = 1 }, "csv": func(m *router.Mapping) { m.Imports.CSV.Separator = ";" },
		"slots": func(m *router.Mapping) { m.Imports.SlotsPerDay = 3 }, "default format": func(m *router.Mapping) { m.Format = "json" },
		"weight":       func(m *router.Mapping) { m.Routes[0].Weight = new(2.0) },
		"objective":    func(m *router.Mapping) { m.Routes[0].Within, m.Routes[0].Objective = time.Second, new(0.999) },
		"route's name": func(m *router.Mapping) { m.Routes[0].Name = "gold" },
		"calls in the place of rows": func(m *router.Mapping) {
			last := &m.Routes[len(m.Routes)-1]
			last.Lane, last.Within, last.Spare = "auto", time.Hour, new(false)
		},
		"default column": func(m *router.Mapping) { m.Imports.Columns[0].Absent = "empty" },
	} {
		if got := of(change); got != base {
			t.Errorf("%s changed: got %#x, want the same %#x", name, got, base)
		}
	}
	for name, change := range map[string]func(*router.Mapping){
		"route":  func(m *router.Mapping) { m.Routes[0].When = `segments.tier == "silver"` },
		"column": func(m *router.Mapping) { m.Imports.Columns[1].Name = "name" },
		"absent": func(m *router.Mapping) { m.Imports.Columns[1].Absent = "0" },
		"etl":    func(m *router.Mapping) { m.Imports.Upsert.ETL = "7" },
		"table":  func(m *router.Mapping) { m.ProfileTable = "people" },
		"fields": func(m *router.Mapping) {
			m.Fields, m.Imports.Columns = []router.Field{{From: "n", To: "customerNumber"}}, m.Imports.Columns[:1]
		},
		"kafkaKey": func(m *router.Mapping) { m.KafkaKey = "json" },
		"types":    func(m *router.Mapping) { m.Types = []router.Type{{Name: "age", As: "integer"}} },
	} {
		if got := of(change); got == base {
			t.Errorf("%s changed: got the same %#x, want another", name, got)
		}
	}
}

func TestFingerprintFollowsEveryMemberOfAField(t *testing.T) {
	of := func(change func(*router.Mapping, *router.Field)) uint64 {
		m := mappedOrders()
		change(&m, &m.Fields[1])
		return compile(t, m).Mappings()[0].Fingerprint
	}
	base := of(func(*router.Mapping, *router.Field) {})
	if want := uint64(0x6e5e6755f2c383fc); base != want {
		t.Errorf("fingerprint of an unchanged mapping: got %#x, want %#x", base, want)
	}
	for name, change := range map[string]func(*router.Mapping, *router.Field){
		"op spelled out":     func(m *router.Mapping, _ *router.Field) { m.Op = "upsert" },
		"a decimal point":    func(_ *router.Mapping, f *router.Field) { f.Decimal = "." },
		"absent spelled out": func(_ *router.Mapping, f *router.Field) { f.Absent = router.Omit },
		"null spelled out":   func(_ *router.Mapping, f *router.Field) { f.Null = router.AsNull },
	} {
		if got := of(change); got != base {
			t.Errorf("%s: got %#x, want the same %#x", name, got, base)
		}
	}
	seen := map[uint64]string{base: "nothing"}
	for name, change := range map[string]func(*router.Mapping, *router.Field){
		"from":     func(_ *router.Mapping, f *router.Field) { f.From = "cents" },
		"value":    func(_ *router.Mapping, f *router.Field) { f.From, f.Value = "", "1" },
		"expr":     func(_ *router.Mapping, f *router.Field) { f.From, f.Expr = "", "1" },
		"to":       func(_ *router.Mapping, f *router.Field) { f.To = "total" },
		"as":       func(_ *router.Mapping, f *router.Field) { f.As = "integer" },
		"scale":    func(_ *router.Mapping, f *router.Field) { f.Scale = -3 },
		"format":   func(_ *router.Mapping, f *router.Field) { f.As, f.Scale, f.Format = "date", 0, "epochDays" },
		"decimal":  func(_ *router.Mapping, f *router.Field) { f.Decimal = "," },
		"true":     func(_ *router.Mapping, f *router.Field) { f.As, f.Scale, f.True = "boolean", 0, []string{"Y"} },
		"false":    func(_ *router.Mapping, f *router.Field) { f.As, f.Scale, f.False = "boolean", 0, []string{"Y"} },
		"timezone": func(_ *router.Mapping, f *router.Field) { f.As, f.Scale, f.Timezone = "date", 0, "UTC" },
		"default":  func(_ *router.Mapping, f *router.Field) { f.Default = "0" },
		"absent":   func(_ *router.Mapping, f *router.Field) { f.Absent = router.AsNull },
		"null":     func(_ *router.Mapping, f *router.Field) { f.Null = router.Omit },
		"both":     func(_ *router.Mapping, f *router.Field) { f.Default, f.Absent = "0", router.Omit },
		"op":       func(m *router.Mapping, _ *router.Field) { m.Op = "patch" },
		"length":   func(m *router.Mapping, _ *router.Field) { m.Types = []router.Type{{Name: "status", Length: 9}} },
	} {
		got := of(change)
		if other, ok := seen[got]; ok {
			t.Errorf("%s changed: got %#x, the fingerprint with %s changed", name, got, other)
		}
		seen[got] = name
	}
}

func problemsOf(ms ...router.Mapping) string {
	_, problems := router.Compile(ms)
	return fmt.Sprint(problems)
}

func TestFieldMistakesSayWhereWhyAndWhatInstead(t *testing.T) {
	for _, tc := range []struct {
		field router.Field
		want  string
	}{
		{router.Field{From: "a", Value: `1`}, `fields[1]: from, value and expr are given together; hint: keep one of them`},
		{router.Field{}, `fields[1].from: missing; hint: write from, or value for a constant, or expr for an expression`},
		{router.Field{From: "a[x]"}, `fields[1].from: "a[x]" is not a path: column 2: [ wants a number, * or a name in quotes, and ]; hint: write names separated by dots, elements as [0] or [*], other names as ["a.b"]`},
		{router.Field{From: "headers"}, `fields[1].from: "headers" is not a path: name one header, such as headers.source; hint: write names separated by dots, elements as [0] or [*], other names as ["a.b"]`},
		{router.Field{Expr: "a +"}, `fields[1].expr: column 3: unexpected token EOF; hint: the expression ends too early`},
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

func TestTypesCheckCanonicalEvents(t *testing.T) {
	m := customers()
	m.Types = []router.Type{
		{Name: "customerNumber", As: "string"},
		{Name: "emailAddress", As: "email"},
		{Name: "born", As: "date"},
		{Name: "age", As: "integer"},
		{Name: "languages", As: "list", Of: "language"},
		{Name: "note", Length: 300},
		{Name: "code", As: "string", Length: 3},
		{Name: "codes", As: "list", Of: "string", Length: 3},
	}
	r := compile(t, m)
	long := strings.Repeat("é", 300)
	for _, tc := range []struct{ attributes, want string }{
		{`"emailAddress":"a@example.com","born":"1990-01-02","age":"44"`, ` a.emailAddress="a@example.com" a.born="1990-01-02" a.age=44`},
		{`"languages":["FR","iw"]`, ` a.languages=["fr","he"]`},
		{`"emailAddress":null,"age":null`, ` a.emailAddress=null a.age=null`},
		{`"note":"` + long + `"`, ` a.note="` + long + `"`},
		{`"note":"` + long + `x"`, `attributes.note: at most 300 characters`},
		{`"other":"` + long + `"`, `attributes.other: at most 255 characters`},
		{`"code":"abcd"`, `attributes.code: at most 3 characters`},
		{`"codes":["abc","abcd"]`, `attributes.codes: each element: at most 3 characters`},
		{`"emailAddress":"a"`, `attributes.emailAddress: must be an e-mail address`},
		{`"born":"2026-02-30"`, `attributes.born: must be a date like 2006-01-02`},
		{`"age":2147483648`, `attributes.age: must be a whole number from -2147483648 to 2147483647`},
		{`"languages":["xx"]`, `attributes.languages: each element: must be an ISO 639-1 language of two letters`},
	} {
		for _, lane := range []string{"immediate", "batch"} {
			tier := map[string]string{"immediate": "gold", "batch": "silver"}[lane]
			rec := &router.Record{
				Topic: "crm.customers",
				Value: value(t, `{"attributes":{"customerNumber":"C1",`+tc.attributes+`},"segments":{"tier":"`+tier+`"}}`),
			}
			want := lane + `: upsert customers C1 a.customerNumber="C1"` + tc.want + ` s.tier="` + tier + `"`
			if tc.want[0] != ' ' {
				want = lane + ": reject value: " + tc.want
			}
			if got := story(routeOne(t, r, rec)); got != want {
				t.Errorf("%s:\n got %s\nwant %s", tc.attributes, got, want)
			}
		}
	}
}

// TestTheLengthOfATypeHoldsForEachElement also where the field says what its elements are.
func TestTheLengthOfATypeHoldsForEachElement(t *testing.T) {
	long := strings.Repeat("x", 600)
	for _, f := range []router.Field{{As: "list", Of: "string"}, {As: "list"}, {}} {
		for _, typed := range []router.Type{{Length: 600}, {As: "list", Length: 600}, {As: "list", Of: "string", Length: 600}} {
			m := customers()
			f.From, f.To, typed.Name = "notes", "notes", "notes"
			m.Fields, m.Types = []router.Field{{From: "id", To: "customerNumber"}, f}, []router.Type{typed}
			m.Routes, m.Imports = []router.Route{{Lane: "immediate"}}, router.Imports{}
			r := compile(t, m)
			for in, want := range map[string]string{
				long:       ` upsert customers k a.customerNumber="k" a.notes=["` + long + `"]`,
				long + "x": ` reject value: notes: each element: at most 600 characters`,
			} {
				rec := &router.Record{Topic: "crm.customers", Value: value(t, `{"id":"k","notes":["`+in+`"]}`)}
				if got := story(routeOne(t, r, rec)); got != "immediate:"+want {
					t.Errorf("%+v of %+v:\n got %s\nwant %s", f, typed, got, want)
				}
			}
		}
	}
}

func TestTypesHoldForMappedFieldsAndProperties(t *testing.T) {
	m := mapped(router.Field{From: "note", To: "note", As: "string"})
	m.Fields = append(m.Fields, router.Field{From: "paid", To: "paid"})
	m.Types = []router.Type{{Name: "note", Length: 300}, {Name: "paid", As: "boolean"}}
	r := compile(t, m)
	for in, want := range map[string]string{
		`{"id":"k","note":"` + strings.Repeat("x", 300) + `"}`: `immediate: upsert orders k p.note="` + strings.Repeat("x", 300) + `"`,
		`{"id":"k","note":"` + strings.Repeat("x", 301) + `"}`: `immediate: reject value: note: at most 300 characters`,
		`{"id":"k","paid":1}`:     `immediate: upsert orders k p.paid="true"`,
		`{"id":"k","paid":"yes"}`: `immediate: reject value: paid: must be true or false`,
	} {
		if got := story(routeOne(t, r, &router.Record{Topic: "shop.orders", Value: value(t, in)})); got != want {
			t.Errorf("%s:\n got %s\nwant %s", in, got, want)
		}
	}
}

// A row for each technical attribute and each status of the interface.
func TestTechnicalAttributesComeWithCreateOnly(t *testing.T) {
	const moment, computed = `must be a timestamp like 2006-01-02T15:04:05, optionally with Z or an offset`, `is computed by the service and may be given only with op create`
	m := customers()
	m.Routes = []router.Route{{Lane: "batch"}}
	m.Imports.Create = &router.Import{ETL: "104", Mode: "CREATE_ONLY"}
	m.Imports.Patch = &router.Import{ETL: "103", Mode: "UPDATE_ONLY", IgnoresEmpty: true}
	r := compile(t, m)
	check := func(op, name, in, want string) {
		t.Helper()
		rec := &router.Record{Topic: "crm.customers", Value: value(t, `{"op":"`+op+`","key":{"customerNumber":"C1"},"attributes":{"`+name+`":`+in+`}}`)}
		full := `batch: create customers C1 a.customerNumber="C1" a.` + name + `=` + want
		if want[0] != '"' && want != "null" {
			full = `batch: reject value: attributes.` + name + `: ` + want
		}
		if got := story(routeOne(t, r, rec)); got != full {
			t.Errorf("%s of %s %s:\n got %s\nwant %s", op, name, in, got, full)
		}
	}
	for _, name := range []string{
		"lastMailOpeningMoment", "lastMailClickMoment", "lastMailTargetingMoment", "mobileTargetingRecency",
		"mobileDeliveryRecency", "goalReachedRecency", "participationRecency", "blacklistMoment",
	} {
		check("create", name, `"2026-11-21T10:00:00"`, `"2026-11-21T10:00:00"`)
		check("create", name, `"2026-11-21T10:00:00.123Z"`, `"2026-11-21T10:00:00Z"`)
		check("create", name, `null`, `null`)
		check("create", name, `"2026-11-21"`, moment)
		check("create", name, `1795255200`, moment)
		check("upsert", name, `"2026-11-21T10:00:00"`, computed)
		check("patch", name, `null`, computed)
	}
	for _, name := range []string{"lastDevice", "lastUserAgent"} {
		check("create", name, `"some text"`, `"some text"`)
		check("create", name, `null`, `null`)
		check("create", name, `1`, `must be text`)
		check("create", name, `"`+strings.Repeat("x", 256)+`"`, `at most 255 characters`)
		check("upsert", name, `"some text"`, computed)
		check("patch", name, `"some text"`, computed)
	}
	for status := range strings.FieldsSeq(`SENT OPENED CLICKED ERROR FILTERED_NO_EMAIL_ADDRESS FILTERED_INVALID_EMAIL_ADDRESS
		FILTERED_DUPLICATE_EMAIL_ADDRESS FILTERED_EMAIL_SCORE_TOO_LOW FILTERED_BLACKLISTED_BY_RECIPIENT FILTERED_LONG_QUARANTINE
		FILTERED_TEMPORARY_QUARANTINE FILTERED_LOW_EMAIL_ACTIVITY FILTERED_CATCH_ALL_DOMAIN FILTERED_COMMERCIAL_PRESSURE
		FILTERED_OTHER BOUNCED_HARD_BOUNCE BOUNCED_SOFT_BOUNCE BOUNCED_AUTO_REPLY`) {
		check("create", "lastMailActivityStatus", `"`+status+`"`, `"`+status+`"`)
		check("upsert", "lastMailActivityStatus", `"`+status+`"`, computed)
	}
	for _, in := range []string{`"sent"`, `"BOUNCED"`, `""`} {
		check("create", "lastMailActivityStatus", in, `must be one of the service's mail activity statuses, such as SENT`)
	}
	check("create", "lastMailActivityStatus", `1`, `must be text`)
}

func TestObjectivesAreThoseOfRoutesWithATime(t *testing.T) {
	m := customers()
	m.Routes = []router.Route{
		{When: `segments.tier == "gold"`, Lane: "immediate", Within: 5 * time.Second, Objective: new(0.999), Name: "gold"},
		{When: `segments.tier == "tin"`, Lane: "immediate", Name: "tin"},
		{When: `segments.tier == "test"`, Lane: "skip"},
		{Lane: "auto", Within: time.Hour},
	}
	r := compile(t, m)
	gold := router.Objective{Mapping: "customers", Route: "gold", Lane: schemas.Immediate, Within: 5 * time.Second, Share: 0.999}
	rest := router.Objective{Mapping: "customers", Route: "4", Lane: schemas.Batch, Within: time.Hour, Share: 0.99}
	for text, want := range map[string]*router.Objective{
		`{"key":{"customerNumber":"C1"},"segments":{"tier":"gold"}}`:       &gold,
		`{"key":{"customerNumber":"C1"},"segments":{"tier":"tin"}}`:        nil,
		`{"key":{"customerNumber":"C1"},"segments":{"tier":"test"}}`:       nil,
		`{"key":{"customerNumber":"C1"},"segments":{"tier":"silver"}}`:     &rest,
		`{"op":"patch","profileId":"p","key":"C1","segments":"of nobody"}`: nil, // no route is asked
	} {
		got := routeOne(t, r, &router.Record{Topic: "crm.customers", Value: value(t, text)})
		switch o := got.Mapping.Objective(got.Route); {
		case (o == nil) != (want == nil), o != nil && *o != *want:
			t.Errorf("%s: got %v, want %v", text, o, want)
		}
	}
	c := r.Mappings()[0]
	for _, tc := range []struct {
		lanes []schemas.Lane
		want  []router.Objective
	}{
		{schemas.Lanes, []router.Objective{gold, rest}},
		{[]schemas.Lane{schemas.Immediate}, []router.Objective{gold}},
		{[]schemas.Lane{schemas.Batch}, []router.Objective{rest}},
		{nil, nil},
	} {
		var got []router.Objective
		for _, o := range c.Objectives(tc.lanes) {
			got = append(got, *o)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("lanes %v: got %v, want %v", tc.lanes, got, tc.want)
		}
	}
}
