package router_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/expr-lang/expr/builtin"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/problem"
	"github.com/feedsink/feedsink/schemas"
)

// A member of the value is read by its name, also where a function has that name.
func TestFieldsWinOverFunctionsOfTheirName(t *testing.T) {
	for _, name := range builtin.Names {
		rec := router.Record{Value: value(t, `{"id":1,"list":[1,2],"`+name+`":{"x":[3]}}`)}
		for _, when := range []string{name + `.x[0] == 3`, `value.` + name + `.x[0] == 3`, `len(` + name + `.x) == 1`, `"x" in ` + name} {
			if !holds(t, mappedOrders(), when, rec) {
				t.Errorf("%s: got false, want the member", when)
			}
		}
	}
	rec := router.Record{Value: value(t, `{"id":1,"len":[1,2],"count":2,"type":"int","now":true,"date":"2026-01-01"}`)}
	for when, want := range map[string]bool{
		`len(len) == count`:                  true,
		`count(len, # > 1) == 1`:             true,
		`type(count) == type`:                true,
		`now`:                                true,
		`date(date) < timestamp`:             false,
		`date(date) == nil or type == "int"`: true,
		`any(len, # == count)`:               true,
	} {
		if got := holds(t, mappedOrders(), when, rec); got != want {
			t.Errorf("%s: got %v, want %v", when, got, want)
		}
	}
	m := mappedOrders()
	m.Fields = append(m.Fields, router.Field{Expr: `type + "/" + string(count(len))`, To: "kind"})
	rec = router.Record{Topic: m.Topics[0], Value: value(t, `{"id":1,"type":"a","len":[true]}`)}
	if got := story(routeOne(t, compile(t, m), &rec)); got != `immediate: upsert orders 1 p.kind="a/1"` {
		t.Errorf("an expression: got %s", got)
	}
}

func TestValueReachesAnyField(t *testing.T) {
	mapped := `{"id":1,"topic":"mine","value":{"value":2},"op":"x","nil":4,"in":5,"a b":6}`
	for when, want := range map[string]bool{
		`value.topic == "mine" and topic == "shop.orders"`: true,
		`value.value.value == 2`:                           true,
		`value["a b"] == 6`:                                true,
		`value.op == "x"`:                                  true,
		`value["nil"] == 4 and value["in"] == 5`:           true,
		`value.nothing == nil`:                             true,
		`"id" in value and len(value) == 7`:                true,
	} {
		if got := holds(t, mappedOrders(), when, router.Record{Value: value(t, mapped)}); got != want {
			t.Errorf("mapped, %s: got %v, want %v", when, got, want)
		}
	}
	event := `{"op":"upsert","key":{"customerNumber":"C1"},"attributes":{"age":3},"dataCollection":{"source":"shop"}}`
	for _, when := range []string{`value.op == op`, `value.attributes.age == attributes.age`, `value.dataCollection.source == "shop"`} {
		if !holds(t, customers(), when, router.Record{Value: value(t, event)}) {
			t.Errorf("canonical, %s: got false, want true", when)
		}
	}
	m := rows()
	m.Fields[1] = router.Field{Expr: `value.status + value.topic`, To: "status"}
	m.Routes[0].When = `op == "upsert" and value.op == "o"`
	change := value(t, `{"op":"c","source":{},"after":{"id":1,"op":"o","status":"s","topic":"t","note":null,"total":1}}`)
	got := story(routeOne(t, compile(t, m), &router.Record{Topic: m.Topics[0], Value: change}))
	if want := `batch: upsert orders 1 p.status="st" p.note=null p.total=1`; got != want {
		t.Errorf("rows:\n got %s\nwant %s", got, want)
	}
	// A column that is read so and left out makes the update a patch.
	change = value(t, `{"op":"u","source":{},"after":{"id":1,"op":"x","status":"__debezium_unavailable_value","topic":"t","note":null,"total":1}}`)
	got = story(routeOne(t, compile(t, m), &router.Record{Topic: m.Topics[0], Value: change}))
	if want := `immediate: patch orders 1 p.note=null p.total=1`; got != want {
		t.Errorf("rows, a value left out:\n got %s\nwant %s", got, want)
	}
}

func TestConditionsThatDecideNothingAreRefused(t *testing.T) {
	const (
		deadRoute = "is always false, so the route can never match"
		deadRest  = "is always true, so the routes after it can never match"
	)
	for when, want := range map[string]string{
		`true`:                            deadRest,
		`false`:                           deadRoute,
		`1 == 1`:                          deadRest,
		`"a" in ["b"]`:                    deadRoute,
		`nil == nil`:                      deadRest,
		`attributes.age > 1 and 1 > 2`:    deadRoute,
		`attributes.age > 1 or not false`: deadRest,
		`topic == nil`:                    deadRoute,
		`op != nil`:                       deadRest,
		`attributes.age == nil`:           "",
		`attributes.age == nil or attributes.b > 1`:                                      "",
		`attributes.age > 1 or 1 > 2`:                                                    "",
		`businessKey != nil`:                                                             "",
		`attributes.age > 1 and attributes.age < 0`:                                      deadRoute,
		`attributes.age > 1 and not (attributes.age >= 1.5) and attributes.age < 2`:      "",
		`attributes.age > 5 and not (attributes.age in [6, 7]) and attributes.age <= 5`:  deadRoute,
		`attributes.tier == "a" and attributes.tier in ["b", "c"]`:                       deadRoute,
		`attributes.tier == "1" and attributes.tier == 1`:                                deadRoute,
		`attributes.tier == nil and attributes.tier == "a"`:                              deadRoute,
		`attributes.tier != "a" and attributes.tier != "b"`:                              "",
		`attributes.tier startsWith "a" and not (attributes.tier startsWith "a")`:        deadRoute,
		`attributes.tier startsWith "a" and not (attributes.tier startsWith "b")`:        "",
		`op == "delete" and op == "patch"`:                                               deadRoute,
		`op in ["upsert", "patch", "merge", "create", "delete"]`:                         deadRest,
		`op != "upsert" and op != "patch" and not (op in ["merge", "create", "delete"])`: deadRoute,
	} {
		m := customers()
		m.Routes[0].When = when
		_, problems := router.Compile([]router.Mapping{m})
		if want == "" && len(problems) > 0 || want != "" && (len(problems) != 1 || problems[0].Message != want || problems[0].Path != "mappings[0].routes[0].when") {
			t.Errorf("%s: got %v, want %q", when, problems, want)
		}
	}
	for when, want := range map[string]string{`1 == 2`: "is always false, so no record would be the mapping's", `true`: "is always true, so it decides nothing"} {
		m := customers()
		m.When = when
		_, problems := router.Compile([]router.Mapping{m})
		if len(problems) != 1 || problems[0].Message != want || problems[0].Path != "mappings[0].when" {
			t.Errorf("when: %s: got %v, want %q", when, problems, want)
		}
	}
}

func TestRoutesThatOthersLeaveNothingAreRefused(t *testing.T) {
	const (
		left = "is false for all records that the mapping's when and the routes before it leave, so the route can never match"
		dead = "is always false, so the route can never match"
	)
	many := `status in ["0"` + strings.Repeat(`, "1"`, 60) + "]"
	for _, tc := range []struct {
		when   string
		routes []string
		want   []string // of each route
	}{
		{"", []string{`status == "A"`, `status == "A"`}, []string{"", left}},
		{"", []string{`status == "A"`, `status in ["A", "B"]`}, []string{"", ""}},
		{"", []string{`status in ["A", "B"]`, `status == "B" and total > 5`}, []string{"", left}},
		{"", []string{`total > 5`, `total > 7 or total < 0`}, []string{"", ""}},
		{"", []string{`total > 5`, `total > 7`}, []string{"", left}},
		{"", []string{`total > 5`, `not (total > 5)`}, []string{"", ""}}, // the last has none left; it must be there
		{"", []string{`total > 5`, `not (total > 5)`, `status == "A"`}, []string{"", "", left}},
		{"", []string{`total > 5`, `total <= 5`, `status == "A"`}, []string{"", "", ""}}, // of no total, or none that is a number
		{"", []string{`len(status) > 3`, `len(status) > 3 and total > 1`}, []string{"", left}},
		{`status == "A"`, []string{`status == "B"`, `total > 5`}, []string{left, ""}},
		{`status in ["A", "B"]`, []string{`status == "B"`, `status != "A"`}, []string{"", left}},
		{"", []string{`total > 5 and total < 5`, `total > 5`}, []string{dead, ""}},
		{"", []string{many, many}, []string{"", ""}}, // not tried out: of many more the work would never end
	} {
		m := mappedOrders()
		m.When = tc.when
		m.Routes = nil
		for _, when := range tc.routes {
			m.Routes = append(m.Routes, router.Route{When: when, Lane: "batch"})
		}
		m.Routes = append(m.Routes, router.Route{Lane: "immediate"})
		got := make([]string, len(tc.routes))
		_, problems := router.Compile([]router.Mapping{m})
		for _, p := range problems {
			var i int
			if _, err := fmt.Sscanf(p.Path, "mappings[0].routes[%d].when", &i); err != nil {
				t.Fatalf("%q %q: %v", tc.when, tc.routes, p)
			}
			got[i] += p.Message
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%q %q:\n got %q\nwant %q", tc.when, tc.routes, got, tc.want)
		}
	}
}

// TestNoConditionIsRefusedThatSomeRecordFulfils draws conditions of two tests or three, and
// compares what is said of them with what they come to for values of every kind.
func TestNoConditionIsRefusedThatSomeRecordFulfils(t *testing.T) {
	values := []string{"null", "true", "false", "[1]", "{}"}
	for n := -1.0; n <= 5; n += 0.5 {
		values = append(values, fmt.Sprint(n))
	}
	for _, text := range []string{"", "a", "aa", "b", "ba", "1", "2"} {
		values = append(values, strconv.Quote(text))
	}
	var records []*router.Record
	for _, total := range values {
		for _, status := range values {
			records = append(records, &router.Record{Topic: mappedOrders().Topics[0], Value: value(t, fmt.Sprintf(`{"id":1,"total":%s,"status":%s}`, total, status))})
		}
	}
	literals := []string{`0`, `1`, `2`, `2.5`, `-0.5`, `3`, `"a"`, `"b"`, `"1"`, `true`} // the last has no order
	random := rand.New(rand.NewPCG(20, 7))
	test := func() string {
		path := []string{"total", "status"}[random.IntN(2)]
		a, b := literals[random.IntN(len(literals))], literals[random.IntN(len(literals))]
		switch random.IntN(5) {
		case 0:
			return fmt.Sprintf("%s in [%s, %s]", path, a, b)
		case 1:
			return path + []string{" == nil", " != nil"}[random.IntN(2)]
		case 2:
			return fmt.Sprintf("not (%s == %s)", path, a)
		}
		operator := []string{"==", "!=", "<", "<=", ">", ">="}[random.IntN(6)]
		if a == "true" {
			operator = "=="
		}
		return path + " " + operator + " " + a
	}
	refused := 0
	for range 800 {
		when := test() + " and " + test()
		if random.IntN(2) == 0 {
			when = []string{"not (" + when + ")", when}[random.IntN(2)] + []string{" and ", " or "}[random.IntN(2)] + test()
		}
		m := mappedOrders()
		m.Fields = m.Fields[:1]
		m.Routes = []router.Route{{When: when, Lane: "skip"}, {Lane: "immediate"}}
		_, problems := router.Compile([]router.Mapping{m})
		// With two tests that nothing is known of, and that are false here, it is refused no more.
		m.Routes[0].When = "((" + when + `) or other.x startsWith "x") and not (other.y startsWith "y")`
		always, never := true, true
		c := compile(t, m)
		for _, record := range records {
			skipped := routeOne(t, c, record).Lane == schemas.Skip
			always, never = always && skipped, never && !skipped
		}
		if (always || never) != (len(problems) > 0) {
			t.Errorf("%s: always %v, never %v; refused: %v", when, always, never, problems)
		}
		refused += len(problems)
	}
	if refused < 50 {
		t.Errorf("%d conditions were refused: too few to mean anything", refused)
	}
}

func TestOpsThatAreNoneAreRefused(t *testing.T) {
	mapped := func(op string) router.Mapping { m := mappedOrders(); m.Op = op; return m }
	routed := func(m router.Mapping, when string) router.Mapping {
		m.Routes = []router.Route{{When: when, Lane: "skip"}, {Lane: "immediate"}}
		return m
	}
	c := customers()
	c.Imports = router.Imports{}
	const oneOf = "; hint: one of upsert, patch, merge, create, delete"
	for _, tc := range []struct {
		what string
		m    router.Mapping
		want string
	}{
		{"nil", mapped("nil"), "mappings[0].op: column 1: nil is no op" + oneOf},
		{"a word", mapped("upsrt"), `mappings[0].op: column 1: "upsrt" is no op; hint: did you mean "upsert"?`},
		{"another word", mapped("replace"), `mappings[0].op: column 1: "replace" is no op` + oneOf},
		{"a word that is near", mapped("insert"), `mappings[0].op: column 1: "insert" is no op; hint: did you mean "upsert"?`},
		{"a text", mapped(`"remove"`), `mappings[0].op: column 1: "remove" is no op` + oneOf},
		{"a number", mapped(`1`), `mappings[0].op: column 1: this is no op` + oneOf},
		{"a text in a choice", mapped(`paid ? "delete" : "upsrt"`), `mappings[0].op: column 19: "upsrt" is no op; hint: did you mean "upsert"?`},
		{"a text otherwise", mapped(`status ?? "up"`), `mappings[0].op: column 11: "up" is no op` + oneOf},
		{"a comparison", routed(c, `op == "update"`), `mappings[0].routes[0].when: column 7: "update" is no op` + oneOf},
		{"a comparison in parts", routed(c, `not (attributes.a == "x" and "delte" != op)`), `mappings[0].routes[0].when: column 30: "delte" is no op; hint: did you mean "delete"?`},
		{"a list", routed(c, `op in ["patch", "c"]`), `mappings[0].routes[0].when: column 17: "c" is no op` + oneOf},
		{"rows", routed(rows(), `op == "r"`), `mappings[0].routes[0].when: column 7: "r" is no op` + oneOf},
		{"the value's own op", routed(mappedOrders(), `op == "r"`), ""},
		{"a field", mapped("status"), ""},
		{"a member", mapped("value.insert"), ""},
		{"a choice", mapped(`paid ? "delete" : nil`), ""},
	} {
		_, problems := router.Compile([]router.Mapping{tc.m})
		got := ""
		for _, p := range problems {
			got += p.String()
		}
		if got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.what, got, tc.want)
		}
	}
}

func TestNamesThatNoFieldReadsAreAWarning(t *testing.T) {
	m := mappedOrders()
	m.Fields = append(m.Fields, router.Field{Expr: `spent > 10 ? "a" : totl`, To: "x"})
	m.Op, m.When = `statsu == "GONE" ? "delete" : "upsert"`, `paid or spent > 1 or value.any or headers.any == "1" or country == "FR"`
	m.Routes = []router.Route{{When: `any(totale, .x == status)`, Lane: "skip"}, {Lane: "immediate"}}
	says := func(path, name, hint string) problem.Problem {
		return problem.Problem{Path: "mappings[0]." + path, Message: `no field of the mapping reads "` + name + `", which is nil where records do not have it`, Hint: hint}
	}
	want := []problem.Problem{
		says("op", "statsu", `did you mean "status"?`),
		says("fields[4].expr", "totl", `did you mean "total"?`),
		says("when", "country", "write value.country to say that records have it"),
		says("routes[0].when", "totale", `did you mean "total"?`),
	}
	if got := compile(t, m).Mappings()[0].Warnings; !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	for _, m := range []router.Mapping{customers(), rows(), mappedOrders()} {
		if got := compile(t, m).Mappings()[0].Warnings; len(got) > 0 {
			t.Errorf("%s: got %v, want none", m.Name, got)
		}
	}
}

func TestTheWholeValueIsNoFieldsValue(t *testing.T) {
	m := mappedOrders()
	m.Fields = append(m.Fields, router.Field{Expr: `value ?? status`, To: "x"})
	_, problems := router.Compile([]router.Mapping{m})
	if len(problems) != 1 || problems[0].String() != "mappings[0].fields[4].expr: value is the whole value; name the field of it that is meant; hint: write value.NAME" {
		t.Errorf("got %v, want it refused", problems)
	}
	if holds(t, mappedOrders(), `value.id == 2`, router.Record{Value: schemas.StringValue("text")}) {
		t.Error("a member of what is no object: got true")
	}
}

func TestWhenThatLeavesOutDeletesIsAWarning(t *testing.T) {
	const want = `mappings[0].when: a delete that carries only its key is not the mapping's, so its row stays in the table; hint: begin it with op == "delete" or`
	noDeletes := mappedOrders()
	noDeletes.Routes = []router.Route{{Lane: "batch"}}
	noDeletes.Imports = router.Imports{Upsert: &router.Import{ETL: "1", Mode: "CREATE_OR_UPDATE"}, Columns: []router.Column{{Name: "businessKey"}}}
	byFile := noDeletes
	byFile.Imports.Delete = &router.Import{ETL: "2", Mode: "DELETE"}
	profiles := customers()
	profiles.Fields, profiles.Routes, profiles.Imports = []router.Field{{From: "id", To: "customerNumber"}}, []router.Route{{Lane: "immediate"}}, router.Imports{}
	known := profiles
	known.ProfileID = "headers.profile"
	for _, tc := range []struct {
		m    router.Mapping
		when string
		warn bool
	}{
		{customers(), `attributes.country == "FR"`, true},
		{customers(), `op != "delete"`, true},
		{customers(), `op == "delete" or attributes.country == "FR"`, false},
		{customers(), `attributes.country != nil or op in ["delete"]`, false},
		{customers(), `attributes.test == nil`, false},
		{customers(), `key.customerNumber startsWith "FR"`, false},
		{customers(), `attributes.country == "FR" or headers.country == "FR"`, false},
		{customers(), `value.attributes.country == "FR"`, true},
		{rows(), `status == "PAID"`, true},
		{rows(), `value.status == "PAID"`, true},
		{rows(), `op == "delete" or status == "PAID"`, false},
		{rows(), `id > 7`, false},
		{rows(), `__source.table == "orders"`, false},
		{mappedOrders(), `status == "PAID"`, true},
		{mappedOrders(), `value.status == "PAID"`, true},
		{mappedOrders(), `value.op == "delete" or status == "PAID"`, true}, // a member like any other
		{mappedOrders(), `value == nil or status == "PAID"`, false},
		{mappedOrders(), `status == nil or status == "PAID"`, false},
		{mappedOrders(), `not (status == "PAID")`, false},
		{mappedOrders(), `status == "PAID" and headers.country == "FR"`, false},
		{noDeletes, `status == "PAID"`, false},
		{byFile, `status == "PAID"`, true},
		{profiles, `value.status == "PAID"`, false},
		{known, `value.status == "PAID"`, true},
	} {
		want := want
		if len(tc.m.Fields) > 0 && tc.m.Envelope == "" {
			want = strings.Replace(want, `op == "delete"`, "value == nil", 1)
		}
		tc.m.When = tc.when
		got := compile(t, tc.m).Mappings()[0].Warnings
		if len(got) > 0 != tc.warn || tc.warn && got[0].String() != want {
			t.Errorf("%s: got %v, want a warning: %v", tc.when, got, tc.warn)
		}
	}
}

func TestMappingsThatDivideATopicMayLeaveOutDeletes(t *testing.T) {
	paid, other := mappedOrders(), mappedOrders()
	paid.When, other.When, other.Name, other.CustomTable = `kind == "paid"`, `kind == "other"`, "others", "others"
	for i := range paid.Fields {
		paid.Fields[i].From, other.Fields[i].From = "kind", "kind"
	}
	for _, c := range compile(t, paid, other).Mappings() {
		if len(c.Warnings) > 0 {
			t.Errorf("%s: got %v, want no warning", c.Name, c.Warnings)
		}
	}
	other.Topics = []string{"others"}
	for _, c := range compile(t, paid, other).Mappings() {
		if len(c.Warnings) != 1 {
			t.Errorf("%s, alone: got %v, want one warning", c.Name, c.Warnings)
		}
	}
}
