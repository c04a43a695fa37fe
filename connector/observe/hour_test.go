package observe

import (
	"context"
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
				m.Delivered("customers", schemas.Batch, time.Second, int64(point))
				m.Delivered("orders", schemas.Immediate, time.Second, 2)
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
