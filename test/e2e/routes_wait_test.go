//go:build !image

package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/schemas"
)

// withCustomers is the configuration of one lane of two mappings: the routes of
// customers stay as they are.
func withCustomers(routes string) string {
	customers, _, _ := strings.Cut(mappings, "  - name: orders\n")
	return routed(routes) + strings.TrimPrefix(customers, "\nmappings:\n")
}

func (w *world) onlyWithCustomers(lane schemas.Lane, routes string) *running {
	w.t.Helper()
	w.lanes = []schemas.Lane{lane}
	defer func() { w.lanes = nil }()
	return w.start(withCustomers(routes))
}

// inOnePartition keeps the order of records whatever their keys are.
func inOnePartition(records ...*kgo.Record) []*kgo.Record {
	for _, r := range records {
		r.Key = []byte("one partition")
	}
	return records
}

// waits is what /status says that partitions of the topic wait for.
func (w *world) waits(address, topic string) (waits []string) {
	w.t.Helper()
	var status struct {
		Lanes []struct {
			Partitions []struct{ Topic, Waiting string }
		}
	}
	if err := json.Unmarshal([]byte(get(w.t, address, "/status")), &status); err != nil {
		w.t.Fatal(err)
	}
	for _, l := range status.Lanes {
		for _, p := range l.Partitions {
			if p.Topic == w.topic(topic) && p.Waiting != "" {
				waits = append(waits, p.Waiting)
			}
		}
	}
	return waits
}

// TestALaneWhoseOtherLaneIsNeverUpgradedWaitsAndSaysSo leaves one Deployment at the
// former routes. The other waits at the first record that it would have to leave,
// and goes on with what it does not have to.
func TestALaneWhoseOtherLaneIsNeverUpgradedWaitsAndSaysSo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		upgraded, former schemas.Lane
		says             string
		routes           string // of nowByCall they give the records with seq 1 to the other lane
		with             func(*kgo.Record) *kgo.Record
	}{
		{
			schemas.Batch, schemas.Immediate, "sink-immediate has applied other routes since",
			`[{when: 'headers.lane == "now" || properties.seq == 1', lane: immediate}, {lane: batch}]`, asItIs,
		},
		{
			schemas.Immediate, schemas.Batch, "sink-batch has applied other routes since",
			`[{when: 'headers.lane == "now" && properties.seq != 1', lane: immediate}, {lane: batch}]`, now,
		},
	} {
		t.Run(c.upgraded.String(), func(t *testing.T) {
			gauge := `feedsink_partitions_waiting_for_routes{lane="` + c.upgraded.String() + `"}`
			w := newWorld(t, withBothETLs)
			former, first := w.onlyWithCustomers(c.former, nowByCall), w.onlyWithCustomers(c.upgraded, nowByCall)
			w.produce(customer("c0", "gold", 1), customer("c00", "basic", 1))
			settled := func() bool { return w.lag("immediate", "customers")+w.lag("batch", "customers") == 0 }
			w.until("both lanes apply the former routes", settled)
			first.stop()
			upgraded := w.onlyWithCustomers(c.upgraded, c.routes)
			w.produce(inOnePartition(
				c.with(order("o1", "OWN", 2)),
				c.with(order("o2", "PASSED", 1)),
				c.with(order("o3", "BEHIND", 2)))...)
			w.until("the status says what the record waits for", func() bool {
				waits := w.waits(upgraded.AdminAddress(), "orders")
				return len(waits) == 1 && strings.Contains(waits[0], c.says)
			})
			w.until("the metric counts the partition", func() bool { return w.gauge(upgraded.AdminAddress(), gauge) == 1 })

			w.produce(customer("c1", "gold", 1), customer("c2", "basic", 1), customer("c3", "gold", 1), customer("c4", "basic", 1))
			w.until("records of the topic whose routes did not change are confirmed in both lanes", settled)
			w.until("its own record before the one that waits is written", func() bool {
				row, ok := w.service.Row("orders", "o1")
				return ok && row.Text("status") == "OWN"
			})
			if got := w.service.Len("customers"); got != 6 {
				t.Errorf("customers: got %d, want 6", got)
			}
			for _, key := range []string{"o2", "o3"} {
				if _, ok := w.service.Row("orders", key); ok {
					t.Errorf("order %s is written: want it to wait", key)
				}
			}
			if got := w.gauge(upgraded.AdminAddress(), gauge); got != 1 {
				t.Errorf("%s: got %v, want 1 still", gauge, got)
			}
			if got := w.waits(upgraded.AdminAddress(), "customers"); len(got) > 0 {
				t.Errorf("customers wait: %q", got)
			}

			former.stop()
			w.onlyWithCustomers(c.former, c.routes)
			w.bothSettled()
			w.until("nothing waits any more", func() bool {
				return w.gauge(upgraded.AdminAddress(), gauge) == 0 && len(w.waits(upgraded.AdminAddress(), "orders")) == 0
			})
			w.ordersAre(map[string]string{"o1": "2 OWN", "o2": "1 PASSED", "o3": "2 BEHIND"})
			w.noDeadLetters()
		})
	}
}

func asItIs(r *kgo.Record) *kgo.Record { return r }
