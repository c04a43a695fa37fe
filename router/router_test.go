package router_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// customers is a profile mapping with both lanes.
func customers() router.Mapping {
	return router.Mapping{
		Name: "customers", Topics: []string{"crm.customers"}, ProfileTable: "customers", Key: "customerNumber",
		Routes: []router.Route{{When: `segments.tier == "gold"`, Lane: "immediate"}, {Lane: "batch"}},
		Imports: router.Imports{
			Upsert:      &router.Import{ETL: "101", Mode: "CREATE_OR_UPDATE"},
			Delete:      &router.Import{ETL: "102", Mode: "DELETE"},
			Columns:     []router.Column{{Name: "customerNumber"}, {Name: "emailAddress"}, {Name: "subscriptions#newsletter"}, {Name: "S_tier"}},
			Roll:        router.Roll{Rows: 500_000, Bytes: 256 << 20, Age: 2 * time.Hour},
			SlotsPerDay: 12, Reserve: 2, RetryFailed: 1, Timezone: "UTC",
		},
	}
}

// orders is a custom table's mapping of canonical events, immediate only.
func orders() router.Mapping {
	return router.Mapping{
		Name: "orders", Topics: []string{"shop.orders"}, CustomTable: "orders", Key: "businessKey",
		Routes: []router.Route{{Lane: "immediate"}},
	}
}

// mappedOrders is orders with fields.
func mappedOrders() router.Mapping {
	m := orders()
	m.Fields = []router.Field{
		{From: "id", To: "businessKey"},
		{From: "total.cents", To: "orderTotal", As: "number", Scale: -2},
		{From: "status", To: "status"},
		{From: "paid", To: "paid", As: "boolean"},
	}
	return m
}

func compile(t testing.TB, ms ...router.Mapping) *router.Router {
	t.Helper()
	r, problems := router.Compile(ms)
	for _, p := range problems {
		t.Errorf("compile: %v", p)
	}
	if len(problems) > 0 {
		t.FailNow()
	}
	return r
}

func value(t testing.TB, text string) schemas.Value {
	t.Helper()
	v, err := schemas.NewJSON().Decode([]byte(text))
	if err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return v
}

// routeOne routes a record through the one mapping of its topic.
func routeOne(t testing.TB, r *router.Router, rec *router.Record) router.Routed {
	t.Helper()
	routed := r.Route(nil, rec)
	if len(routed) != 1 {
		t.Fatalf("routed: got %d, want 1", len(routed))
	}
	return routed[0]
}

// story is a routed record in one line, for comparison.
func story(routed router.Routed) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: ", routed.Lane)
	if routed.Err != nil {
		reject, ok := errors.AsType[*router.Reject](routed.Err)
		if !ok {
			return fmt.Sprintf("%T is not a Reject", routed.Err)
		}
		fmt.Fprintf(&b, "reject %s: %v", reject.Code, reject)
		return b.String()
	}
	w := routed.Write
	fmt.Fprintf(&b, "%v %s %s", w.Op, w.Table.Name, w.Key)
	if w.ProfileID != "" {
		fmt.Fprintf(&b, " (%s)", w.ProfileID)
	}
	for _, c := range w.Cells {
		section := [...]string{
			schemas.Attributes: "a", schemas.Subscriptions: "n", schemas.Segments: "s",
			schemas.DataCollection: "d", schemas.Properties: "p",
		}[c.Section]
		fmt.Fprintf(&b, " %s.%s=%s", section, c.Name, c.Value.AppendJSON(nil))
	}
	return b.String()
}
