package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// autoMappings are the mappings with one auto route for customers, whose file is due at
// that age.
func autoMappings(age string) string {
	return strings.NewReplacer(
		`[{when: 'segments.tier == "gold"', lane: immediate}, {lane: batch}]`, "[{lane: auto}]",
		"age: 500ms", "age: "+age,
	).Replace(mappings)
}

// landed waits until all customers' records are confirmed: no immediate lane reads them.
func (w *world) landed() {
	w.t.Helper()
	w.until("the batch group is at the end of the log", func() bool { return w.lag("batch", "customers") == 0 })
}

func (w *world) wantSeq(key, want string) {
	w.t.Helper()
	if row, ok := w.service.Row("customers", key); !ok || row.Text("seq") != want {
		w.t.Errorf("%s: got %v, want seq %s", key, row.Values, want)
	}
}

func TestWhatCallsCannotBringGoesByFileAndLaterChangesByCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	fault := sandbox.Fault{Match: sandbox.Match{Op: 1}, Answer: sandbox.Status(503)}
	w.service.Inject(fault)
	w.start(head + deadLetters + autoMappings("2s"))
	for i := range 50 {
		w.produce(customer(fmt.Sprint("C", i), "basic", 1))
	}
	w.landed()
	files := len(w.service.Executions())
	if files == 0 {
		t.Fatal("imports: got none, want the rows that no call brings")
	}
	w.service.ClearFaults()
	for seq := 2; seq < 4; seq++ {
		for i := range 50 {
			w.produce(customer(fmt.Sprint("C", i), "basic", seq))
		}
	}
	w.landed()
	for i := range 50 {
		w.wantSeq(fmt.Sprint("C", i), "3")
	}
}

func TestRestartsBetweenCallsAndFilesLoseNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	config := head + deadLetters + autoMappings("1s")
	sink := w.start(config)
	for seq := range 6 {
		for i := range 40 {
			w.produce(customer(fmt.Sprint("C", i), "basic", seq))
		}
		if seq%2 == 0 { // every third call has no answer
			w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 1}, Count: 10, Apply: true, Answer: sandbox.Status(503)})
		}
		sink.stop()
		sink = w.start(config)
	}
	w.service.ClearFaults()
	w.landed()
	for i := range 40 {
		w.wantSeq(fmt.Sprint("C", i), "5")
	}
	if dead := w.dead(); len(dead) != 0 {
		t.Errorf("dead letters: got %d, want none", len(dead))
	}
}

func TestRowWhoseCallIsRefusedIsADeadLetterOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 1, Key: "bad"}, Answer: sandbox.Status(400)})
	w.start(head + deadLetters + autoMappings("3s"))
	w.produce(customer("good", "basic", 1), customer("bad", "basic", 1))
	w.landed()
	w.produce(customer("good", "basic", 2))
	w.landed()
	w.wantSeq("good", "2")
	if dead := w.dead(); len(dead) != 1 || !strings.Contains(string(dead[0].Value), `"bad"`) {
		t.Errorf("dead letters: got %d, want that of the one record", len(dead))
	}
	if got := len(w.service.Executions()); got != 0 {
		t.Errorf("imports: got %d, want none", got)
	}
}

// TestKeysThatNoAddressCanHaveGoByFile: an upsert has its key in the body, a delete and a patch
// in the address.
func TestKeysThatNoAddressCanHaveGoByFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	w.start(head + deadLetters + strings.Replace(bothLanes, `[{when: 'headers.lane == "now"', lane: immediate}, {lane: batch}]`, "[{lane: auto}]", 1))
	settled := func() {
		t.Helper()
		w.until("the batch group is at the end of the log", func() bool { return w.lag("batch", "orders") == 0 })
	}
	w.produce(order(".", "OPEN", 1), order("..", "OPEN", 1))
	settled()
	w.produce(change("delete", ".", ""), change("patch", "..", `"status":"PAID"`))
	settled()
	w.ordersAre(map[string]string{"..": "1 PAID"})
	if dead := w.dead(); len(dead) > 0 {
		t.Errorf("dead letters: got %d, want none", len(dead))
	}
}
