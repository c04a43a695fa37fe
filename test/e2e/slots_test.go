package e2e_test

import (
	"strings"
	"testing"

	"github.com/feedsink/feedsink/test/sandbox"
)

func TestNoRestartFindsAFourthSlot(t *testing.T) {
	w := newWorld(t, nil)
	// Every import is begun, and nobody is ever told.
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 10}, Apply: true, Answer: sandbox.Reset()})
	threeSlots := strings.Replace(mappings, "slotsPerDay: 1000", "slotsPerDay: 3\n      reserve: 2", 1)
	sink := w.start(head + deadLetters + threeSlots)
	w.produce(customer("C1", "basic", 1))
	w.until("three imports were begun", func() bool { return len(w.service.Executions()) == 3 })
	for restart := range 10 {
		w.produce(customer("C1", "basic", 2+restart))
		sink.stop()
		sink = w.start(head + deadLetters + threeSlots)
		w.until("the sink has read its ledger", func() bool { return len(sink.Unready()) == 0 })
		w.until("no slot is left, and the sink knows it", func() bool {
			return strings.Contains(get(t, sink.AdminAddress(), "/metrics"), `feedsink_import_slots_remaining{table="customers"} 0`)
		})
	}
	w.until("the file waits for the next day", func() bool {
		return strings.Contains(get(t, sink.AdminAddress(), "/status"), "waiting for a slot")
	})
	if got := len(w.service.Executions()); got != 3 {
		t.Errorf("imports of the day: got %d, want the 3 it has slots for", got)
	}
}
