package observe

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// hourOf is an hour of two mappings: customers with both lanes, orders with calls alone.
func hourOf(t *testing.T) (*Hour, *Metrics) {
	t.Helper()
	compiled, problems := router.Compile([]router.Mapping{
		{
			Name: "customers", Topics: []string{"crm"}, ProfileTable: "customers", Key: "id",
			Routes:  []router.Route{{When: `segments.tier == "gold"`, Lane: "immediate"}, {Lane: "batch"}},
			Imports: router.Imports{Upsert: &router.Import{ETL: "1", Mode: "CREATE_OR_UPDATE"}, Columns: []router.Column{{Name: "id"}}},
		},
		{Name: "orders", Topics: []string{"shop"}, CustomTable: "orders", Key: "businessKey", Routes: []router.Route{{Lane: "immediate"}}},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	m := NewMetrics(prometheus.NewRegistry())
	h := NewHour(m)
	h.Keep(compiled.Mappings(), schemas.Lanes)
	return h, m
}

func TestHourKeepsTheLast120Points(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, m := hourOf(t)
		point := 0
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			_ = h.Run(ctx, func() map[string]map[string]time.Duration {
				point++
				m.Delivered("customers", schemas.Batch, time.Second, int64(point), "")
				m.Delivered("orders", schemas.Immediate, time.Second, 2, "")
				m.Called("orders", schemas.Upsert, 200, time.Second)
				m.Called("orders", schemas.Delete, 404, time.Second)
				m.Called("customers", schemas.Upsert, 0, time.Second)
				return map[string]map[string]time.Duration{
					"immediate": {"orders": 3 * time.Second},
					"batch":     {"customers": time.Duration(point) * time.Minute},
				}
			})
		}()
		if got := h.Last(nil).(Hourly); !got.To.IsZero() || len(got.Lanes["batch"].Freshness) != 0 {
			t.Errorf("at the start: got %+v, want no point", got)
		}
		time.Sleep(125*pointEvery + time.Second)
		stop()
		synctest.Wait()
		got := h.Last([]string{"customers", "orders", "none"}).(Hourly)
		if want := time.Now().Add(-time.Second); !got.To.Equal(want) {
			t.Errorf("the last point: got %v, want %v", got.To, want)
		}
		batch := got.Mappings["customers"]["batch"]
		if n := len(batch.Freshness); n != 120 || batch.Freshness[0] != 6*60 || batch.Freshness[119] != 125*60 {
			t.Errorf("freshness: got %d points, %v, want the 120 from the 6th to the 125th", n, batch.Freshness)
		}
		if n := len(batch.Confirmed); n != 120 || batch.Confirmed[0] != 12 || batch.Confirmed[119] != 250 {
			t.Errorf("confirmed: got %d points, %v, want 12 to 250 a minute", n, batch.Confirmed)
		}
		if batch.Calls != nil {
			t.Errorf("calls of the batch lane: got %v, want none", batch.Calls)
		}
		if orders := got.Mappings["orders"]["immediate"]; orders.Calls[119] != 4 || orders.Confirmed[119] != 4 || orders.Freshness[119] != 3 {
			t.Errorf("orders: got %+v, want 4 calls and 4 records a minute, and 3 s", orders)
		}
		if lane := got.Lanes["immediate"]; lane.Calls[119] != 6 || lane.Freshness[119] != 3 {
			t.Errorf("the lane: got %+v, want the calls of both mappings and the age of the older", lane)
		}
		if _, ok := got.Mappings["orders"]["batch"]; ok || len(got.Mappings) != 2 {
			t.Errorf("got %v, want the lanes that mappings have, and no others", got.Mappings)
		}
	})
}

// TestHourOfAThousandMappingsIsBounded: what is said of it in sizing holds.
func TestHourOfAThousandMappingsIsBounded(t *testing.T) {
	h, _ := hourOf(t)
	for range 3 * pointsKept {
		h.add(nil)
	}
	sizes := []int{len(h.kept), len(h.totals), len(h.Last(nil).(Hourly).Lanes["batch"].Freshness)}
	if want := []int{3, 0, pointsKept}; !slices.Equal(sizes, want) {
		t.Errorf("after three hours: got %v series, totals and points, want %v", sizes, want)
	}
}

func TestKeptIsOfTheLastHour(t *testing.T) {
	gold := router.Objective{Mapping: "customers", Route: "gold", Lane: schemas.Immediate, Within: 5 * time.Second, Share: 0.99}
	compiled, problems := router.Compile([]router.Mapping{{
		Name: "customers", Topics: []string{"crm"}, CustomTable: "customers", Key: "businessKey",
		Routes: []router.Route{{Lane: "immediate", Name: "gold", Within: 5 * time.Second}},
	}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	m := NewMetrics(prometheus.NewRegistry())
	h := NewHour(m)
	m.Begin(compiled.Mappings(), schemas.Lanes)
	h.Keep(compiled.Mappings(), schemas.Lanes)
	want := func(when string, share float64, records int64) {
		t.Helper()
		if gotShare, got := h.Kept(&gold); gotShare != share || got != records {
			t.Errorf("%s: got %v of %d records, want %v of %d", when, gotShare, got, share, records)
		}
	}
	want("at the start", 0, 0)
	m.Judged(&gold, 5*time.Second, 3)
	m.Judged(&gold, 5*time.Second+1, 1)
	want("before the first point", 0.75, 4)
	for range pointsKept {
		h.add(nil)
	}
	want("an hour after the first point", 0, 0)
	m.Judged(&gold, -time.Second, 2) // by another machine's clock
	want("after two more", 1, 2)
	h.Keep(compiled.Mappings(), schemas.Lanes) // again, as a reload does
	want("after a reload", 1, 2)
	m.Judged(nil, time.Hour, 1)
	want("after a record without an objective", 1, 2)
}

// TestForgetRemovesObjectives: a reload leaves no series of an objective that is gone, which
// would be shown for ever, and goes on counting those that stay.
func TestForgetRemovesObjectives(t *testing.T) {
	compiled := func(routes ...router.Route) *router.Router {
		r, problems := router.Compile([]router.Mapping{{Name: "orders", Topics: []string{"shop"}, CustomTable: "orders", Key: "businessKey", Routes: routes}})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return r
	}
	former := compiled(router.Route{When: `op == "delete"`, Lane: "immediate", Within: time.Minute}, router.Route{Lane: "immediate", Name: "rest", Within: time.Minute})
	next := compiled(router.Route{When: `op == "delete"`, Lane: "immediate"}, router.Route{Lane: "immediate", Name: "rest", Within: time.Second})
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	m.Begin(former.Mappings(), schemas.Lanes)
	m.Judged(former.Mappings()[0].Objective(1), time.Second, 3)
	m.Begin(next.Mappings(), schemas.Lanes)
	m.Forget(former, next)
	m.Judged(next.Mappings()[0].Objective(1), time.Second, 1)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		for _, s := range f.GetMetric() {
			if f.GetName() == "feedsink_objective_records_total" {
				got = append(got, fmt.Sprintf("%s %s %v", s.GetLabel()[2].GetValue(), s.GetLabel()[0].GetValue(), s.GetCounter().GetValue()))
			}
		}
	}
	if want := []string{"rest no 0", "rest yes 4"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q: a route, whether it was kept, and how many records", got, want)
	}
}
