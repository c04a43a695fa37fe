//go:build !image

package e2e_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// unchangedOrders has orders that say nothing new not be sent. A service.timeout of a second has
// the first seconds of a partition pass soon, of which nothing is remembered.
func unchangedOrders() string {
	return strings.Replace(head, "timeout: 2s", "timeout: 1s", 1) + deadLetters + receiptsBlock + mappings + "    unchanged: skip\n    types: [{name: seq, as: integer}]\n"
}

// orderCalls are those of operations 4 and 7: upserts and deletes of table records.
func (w *world) orderCalls() int { return int(w.service.CallCount(4) + w.service.CallCount(7)) }

// day is a stream of changes of orders as a database's log has them, of which six in ten say what the
// order's last one said.
type day struct {
	*rand.Rand
	said    map[string]string // by order: what its last change said; "": that it is deleted
	changes int               // that say something new
	events  int
}

// newDay begins with orders that are all new.
func newDay(seed1, seed2 uint64) *day {
	d := &day{Rand: rand.New(rand.NewPCG(seed1, seed2)), said: map[string]string{}}
	for i := range dayOrders {
		d.said[fmt.Sprintf("o%d", i)] = "0 NEW"
	}
	return d
}

const dayOrders = 40

// next are events of different orders. Many change nothing.
func (d *day) next(n int) (records []*kgo.Record) {
	for _, i := range d.Perm(dayOrders)[:n] {
		key := fmt.Sprintf("o%d", i)
		d.events++
		if d.IntN(10) >= 6 {
			d.changes++
			said := fmt.Sprintf("%d %s", d.changes, []string{"NEW", "PAID", "SENT"}[d.IntN(3)])
			if d.said[key] != "" && d.IntN(8) == 0 {
				said = ""
			}
			d.said[key] = said
		}
		records = append(records, d.event(key))
	}
	return records
}

// event says an order's state once more.
func (d *day) event(key string) *kgo.Record {
	if d.said[key] == "" {
		return change("delete", key, "")
	}
	var seq int
	var status string
	_, _ = fmt.Sscan(d.said[key], &seq, &status)
	return order(key, status, seq)
}

// all are all orders once more.
func (d *day) all() (records []*kgo.Record) {
	for i := range dayOrders {
		records = append(records, d.event(fmt.Sprintf("o%d", i)))
	}
	return records
}

// known produces the state of all orders until none of it is sent any more. Deletes of what is not
// there always are.
func (w *world) known(d *day) {
	w.t.Helper()
	w.until("what was written is remembered", func() bool {
		before := w.orderCalls()
		w.produce(slices.DeleteFunc(d.all(), func(r *kgo.Record) bool { return strings.Contains(string(r.Value), `"delete"`) })...)
		w.settled()
		return w.orderCalls() == before
	})
}

// TestRepeatedChangesCostNoCalls: of a day of which six in ten events say nothing new, four in
// ten are calls, and all rows are right. Each event has its receipt, audit finds nothing
// wrong, and why tells what was not sent. A process that was killed has forgotten all of it.
func TestRepeatedChangesCostNoCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.createTopics(1, "receipts")
	sink := w.run(unchangedOrders())
	d := newDay(21, 6)
	w.known(d)
	w.counted(d, 12)
	if out, code := w.execute("audit"); code != 0 {
		t.Errorf("audit: got exit code %d and\n%s", code, out)
	}
	w.produce(d.event("o7"), d.event("o7"))
	w.settled()
	w.execute("why --mapping orders o7") // the receipts are there once the records are committed
	if out, code := w.execute("why --mapping orders o7"); code != 0 || !strings.Contains(out, "unchanged: the last call for its key had said the same, so none was made, immediate lane") {
		t.Errorf("why: got exit code %d and\n%s", code, out)
	}
	if err := sink.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = sink.wait() // it was killed
	before := w.orderCalls()
	w.run(unchangedOrders())
	w.produce(d.all()...)
	w.settled()
	if got := w.orderCalls() - before; got < dayOrders {
		t.Errorf("after a crash: got %d calls for %d orders, want one for each", got, dayOrders)
	}
	w.counted(d, 3)
}

// counted sends some events after one another, and compares calls and rows.
func (w *world) counted(d *day, waves int) {
	w.t.Helper()
	w.known(d)
	before := maps.Clone(d.said)
	calls, changes, events, spare := w.orderCalls(), d.changes, d.events, 0
	for range waves {
		w.produce(d.next(30)...)
		w.settled()
	}
	calls, changes, events = w.orderCalls()-calls, d.changes-changes, d.events-events
	w.t.Logf("%d events, of which %d say something new: %d calls", events, changes, calls)
	for _, said := range before {
		if said == "" {
			spare += waves // a delete of what is not there is never remembered
		}
	}
	if calls < changes || calls > changes+events/20+spare {
		w.t.Errorf("%d events, of which %d say something new: got %d calls, want as many, or few more", events, changes, calls)
	}
	rows := w.service.Rows("orders")
	for key, want := range d.said {
		got := ""
		if row, ok := rows[key]; ok {
			got = row.Text("seq") + " " + row.Text("status")
		}
		if got != want {
			w.t.Errorf("order %s: got %q, want %q", key, got, want)
		}
	}
}

// TestWhatIsUnchangedIsCountedAndForgottenWithItsPartition: another member may have written its keys. So are
// keys whose records become dead letters.
func TestWhatIsUnchangedIsCountedAndForgottenWithItsPartition(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.createTopics(1, "receipts")
	first := w.start(unchangedOrders())
	d := newDay(3, 3)
	w.known(d)
	metrics := get(t, first.AdminAddress(), "/metrics")
	for _, line := range []string{
		fmt.Sprintf(`feedsink_records_total{outcome="unchanged",topic=%q} `, w.topic("orders")),
		`feedsink_writes_total{lane="immediate",mapping="orders",op="upsert",outcome="unchanged"} `,
		`feedsink_receipts_total{outcome="skipped"} `,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("metrics: no line with %s", line)
		}
	}
	// The second member writes some of the orders, and goes again.
	cfg := w.config(unchangedOrders())
	cfg.Spool.Dir = t.TempDir()
	second := w.begin(cfg)
	w.until("both have orders", func() bool {
		holds := func(s *running) bool {
			return strings.Contains(get(t, s.AdminAddress(), "/status"), `"topic": "`+w.topic("orders")+`",`)
		}
		return holds(first) && holds(second)
	})
	keys := d.said
	old := map[string]string{}
	for key, said := range keys {
		old[key], keys[key] = said, "1 PAID"
	}
	w.produce(d.all()...)
	w.settled()
	second.stop()
	for key := range keys {
		keys[key] = old[key] // what the first member has written last
	}
	w.produce(d.all()...)
	w.settled()
	w.counted(d, 1)
	w.forgetsWithDeadLetters(d)
}

// forgetsWithDeadLetters: what becomes a dead letter may be replayed, so that its key is sent once more; where
// it does not say whose it is, all keys of its partition are.
func (w *world) forgetsWithDeadLetters(d *day) {
	w.t.Helper()
	d.said["o1"], d.said["o2"] = "7 NEW", "7 NEW"
	for name, c := range map[string]struct {
		bad  *kgo.Record
		sent int
	}{
		"with its key":    {event("orders", "o1", `{"op":"upsert","businessKey":"o1","properties":{"seq":"none"}}`), 1},
		"without its key": {event("orders", "o1", `{`), 2},
	} {
		w.known(d)
		w.produce(toOne(c.bad, d.event("o1"), d.event("o2"))...)
		w.settled()
		before := w.orderCalls()
		w.produce(toOne(c.bad, d.event("o1"), d.event("o2"))...)
		w.settled()
		if got := w.orderCalls() - before; got != c.sent {
			w.t.Errorf("a dead letter %s: got %d calls, want %d", name, got, c.sent)
		}
	}
}

// toOne has records read by one member in their order, copies of which are sent.
func toOne(records ...*kgo.Record) (out []*kgo.Record) {
	for _, r := range records {
		own := *r
		own.Key = []byte("one")
		out = append(out, &own)
	}
	return out
}
