package router_test

import (
	"slices"
	"testing"
	"time"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/problem"
	"github.com/feedsink/feedsink/schemas"
)

// holds compiles a condition into a mapping's first route and asks whether a
// record takes it.
func holds(t testing.TB, m router.Mapping, when string, rec router.Record) bool {
	t.Helper()
	m.Routes = []router.Route{{When: when, Lane: "immediate"}, {Lane: "batch"}}
	m.Imports = customers().Imports
	if m.CustomTable != "" {
		m.Imports.Columns = []router.Column{{Name: "businessKey"}}
	}
	rec.Topic = m.Topics[0]
	return routeOne(t, compile(t, m), &rec).Lane == schemas.Immediate
}

var conditionRecord = router.Record{
	Partition: 3,
	Timestamp: time.Date(2026, 11, 21, 10, 0, 0, 0, time.FixedZone("", 3600)),
	Headers:   []router.Header{{"source", []byte("crm")}, {"source", []byte("shop")}, {"empty", nil}},
}

func TestConditionsOnCanonicalEvents(t *testing.T) {
	event := `{"op":"upsert","key":{"customerNumber":"C1"},"profileId":"p1","attributes":{"customerNumber":"C1","age":44,"score":2.5,` +
		`"name":"Ada","languages":["fr","en"],"none":null,"big":12345678901,"mixed":[1,"x"]},"subscriptions":{"newsletter":true,"sms":false},"segments":{"tier":"gold","vip":true}}`
	rec := conditionRecord
	rec.Value = value(t, event)
	for when, want := range map[string]bool{
		`segments.tier == "gold"`:                              true,
		`segments["tier"] == "gold"`:                           true,
		`segments?.tier == "gold"`:                             true,
		`segments.tier != "gold"`:                              false,
		`segments.tier in ["silver", "gold"]`:                  true,
		`"tier" in segments`:                                   true,
		`"nothing" in segments`:                                false,
		`segments.vip`:                                         true,
		`not segments.vip`:                                     false,
		`attributes.age > 40 and attributes.age <= 44`:         true,
		`attributes.age == 44.0`:                               true,
		`attributes.score >= 2`:                                true,
		`attributes.big > 2147483647`:                          true,
		`attributes.name startsWith "A"`:                       true,
		`attributes.name matches "^A.a$"`:                      true,
		`len(attributes.languages) == 2`:                       true,
		`"fr" in attributes.languages`:                         true,
		`any(attributes.languages, # == "en")`:                 true,
		`any(attributes.mixed, # > 0)`:                         true,
		`attributes.languages[0] == "fr"`:                      true,
		`attributes.languages[-1] == "en"`:                     true,
		`attributes.languages[9] == nil`:                       true,
		`attributes.languages == ["fr", "en"]`:                 true,
		`upper(attributes.name) == "ADA"`:                      true,
		`subscriptions.newsletter && !subscriptions.sms`:       true,
		`op == "upsert"`:                                       true,
		`profileId == "p1" && key.customerNumber == "C1"`:      true,
		`topic == "crm.customers" && partition == 3`:           true,
		`headers.source == "shop"`:                             true,
		`headers.empty == nil && headers.none == nil`:          true,
		`"source" in headers and len(headers) == 2`:            true,
		`timestamp > date("2026-11-21T08:59:59Z")`:             true,
		`string(timestamp) == "2026-11-21 09:00:00 +0000 UTC"`: true,
		`timestamp == date("2026-11-21T09:00:00Z")`:            true,
		`timestamp - date("2026-11-21") < duration("10h")`:     true,
		`attributes.age > 40 ? segments.vip : false`:           true,
		`(attributes.age ?? 0) + 1 == 45`:                      true,
		`len(attributes) > 3 && attributes["name"] == "Ada"`:   true,
	} {
		if got := holds(t, customers(), when, rec); got != want {
			t.Errorf("%s: got %v, want %v", when, got, want)
		}
	}
}

// What is missing is nil; a comparison with nil, or of two types, is false, and
// whatever cannot be computed is false without taking the rest along.
func TestConditionsAreTotal(t *testing.T) {
	rec := conditionRecord
	rec.Value = value(t, `{"attributes":{"customerNumber":"C1","text":"x","none":null,"max":9223372036854775807,"object":{}},"segments":{"tier":"gold"}}`)
	for when, want := range map[string]bool{
		`attributes.age == 1`:                                  false,
		`attributes.age != 1`:                                  false,
		`attributes.age < 1`:                                   false,
		`attributes.age <= 1`:                                  false,
		`attributes.age > 1`:                                   false,
		`attributes.age >= 1`:                                  false,
		`attributes.none != 1`:                                 false,
		`attributes.age == attributes.other`:                   false,
		`attributes.age == nil`:                                true,
		`attributes.none == nil`:                               true,
		`nil == attributes.age`:                                true,
		`attributes.text != nil`:                               true,
		`attributes.age in [1, nil, ""]`:                       false,
		`attributes.age in [""]`:                               false,
		`attributes.age not in [1]`:                            true,
		`not (attributes.age == 1)`:                            true,
		`attributes.text > 1`:                                  false,
		`attributes.text == 1`:                                 false,
		`attributes.text != 1`:                                 false,
		`attributes.a.b.c == nil`:                              true,
		`attributes.text.b == nil`:                             true,
		`attributes.a.b == "x"`:                                false,
		`attributes.a[0].b == nil`:                             true,
		`attributes.age contains "x"`:                          false,
		`len(attributes.age) > 0`:                              false,
		`len(attributes.age) > 0 or segments.tier == "gold"`:   true,
		`attributes.age + 1 > 0 || segments.tier == "gold"`:    true,
		`attributes.age or segments.tier == "gold"`:            true,
		`attributes.age and segments.tier == "gold"`:           false,
		`not attributes.age`:                                   true,
		`attributes.age`:                                       false,
		`attributes.text`:                                      false,
		`any(attributes.age, # == 1)`:                          false,
		`attributes.text matches attributes.text + "("`:        false,
		`attributes.max + 1 < 0`:                               false,
		`attributes.max * 4 < 0`:                               false,
		`sum([attributes.max, 1]) < 0`:                         false,
		`(attributes.age == 1) == false`:                       true,
		`profileId == "p" or businessKey == "k"`:               false,
		`properties.x == nil and subscriptions.newsletter`:     false,
		`int(attributes.text) == 1`:                            false,
		`attributes.text > 1 or attributes.text == "x"`:        true,
		`1/0 > 1 and repeat(segments.tier, 1000000000) != "x"`: false,
		`(segments.tier == "gold") and not attributes.absent`:  true,
	} {
		if got := holds(t, customers(), when, rec); got != want {
			t.Errorf("%s: got %v, want %v", when, got, want)
		}
	}
}

func TestConditionsOnMappedValuesSeeTheValuesOwnFields(t *testing.T) {
	rec := conditionRecord
	rec.Value = value(t, `{"id":1,"status":"PAID","customer":{"tier":"gold"},"op":"x","lines":[{"sku":"a"},null,{"sku":"b"}],"topic":"mine"}`)
	for when, want := range map[string]bool{
		`status == "PAID"`:                      true,
		`customer.tier == "gold"`:               true,
		`any(lines, .sku == "b")`:               true,
		`lines[2].sku == "b"`:                   true,
		`nothing == nil && nothing.more == nil`: true,
		`op == "x"`:                             true,
		`topic == "shop.orders"`:                true,
		`headers.source == "shop"`:              true,
	} {
		if got := holds(t, mappedOrders(), when, rec); got != want {
			t.Errorf("%s: got %v, want %v", when, got, want)
		}
	}
}

func TestConditionMistakesSayWhereAndWhat(t *testing.T) {
	for when, want := range map[string]problem.Problem{
		`segments.tier == `:            {Message: `column 17: unexpected token EOF`, Hint: `the expression ends too early`},
		`segment.tier == "gold"`:       {Message: `column 1: unknown name segment`, Hint: `did you mean "segments"?`},
		`op > 3`:                       {Message: `column 4: invalid operation: > (mismatched types string and int)`},
		`"gold"`:                       {Message: `expected bool, but got string`},
		`len(segments)`:                {Message: `expected bool, but got int`},
		`now() > timestamp`:            {Message: `column 1: now is not available: the result may depend on nothing but the record`},
		`keys(segments)[0] == "a"`:     {Message: `column 1: keys is not available: the result may depend on nothing but the record`},
		`rand() > 0.5`:                 {Message: `column 1: unknown function rand`, Hint: `did you mean "any"?`},
		`timestamp.Unix() > 0`:         {Message: `column 11: unknown function`},
		`let x = 1; x == 1`:            {Message: `column 5: let is not available`},
		`op matches "(" + "["`:         {Message: "error parsing regexp: missing closing ]: `[`"},
		`op == "x" and 3 % 0 == 1`:     {Message: `column 17: integer divide by zero`},
		`partition < nil`:              {Message: `column 11: nothing is above or below nil, so this is never true; == nil and != nil ask whether something is there`},
		`$env.op == "upsert"`:          {Message: `column 1: $env is not available`},
		"op == \"x\" and\n  nope == 1": {Message: `line 2, column 3: unknown name nope`, Hint: `one of op, key, profileId, businessKey, attributes, subscriptions, segments, properties, headers, topic, partition, offset, timestamp, kafkaKey, value`},
	} {
		m := customers()
		m.Routes[0].When = when
		_, problems := router.Compile([]router.Mapping{m})
		want.Path = "mappings[0].routes[0].when"
		if !slices.Equal(problems, []problem.Problem{want}) {
			t.Errorf("%s:\n got %v\nwant %v", when, problems, want)
		}
	}
}

// FuzzCondition: no text and no record makes a condition fail, and the answer
// depends on nothing else.
func FuzzCondition(f *testing.F) {
	for _, when := range []string{
		`segments.tier == "gold"`, `a.b[0] > 1 or not c`, `any(a, # == 1 && .b != nil)`, `len(a) + 1 in [1,2]`,
		`a ?? b matches "x"`, `if a { b } else { c == 1 }`, `timestamp < date("2026-01-01")`, `a[1:2] == a`,
	} {
		f.Add(when, `{"id":1,"a":[1,{"b":2}],"b":"x","c":true,"segments":{"tier":"gold"}}`)
	}
	f.Fuzz(func(t *testing.T, when, text string) {
		v, err := schemas.NewJSON().Decode([]byte(text))
		if err != nil || len(when) > 200 {
			return
		}
		m := mappedOrders()
		m.Routes = []router.Route{{When: when, Lane: "immediate"}, {Lane: "batch"}}
		m.Imports = customers().Imports
		m.Imports.Columns = []router.Column{{Name: "businessKey"}}
		r, problems := router.Compile([]router.Mapping{m})
		if len(problems) > 0 {
			return
		}
		rec := router.Record{Topic: "shop.orders", Value: v}
		first, second := routeOne(t, r, &rec), routeOne(t, r, &rec)
		if first.Lane != second.Lane {
			t.Fatalf("%s on %s: got %v, then %v", when, text, first.Lane, second.Lane)
		}
	})
}
