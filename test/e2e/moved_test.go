//go:build !image

package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/schemas"
)

// twoTables are tables whose keys take either lane.
const twoTables = `
mappings:
  - name: orders
    topics: ["${PREFIX}orders"]
    customTable: orders
    key: businessKey
    routes: [{when: 'headers.lane == "now"', lane: immediate}, {lane: batch}]
    imports:
      upsert: {etl: "103", mode: CREATE_OR_UPDATE}
      columns: [businessKey, seq, status]
      roll: {rows: 500, bytes: 1MiB, age: 400ms}
      slotsPerDay: 1000
  - name: bills
    topics: ["${PREFIX}bills"]
    customTable: bills
    key: businessKey
    routes: [{when: 'headers.lane == "now"', lane: immediate}, {lane: batch}]
    imports:
      upsert: {etl: "104", mode: CREATE_OR_UPDATE}
      columns: [businessKey, seq, status]
      roll: {rows: 500, bytes: 1MiB, age: 400ms}
      slotsPerDay: 1000
`

// TestFormerOwnersWaitingCallsDoNotOverwriteTheNewOwners moves a table while its
// owner's reconciling calls wait for a service that is down.
func TestFormerOwnersWaitingCallsDoNotOverwriteTheNewOwners(t *testing.T) {
	t.Parallel()
	const keys = 15
	w := newWorld(t, func(c *sandbox.Config) {
		withOrdersETL(c)
		bills := tables[1]
		bills.Name = "bills"
		c.Tables = append(c.Tables, bills)
		c.ETLs = append(c.ETLs, sandbox.ETL{ID: "104", Loads: []sandbox.Load{{Table: "bills", Mode: sandbox.CreateOrUpdate, GenerateErrorFiles: true}}})
	})
	w.createTopics(partitions, "bills")
	write := func(seq int, urgent bool) {
		var all []*kgo.Record
		for i := range keys {
			for _, topic := range []string{"orders", "bills"} {
				r := order(fmt.Sprint("k", i), "PAID", seq)
				if r.Topic = topic; urgent {
					r = now(r)
				}
				all = append(all, r)
			}
		}
		w.produce(all...)
	}
	have := func(seq string) (n int) {
		for _, table := range []string{"orders", "bills"} {
			for _, row := range w.service.Rows(table) {
				if row.Text("seq") == seq {
					n++
				}
			}
		}
		return n
	}
	yaml := head + deadLetters + twoTables
	w.service.Hold()
	write(1, false)
	w.lanes = []schemas.Lane{schemas.Immediate}
	w.start(yaml)
	w.lanes = []schemas.Lane{schemas.Batch}
	// Its calls fail once and then wait for so long that the other owner is done before.
	w.start(strings.Replace(yaml, "retry: {initial: 20ms, max: 300ms}", "retry: {initial: 6s, max: 6s}", 1))
	w.until("both files are on their way", func() bool { return len(w.service.Executions()) == 2 })
	write(2, true)
	w.until("the calls have landed", func() bool { return have("2") == 2*keys })
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4}, Answer: sandbox.Status(http.StatusServiceUnavailable)})
	w.service.Release()
	w.until("the older rows have landed on top", func() bool { return have("1") == 2*keys })
	before := w.service.CallCount(4)
	w.until("the owner of both tables has tried to reconcile them", func() bool { return w.service.CallCount(4) >= before+2*keys })

	w.dir = t.TempDir()
	w.start(yaml)
	w.until("one of the tables moves", func() bool { return strings.Count(w.logs.String(), "partitions given back") > 0 })
	write(3, true)
	w.service.ClearFaults()
	w.until("all groups are at the end of the log", func() bool {
		return w.lag("immediate", "orders")+w.lag("batch", "orders")+w.lag("immediate", "bills")+w.lag("batch", "bills") == 0
	})
	// The owner of both tables has made the calls of the table that it kept. They
	// waited as long as those of the other one.
	if got := have("3"); got != 2*keys {
		t.Errorf("rows with the newest value: got %d, want %d", got, 2*keys)
	}
	if dead := w.dead(); len(dead) > 0 {
		t.Errorf("dead letters: got %d, want none", len(dead))
	}
}
