//go:build !image

package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/observe"
)

// TestGatewaysAnswersLoseNothing: while something in front of the service answers
// in its place, every write waits. None is rejected, none is confirmed, none is
// taken for a write of what is not there.
func TestGatewaysAnswersLoseNothing(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]sandbox.Answer{
		"text without a route":  sandbox.Text(404, "default backend - 404"),
		"text of any gateway":   sandbox.Text(404, "no such host here"),
		"page without a route":  sandbox.Page(404),
		"no method and no body": sandbox.Text(405, ""),
		"login page":            sandbox.Page(200),
		"page of a bad request": sandbox.Page(400),
		"other protocol":        sandbox.Switch(),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			sink := w.start(head + deadLetters + mappings)
			for i := range 5 {
				w.produce(order(fmt.Sprint("old", i), "PAID", 1), order(fmt.Sprint("gone", i), "PAID", 1), customer(fmt.Sprint("B", i), "basic", 1))
			}
			w.settled()
			for op := 1; op <= 13; op++ {
				w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: op}, Answer: answer})
			}
			for i := range 5 { // before the breaker opens
				w.produce(event("orders", fmt.Sprint("gone", i), fmt.Sprintf(`{"op":"delete","businessKey":"gone%d"}`, i)))
			}
			w.until("the first call was answered", func() bool { return w.service.CallCount(7) > 0 })
			for i := range 30 {
				w.produce(order(fmt.Sprint("new", i), "PAID", 1), customer(fmt.Sprint("C", i), "gold", 1))
			}
			for i := range 5 {
				w.produce(
					event("orders", fmt.Sprint("old", i), fmt.Sprintf(`{"op":"patch","businessKey":"old%d","properties":{"status":"SENT"}}`, i)),
					event("orders", fmt.Sprint("new", i), fmt.Sprintf(`{"op":"delete","businessKey":"new%d"}`, i)),
					event("customers", fmt.Sprint("B", i), fmt.Sprintf(`{"op":"delete","key":{"customerNumber":"B%d"}}`, i)),
				)
			}
			var told string
			w.until("the breaker is open and an import was tried", func() bool {
				var st observe.Status
				if err := json.Unmarshal([]byte(get(t, sink.AdminAddress(), "/status")), &st); err != nil {
					return false
				}
				for _, lane := range st.Lanes {
					if lane.Calls != nil && lane.Calls.Cause != "" {
						told = lane.Calls.Cause
					}
				}
				return told != "" && w.service.CallCount(10) > 2
			})
			if !strings.Contains(told, "check service.baseURL") {
				t.Errorf("status, cause of the breaker: got %q, want to be told what to check", told)
			}
			w.service.ClearFaults()
			w.settled()
			want := map[string]int{"orders": 30, "customers": 30} // 5 + 30 less 5 deleted, each; and orders that were there are deleted
			for table, rows := range want {
				if got := w.service.Len(table); got != rows {
					t.Errorf("%s: got %d rows, want %d", table, got, rows)
				}
			}
			for i := range 5 {
				if row, ok := w.service.Row("orders", fmt.Sprint("old", i)); !ok || row.Text("status") != "SENT" {
					t.Errorf("old%d: got %v (there: %v), want it patched", i, row, ok)
				}
			}
			if got := w.dead(); len(got) != 0 {
				t.Errorf("dead letters: got %d, want none", len(got))
			}
		})
	}
}
