package router_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/router"
)

func TestPathsThatNoRecordHasAreFound(t *testing.T) {
	misspelt := mappedOrders()
	misspelt.When = `value.kindd == nil`
	misspelt.Fields[2].From = "statuss"
	misspelt.Fields = append(
		misspelt.Fields,
		router.Field{From: "total.cent", To: "b"}, router.Field{Expr: "totall.cents * 2", To: "c"},
		router.Field{From: "lines[0].skuu", To: "d"}, router.Field{From: "lines[*].sku", To: "e"},
		router.Field{From: "nothing.of.it", To: "f"}, router.Field{From: "note.text", To: "g"},
		router.Field{From: "headers.statuss", To: "h"}, router.Field{From: "tags[*]", To: "i"},
	)
	misspelt.Routes = []router.Route{{When: `statuss == "x"`, Lane: "immediate"}, {Lane: "immediate"}}
	const order = `{"id":1,"kind":"a","total":{"cents":1},"status":"x","paid":true,"lines":[{"sku":"s"}],"note":null,"tags":[],"Ann Smith":1}`
	row := rows()
	row.Fields[1].From = "Statuz"
	canonical := orders()
	canonical.When = `op == "upsert" and properties.statuz != 1`
	skipping := mappedOrders()
	skipping.Routes = []router.Route{{When: "not value.open", Lane: "skip"}, {Lane: "immediate"}}
	skipping.Fields[2].From = "statuss"
	for _, tc := range []struct {
		name    string
		mapping router.Mapping
		values  []string
		want    []string
	}{
		{"all are there", mappedOrders(), five(order), nil},
		{"of a few nothing is said", misspelt, five(order)[:4], nil},
		{"one has them", mappedOrders(), append(five(`{"id":1}`), order), nil},
		{"misspelt", misspelt, five(order), []string{
			`5 "statuss" [fields[2].from routes[0].when] did you mean "status"?`,
			`5 "total.cent" [fields[4].from] did you mean "cents"?`,
			`5 "totall.cents" [fields[5].expr] did you mean "total"?`,
			`5 "lines[0].skuu" [fields[6].from] did you mean "sku"?`,
			`5 "nothing.of.it" [fields[8].from] `,
			`5 "kindd" [when] did you mean "kind"?`,
		}},
		{"a row of Debezium", row, append(five(`{"op":"c","source":{},"after":{"id":1,"total":"1","note":"","status":"x"},"ts_ms":1}`), five(`{"op":"d","source":{},"before":{"id":1}}`)...), []string{
			`5 "Statuz" [fields[1].from] did you mean "status"?`,
		}},
		{"a canonical event", canonical, five(`{"op":"upsert","businessKey":"1","properties":{"status":"x"}}`), []string{
			`5 "properties.statuz" [when] did you mean "status"?`,
		}},
		{"records that a route skips", skipping, five(order), []string{`5 "open" [routes[0].when] `}},
	} {
		r := compile(t, tc.mapping)
		sought := router.NewSought(r)
		for _, text := range tc.values {
			rec := &router.Record{Topic: "shop.orders", Value: value(t, text)}
			sought.Look(rec, r.Route(nil, rec))
		}
		var got []string
		for _, n := range sought.NotFound(r.Mappings()[0]) {
			got = append(got, fmt.Sprintf("%d %q %v %s", n.Records, n.Path, n.At, n.Hint))
		}
		if fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", tc.name, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
		}
	}
}

// five are as many of a value as it takes to say that something is in none.
func five(value string) (values []string) {
	for range router.FewestSought {
		values = append(values, value)
	}
	return values
}

func TestNamesThatMayBeDataAreNotProposed(t *testing.T) {
	mapped := mappedOrders()
	mapped.Fields[2].From = "Ann Smit"
	r := compile(t, mapped)
	sought := router.NewSought(r)
	for range router.FewestSought {
		rec := &router.Record{Topic: "shop.orders", Value: value(t, `{"id":1,"total":{"cents":1},"paid":true,"Ann Smith":1}`)}
		sought.Look(rec, r.Route(nil, rec))
	}
	for _, n := range sought.NotFound(r.Mappings()[0]) {
		if n.Hint != "" {
			t.Errorf("got %+v, want no proposal", n)
		}
	}
}
