//go:build !image

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// TestFailingTableDoesNotStopAnother: more records than the lane takes in at once are of
// a table whose calls fail, and another table's are read, called and committed.
func TestFailingTableDoesNotStopAnother(t *testing.T) {
	for status, why := range map[int]string{403: "the service answered 403", 500: "the breaker is open"} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4}, Delay: 500 * time.Millisecond, Answer: sandbox.Status(status)})
			sink := w.start(head + deadLetters + mappings)
			var failing []*kgo.Record
			for i := range 6000 {
				failing = append(failing, order(fmt.Sprint("o", i), "PAID", 1))
			}
			w.produce(failing...)
			w.until("the status says what waits", func() bool {
				text := get(t, sink.AdminAddress(), "/status")
				return strings.Contains(text, why) && strings.Contains(text, `"table": "orders"`)
			})
			w.produce(customer("C1", "gold", 1))
			w.until("the other table's record is committed", func() bool {
				return w.service.Len("customers") == 1 && w.lag("immediate", "customers") == 0
			})
			if w.service.Len("orders") != 0 {
				t.Error("the failing table did not fail")
			}
			w.service.ClearFaults()
			w.until("the rest follows", func() bool { return w.service.Len("orders") == 6000 && w.lag("immediate", "orders") == 0 })
		})
	}
}

// TestStatusSaysUntilWhenTheServiceWantsNoCalls, and nobody is called before.
func TestStatusSaysUntilWhenTheServiceWantsNoCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4, Nth: 1}, Answer: sandbox.StatusAfter(429, 5*time.Second)})
	sink := w.start(head + deadLetters + mappings)
	w.produce(order("o1", "PAID", 1))
	w.until("the status says what waits", func() bool {
		text := get(t, sink.AdminAddress(), "/status")
		return strings.Contains(text, "the service answered 429") && strings.Contains(text, `"until": "`)
	})
	var others []*kgo.Record
	for i := range 100 {
		others = append(others, customer(fmt.Sprint("C", i), "gold", 1))
	}
	w.produce(others...)
	w.settled()
	var refused time.Time
	for _, c := range w.service.Calls() {
		switch {
		case c.Op == 4 && c.Status == 429:
			refused = c.At
		case (c.Op == 1 || c.Op == 4) && c.At.Before(refused.Add(5*time.Second)):
			t.Errorf("operation %d: called %v after the service wanted no call for 5s", c.Op, c.At.Sub(refused))
		}
	}
	w.until("nothing waits any more", func() bool {
		return !strings.Contains(get(t, sink.AdminAddress(), "/status"), `"until"`)
	})
}
