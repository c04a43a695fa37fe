package e2e_test

import (
	"strings"
	"testing"
)

// ordersAfterCustomers loads orders by files that link to customers in both lanes.
const ordersAfterCustomers = `
mappings:
  - name: customers
    topics: ["${PREFIX}customers"]
    profileTable: customers
    key: customerNumber
    routes: [{when: 'segments.tier == "gold"', lane: immediate}, {lane: batch}]
    imports:
      upsert: {etl: "101", mode: CREATE_OR_UPDATE}
      columns: [customerNumber, seq, S_tier]
      roll: {rows: 500, bytes: 1MiB, age: 1h}
      slotsPerDay: 1000
  - name: orders
    topics: ["${PREFIX}orders"]
    customTable: orders
    key: businessKey
    after: [customers]
    routes: [{lane: batch}]
    imports:
      upsert: {etl: "103", mode: CREATE_OR_UPDATE}
      columns: [businessKey, seq, status]
      roll: {rows: 500, bytes: 1MiB, age: 300ms}
      slotsPerDay: 1000
`

func TestParentsAreLoadedBeforeTheirChildren(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOrdersETL)
	w.service.Hold()
	w.produce(customer("C1", "gold", 1), customer("C2", "basic", 2))
	sink := w.start(head + deadLetters + ordersAfterCustomers)
	w.until("the customer is in the file", func() bool {
		return strings.Contains(get(t, sink.AdminAddress(), "/metrics"), `feedsink_batch_rows{mapping="customers"} 1`)
	})
	w.produce(order("o1", "PAID", 3))
	w.until("the customers' file is on its way, an hour before it is due", func() bool { return len(w.service.Executions()) == 1 })
	if file := w.service.Executions()[0].File; !strings.HasPrefix(file, "customers-") {
		t.Fatalf("first file: got %s, want the customers'", file)
	}
	w.service.Release()
	w.until("the orders' file follows", func() bool { return w.service.Len("orders") == 1 })
	if got := w.service.Len("customers"); got != 2 {
		t.Errorf("customers when the orders were loaded: got %d, want 2", got)
	}
}
