//go:build !image

package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/schemas"
)

// TestCreateOfFormerRoutesFindsTheRowOfTheOtherLane has both lanes carry a create
// out, each under its own routes, and the row changed in between.
func TestCreateOfFormerRoutesFindsTheRowOfTheOtherLane(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *sandbox.Config) {
		withBothETLs(c)
		c.ETLs = append(c.ETLs, sandbox.ETL{ID: "106", Loads: []sandbox.Load{{Table: "orders", Mode: sandbox.CreateOnly, GenerateErrorFiles: true}}})
	})
	only := func(lane schemas.Lane, routes string) *running {
		w.lanes = []schemas.Lane{lane}
		defer func() { w.lanes = nil }()
		return w.start(strings.Replace(routed(routes), "      patch:", "      create: {etl: \"106\", mode: CREATE_ONLY}\n      patch:", 1))
	}
	refused := sandbox.Status(http.StatusServiceUnavailable)
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4, Key: "o1"}, Answer: refused})
	immediate, batch := only(schemas.Immediate, nowByCall), only(schemas.Batch, nowByCall)
	w.produce(now(change("create", "o1", `"seq":1,"status":"NEW"`)))
	w.until("the create was tried", func() bool { return w.service.CallCount(4) > 0 })
	batch.stop()
	w.service.Hold()
	only(schemas.Batch, nowByFile)
	w.until("the file is being imported", func() bool { return len(w.service.Executions()) == 1 })
	w.service.ClearFaults()
	w.produce(now(change("patch", "o1", `"seq":2`)))
	w.until("the calls have landed", func() bool {
		row, ok := w.service.Row("orders", "o1")
		return ok && row.Text("seq") == "2"
	})
	w.service.Release()
	immediate.stop()
	only(schemas.Immediate, nowByFile)
	w.bothSettled()
	w.ordersAre(map[string]string{"o1": "2 NEW"})
	w.noDeadLetters()
}
