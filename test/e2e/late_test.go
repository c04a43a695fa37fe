//go:build !image

package e2e_test

import (
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// TestNewestStateStandsThoughACallLandsLate: what stands in front of the service
// delivers a call that feedsink has given up and repeated, when a newer state of the
// key was confirmed long since.
func TestNewestStateStandsThoughACallLandsLate(t *testing.T) {
	for name, c := range map[string]struct {
		table, key string
		op         int
	}{
		"a profile of a table with both lanes": {"customers", "C1", 1},
		"a table record":                       {"orders", "o1", 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			seq := func(n string) bool {
				r, ok := w.service.Row(c.table, c.key)
				return ok && r.Text("seq") == n
			}
			write := func(n int) {
				if c.table == "orders" {
					w.produce(order(c.key, "PAID", n))
				} else {
					w.produce(customer(c.key, "gold", n))
				}
			}
			w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: c.op, Nth: 1}, Late: 5 * time.Second})
			w.start(head + deadLetters + mappings)
			write(1)
			w.until("it is there", func() bool { return seq("1") })
			write(2)
			w.until("it is newer", func() bool { return seq("2") })
			w.settled()
			w.until("the first call has landed", func() bool { return w.service.Faults()[0].Landed == 1 })
			w.until("the newest state is there again", func() bool { return seq("2") })
		})
	}
}
