package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

func TestRestartWhileAnImportIsRefusedTakesNoSlot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 10}, Answer: sandbox.Status(http.StatusNotFound)}) // the ETL is gone
	sink := w.start(head + deadLetters + mappings)
	w.produce(customer("C1", "basic", 1))
	for restart := range 3 {
		w.until("the mapping is halted", func() bool {
			return strings.Contains(get(t, sink.AdminAddress(), "/metrics"), `feedsink_halted{mapping="customers"} 1`)
		})
		if got := w.slotsLeft(sink); got != "999" {
			t.Errorf("slots left after %d restarts: got %s, want 999 of 1000: one was tried for", restart, got)
		}
		sink.stop()
		sink = w.start(head + deadLetters + mappings)
	}
	w.until("the mapping is halted", func() bool {
		return strings.Contains(get(t, sink.AdminAddress(), "/metrics"), `feedsink_halted{mapping="customers"} 1`)
	})
	w.service.ClearFaults()
	if out, code := execute(t, "imports", "release", "--mapping", "customers", "--server", "http://"+sink.AdminAddress()); code != 0 {
		t.Errorf("release: got exit code %d, %s", code, out)
	}
	w.settled()
	if got := len(w.service.Executions()); got != 1 {
		t.Errorf("imports: got %d, want one", got)
	}
}
