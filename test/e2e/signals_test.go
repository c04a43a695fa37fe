//go:build !image

package e2e_test

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// TestEverySignalToStopDrains: the call in flight is finished, its offset is
// committed, and the member leaves the group.
func TestEverySignalToStopDrains(t *testing.T) {
	for _, stop := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(stop.String(), func(t *testing.T) {
			w := newWorld(t, nil)
			sink := w.run(head + deadLetters + mappings)
			address := sink.admin(w)
			w.until("the sink is ready", func() bool { return get(t, address, "/readyz") == "ok\n" })
			w.service.SetLatency(4, 500*time.Millisecond)
			w.produce(order("o1", "PAID", 1))
			w.until("the call is in flight", func() bool { return w.service.CallCount(4) == 1 })
			if err := sink.signal(stop); err != nil {
				t.Fatal(err)
			}
			if err := sink.wait(); err != nil {
				t.Errorf("run after %v: %v", stop, err)
			}
			if got := w.lag("immediate", "orders"); got != 0 {
				t.Errorf("got %d records that are not committed, want none", got)
			}
			if got := w.service.CallCount(4); got != 1 {
				t.Errorf("calls: got %d, want 1", got)
			}
		})
	}
}
