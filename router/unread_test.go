package router_test

import (
	"fmt"
	"testing"

	"github.com/feedsink/feedsink/router"
)

func TestFieldsThatNoMappingReadsAreFound(t *testing.T) {
	mapped := mappedOrders() // id, total.cents, status, paid
	mapped.Op = `value.closed == true ? "delete" : "upsert"`
	mapped.Routes = []router.Route{{When: `customer.tier == "gold" and headers.a == "b"`, Lane: "immediate"}, {Lane: "immediate"}}
	mapped.Fields = append(
		mapped.Fields,
		router.Field{From: "lines[0].sku", To: "sku"},
		router.Field{Expr: "shop.name + shop.city", To: "shop"},
		router.Field{From: "timestamp", To: "at"},
		router.Field{Value: `"x"`, To: "y"},
	)
	other := mappedOrders()
	other.Name, other.CustomTable = "others", "others"
	other.Fields = []router.Field{{From: "total", To: "businessKey"}, {From: "more", To: "more"}}
	canonical := orders()
	canonical.Name, canonical.CustomTable = "more", "more"
	for _, tc := range []struct {
		name     string
		mappings []router.Mapping
		value    string
		want     string
	}{
		{"all are read", []router.Mapping{mapped}, `{"id":1,"status":"x","paid":true,"closed":false}`, `[]`},
		{"at the top", []router.Mapping{mapped}, `{"id":1,"loyalty":{"tier":"x"},"note":null}`, `[loyalty note]`},
		{"inside", []router.Mapping{mapped}, `{"total":{"cents":1,"currency":"EUR"},"shop":{"name":"a","zip":"b"},"customer":{"tier":"gold","id":7}}`, `[total.currency shop.zip customer.id]`},
		{"of a list all is read", []router.Mapping{mapped}, `{"lines":[{"sku":"a","qty":1}]}`, `[]`},
		{"a scalar in the place of an object", []router.Mapping{mapped}, `{"total":12}`, `[]`},
		{"what the record says itself", []router.Mapping{mapped}, `{"timestamp":1,"headers":{}}`, `[timestamp headers]`},
		{"another mapping reads it", []router.Mapping{mapped, other}, `{"total":{"currency":"EUR"},"more":1,"less":2}`, `[less]`},
		{"canonical events", []router.Mapping{mapped, canonical}, `{"loyalty":1}`, `[]`},
		{"canonical events first", []router.Mapping{canonical, mapped}, `{"loyalty":1}`, `[]`},
		{"no object", []router.Mapping{mapped}, `[1]`, `[]`},
		{"a row of Debezium", []router.Mapping{rows()}, `{"op":"c","source":{},"after":{"id":1,"total":"1","loyalty":1},"ts_ms":1}`, `[loyalty]`},
		{"a flattened row", []router.Mapping{rows()}, `{"id":1,"loyalty":1,"__op":"c","__deleted":"false"}`, `[loyalty]`},
		{"a deleted row", []router.Mapping{rows()}, `{"op":"d","source":{},"before":{"id":1,"loyalty":1}}`, `[]`},
		{"no row", []router.Mapping{rows()}, `{"op":"m","source":{}}`, `[]`},
		{"no change", []router.Mapping{rows()}, `[]`, `[]`},
	} {
		topic := compile(t, tc.mappings...).Topic("shop.orders")
		if got := fmt.Sprint(topic.Unread(&router.Record{Topic: "shop.orders", Value: value(t, tc.value)})); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
	if got := compile(t, mapped).Topic("shop.orders").Unread(&router.Record{Tombstone: true}); got != nil {
		t.Errorf("a tombstone: got %v, want nothing", got)
	}
	if got := compile(t, mapped).Topic("elsewhere").Unread(&router.Record{Value: value(t, `{"a":1}`)}); got != nil {
		t.Errorf("a topic that no mapping reads: got %v, want nothing", got)
	}
}
