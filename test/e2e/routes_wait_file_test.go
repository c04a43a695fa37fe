//go:build !image

package e2e_test

import (
	"strings"
	"testing"

	"github.com/feedsink/feedsink/schemas"
)

// TestFilesGoOnWhileARecordWaitsForTheOtherLanesRoutes leaves the immediate lane at the
// former routes. What the batch lane has loaded is confirmed, its table's further files
// go, and a call that one of them has overwritten is written again in the end: once the
// other lane has the new routes, or this one the former.
func TestFilesGoOnWhileARecordWaitsForTheOtherLanesRoutes(t *testing.T) {
	t.Parallel()
	const routes = `[{when: 'headers.lane == "now" || properties.seq == 1', lane: immediate}, {lane: batch}]`
	for name, end := range map[string]func(w *world, former, upgraded *running){
		"the other lane follows": func(w *world, former, _ *running) {
			former.stop()
			w.only(schemas.Immediate, routes)
		},
		"the routes are taken back": func(w *world, _, upgraded *running) {
			upgraded.stop()
			w.only(schemas.Batch, nowByCall)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withBothETLs)
			former, batch := w.only(schemas.Immediate, nowByCall), w.only(schemas.Batch, nowByCall)
			w.produce(inOnePartition(order("o0", "BEFORE", 2))...)
			w.bothSettled()
			batch.stop()
			w.produce(inOnePartition(order("o1", "OWN", 2), order("o2", "WAITS", 1), now(order("o1", "CALL", 3)), order("o3", "BEHIND", 2))...)
			w.until("the call is written", func() bool { return w.service.Len("orders") == 2 })
			upgraded := w.only(schemas.Batch, routes)
			w.until("a record waits for the other lane's routes", func() bool {
				waits := w.waits(upgraded.AdminAddress(), "orders")
				return len(waits) == 1 && strings.Contains(waits[0], "sink-immediate has applied other routes since")
			})
			w.until("the row before the record that waits is confirmed", func() bool { return w.lag("batch", "orders") == 3 })
			other := order("o4", "ELSEWHERE", 2)
			other.Key = []byte("elsewhere")
			w.produce(other)
			w.until("a further file is confirmed", func() bool {
				row, ok := w.service.Row("orders", "o4")
				return ok && row.Text("status") == "ELSEWHERE" && w.lag("batch", "orders") == 3
			})
			if got := w.waits(upgraded.AdminAddress(), "orders"); len(got) != 1 {
				t.Errorf("the record still waits: got %q, want one partition", got)
			}
			for _, key := range []string{"o2", "o3"} {
				if _, ok := w.service.Row("orders", key); ok {
					t.Errorf("order %s is written: want it to wait", key)
				}
			}

			end(w, former, upgraded)
			w.bothSettled()
			w.ordersAre(map[string]string{"o0": "2 BEFORE", "o1": "3 CALL", "o2": "1 WAITS", "o3": "2 BEHIND", "o4": "2 ELSEWHERE"})
			w.noDeadLetters()
		})
	}
}
