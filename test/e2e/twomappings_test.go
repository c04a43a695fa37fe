//go:build !image

package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// orderAndBuyer writes each order and its buyer, the buyers of newer ones by calls.
const orderAndBuyer = `
mappings:
  - name: orders
    topics: ["${PREFIX}orders"]
    customTable: orders
    key: businessKey
    fields: [{from: id, to: businessKey}, {from: seq, to: seq}, {from: status, to: status}]
    routes: [{lane: %[1]s}]
    imports:
      upsert: {etl: "103", mode: CREATE_OR_UPDATE}
      delete: {etl: "105", mode: DELETE}
      columns: [businessKey, seq, status]
      roll: {rows: 1, bytes: 1MiB, age: 100ms}
      slotsPerDay: 1000
  - name: buyers
    topics: ["${PREFIX}orders"]
    profileTable: customers
    key: customerNumber
    fields: [{from: buyer, to: customerNumber}, {from: seq, to: seq}]
    routes: [{when: 'seq == 2', lane: immediate}, {lane: %[1]s}]
    imports:
      upsert: {etl: "101", mode: CREATE_OR_UPDATE}
      delete: {etl: "102", mode: DELETE}
      columns: [customerNumber, seq]
      roll: {rows: 1, bytes: 1MiB, age: 100ms}
      slotsPerDay: 1000
`

// TestOlderRecordIsNotLeftOverANewerConfirmedOne: of the older record, which two
// mappings write, one part waits for the service when the sink stops.
func TestOlderRecordIsNotLeftOverANewerConfirmedOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lane string
		held sandbox.Match
	}{
		{"immediate", sandbox.Match{Op: 1, Key: "C1"}},
		{"batch", sandbox.Match{Op: 10, Table: "customers"}},
	} {
		t.Run(c.lane, func(t *testing.T) {
			w := newWorld(t, withBothETLs)
			yaml := head + deadLetters + fmt.Sprintf(orderAndBuyer, c.lane)
			status := func(key, want string) func() bool {
				return func() bool { return w.service.Rows("orders")[key].Text("status") == want }
			}
			sale := func(seq int, key, status, buyer string) *kgo.Record {
				return event("orders", key, fmt.Sprintf(`{"id":%q,"seq":%d,"status":%q,"buyer":%q}`, key, seq, status, buyer))
			}
			w.service.Inject(sandbox.Fault{Match: c.held, Answer: sandbox.Status(http.StatusServiceUnavailable)})
			first := w.start(yaml)
			w.produce(sale(1, "o1", "OLD", "C1"))
			w.until("the older record's order is written", status("o1", "OLD"))
			w.produce(sale(2, "o1", "NEW", "C2"), sale(2, "o2", "ONLY", "C3"))
			w.until("the newer one is written", func() bool { return status("o1", "NEW")() && status("o2", "ONLY")() })
			if c.lane == "batch" {
				confirmed := fmt.Sprintf(`feedsink_records_total{outcome="confirmed",topic=%q} 5`, w.topic("orders")) // two of them also by the immediate lane

				w.until("its file is confirmed", func() bool { return strings.Contains(get(t, first.AdminAddress(), "/metrics"), confirmed) })
			}
			first.stop()
			calls := len(w.service.Calls())
			w.service.ClearFaults()
			w.start(yaml)
			w.until("everything is confirmed", func() bool { return w.lag(c.lane, "orders") == 0 })
			if c.lane == "batch" {
				w.bothSettled()
			}
			w.ordersAre(map[string]string{"o1": "2 NEW", "o2": "2 ONLY"})
			if w.service.Rows("customers")["C1"].Text("seq") != "1" {
				t.Error("the older record's other part: got it missing")
			}
			for _, call := range w.service.Calls()[calls:] {
				if c.lane == "immediate" && call.Key == "o2" {
					t.Error("a confirmed record without an older one of its key: got it sent again")
				}
			}
			w.noDeadLetters()
		})
	}
}

// orderAfterItsBuyer writes both from one topic, newer states of orders by calls.
const orderAfterItsBuyer = `
mappings:
  - name: buyers
    topics: ["${PREFIX}orders"]
    profileTable: customers
    key: customerNumber
    fields: [{from: buyer, to: customerNumber}, {from: seq, to: seq}]
    routes: [{lane: immediate}]
  - name: orders
    topics: ["${PREFIX}orders"]
    customTable: orders
    key: businessKey
    after: [buyers]
    op: 'seq == 2 ? "patch" : "upsert"'
    fields: [{from: id, to: businessKey}, {from: seq, to: seq}, {from: status, to: status}]
    routes: [{when: 'seq == 2', lane: immediate}, {lane: batch}]
    imports:
      upsert: {etl: "103", mode: CREATE_OR_UPDATE}
      delete: {etl: "105", mode: DELETE}
      columns: [businessKey, seq, status]
      roll: {rows: 1000, bytes: 1MiB, age: 300ms}
      slotsPerDay: 1000
`

// TestChildsFileDoesNotWaitForACallThatWaitsForIt: a patch of a row in the file comes from
// the topic of the parents, whose calls the file waits for.
func TestChildsFileDoesNotWaitForACallThatWaitsForIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	sale := func(seq int, status string) *kgo.Record {
		return event("orders", "o1", fmt.Sprintf(`{"id":"o1","seq":%d,"status":%q,"buyer":"C1"}`, seq, status))
	}
	w.produce(sale(1, "OLD"), sale(2, "NEW"))
	w.start(head + deadLetters + orderAfterItsBuyer)
	w.until("everything is confirmed", func() bool { return w.lag("immediate", "orders") == 0 && w.lag("batch", "orders") == 0 })
	w.ordersAre(map[string]string{"o1": "2 NEW"})
	w.noDeadLetters()
}

// TestImportOfAMappingThatHasLeftTheBatchLaneIsAwaited: another mapping of its topic still uses that
// lane. Newer calls land behind the import all the same.
func TestImportOfAMappingThatHasLeftTheBatchLaneIsAwaited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	w.service.Hold()
	before := head + deadLetters + fmt.Sprintf(orderAndBuyer, "batch")
	first := w.start(before)
	both := func(seq int) {
		w.produce(event("orders", "k", fmt.Sprintf(`{"id":"o1","buyer":"C1","seq":%d,"status":"PAID"}`, seq)))
	}
	both(2) // the buyer by a call
	w.until("the order's import runs", func() bool { return strings.Contains(w.logs.String(), "import triggered") })
	first.stop()
	sink := w.start(strings.Replace(before, "routes: [{lane: batch}]", "routes: [{lane: immediate}]", 1))
	both(3)
	w.until("it waits for what was sent, or calls", func() bool {
		return w.service.CallCount(4) > 0 || strings.Contains(get(t, sink.AdminAddress(), "/status"), "has not ended")
	})
	if got := w.service.CallCount(4); got > 0 {
		t.Errorf("while the import runs: got %d calls, want none", got)
	}
	w.service.Release()
	w.bothSettled()
	if order, customer := w.seq("orders", "o1"), w.seq("customers", "C1"); order != "3" || customer != "3" {
		t.Errorf("in the end: got seq %s of the order and %s of its buyer, want 3 of both", order, customer)
	}
	w.noDeadLetters()
}
