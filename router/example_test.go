package router_test

import (
	"fmt"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Any JSON value becomes a write through fields; a condition on the value's own
// members chooses the lane.
func ExampleRouter_Route() {
	r, problems := router.Compile([]router.Mapping{{
		Name: "orders", Topics: []string{"shop.orders"}, CustomTable: "orders", Key: "businessKey",
		Fields: []router.Field{
			{From: "id", To: "businessKey"},
			{From: "total_cents", To: "orderTotal", As: "number", Scale: -2},
		},
		Routes: []router.Route{{Lane: "immediate"}},
	}})
	if len(problems) > 0 {
		fmt.Println(problems)
		return
	}
	value, err := schemas.NewJSON().Decode([]byte(`{"id":"4c1f0c1e","total_cents":1250}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, routed := range r.Route(nil, &router.Record{Topic: "shop.orders", Value: value}) {
		w := routed.Write
		fmt.Println(routed.Lane, w.Op, w.Table.Name, w.Key, w.Cells[0].Name, w.Cells[0].Value.Text())
	}
	// Output: immediate upsert orders 4c1f0c1e orderTotal 12.5
}

// Fields read lists and the record around the value, convert, compute, and say
// what becomes of what is missing.
func ExampleField() {
	r, problems := router.Compile([]router.Mapping{{
		Name: "orders", Topics: []string{"shop.orders"}, CustomTable: "orders", Key: "businessKey",
		Fields: []router.Field{
			{Expr: `shop + "-" + string(number)`, To: "businessKey"},
			{From: "placed", To: "placedAt", As: "timestamp", Format: "epochMillis", Timezone: "Europe/Paris"},
			{From: "lines[0].sku", To: "firstItem"},
			{From: "status", To: "status", Default: `"NEW"`},
			{From: "headers.source", To: "source"},
		},
		Routes: []router.Route{{Lane: "immediate"}},
	}})
	if len(problems) > 0 {
		fmt.Println(problems)
		return
	}
	value, err := schemas.NewJSON().Decode([]byte(`{"shop":"paris","number":7,"placed":1795255200000,"lines":[{"sku":"s1"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	headers := []router.Header{{Key: "source", Value: []byte("web")}}
	for _, routed := range r.Route(nil, &router.Record{Topic: "shop.orders", Headers: headers, Value: value}) {
		fmt.Println(routed.Write.Key)
		for _, cell := range routed.Write.Cells {
			fmt.Println(cell.Name, cell.Value.Text())
		}
	}
	// Output:
	// paris-7
	// placedAt 2026-11-21T11:00:00+01:00
	// firstItem s1
	// status NEW
	// source web
}
