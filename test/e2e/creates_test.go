//go:build !image

package e2e_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// creating has customers and orders created by files, and tickets by calls.
const creating = `
mappings:
  - name: customers
    topics: ["${PREFIX}customers"]
    profileTable: customers
    key: customerNumber
    routes: [{lane: batch}]
    imports:
      create: {etl: "104", mode: CREATE_ONLY}
      columns: [customerNumber, emailAddress, lastName, seq, S_tier]
      roll: {rows: 500, bytes: 1MiB, age: 500ms}
      slotsPerDay: 1000
  - name: orders
    topics: ["${PREFIX}orders"]
    customTable: orders
    key: businessKey
    routes: [{when: 'headers.lane == "now"', lane: immediate}, {lane: batch}]
    imports:
      create: {etl: "105", mode: CREATE_ONLY}
      upsert: {etl: "103", mode: CREATE_OR_UPDATE}
      columns: [businessKey, seq, status]
      roll: {rows: 500, bytes: 1MiB, age: 500ms}
      slotsPerDay: 1000
`

func withCreateETLs(c *sandbox.Config) {
	withOrdersETL(c)
	c.ETLs = append(c.ETLs,
		sandbox.ETL{ID: "104", Loads: []sandbox.Load{{Table: "customers", Mode: sandbox.CreateOnly, GenerateErrorFiles: true}}},
		sandbox.ETL{ID: "105", Loads: []sandbox.Load{{Table: "orders", Mode: sandbox.CreateOnly, GenerateErrorFiles: true}}})
}

// made has a record create its row.
func made(r *kgo.Record) *kgo.Record {
	r.Value = bytes.Replace(r.Value, []byte(`"upsert"`), []byte(`"create"`), 1)
	return r
}

// forget puts a group's commits back to the beginning, as a crash before the first one would.
func (w *world) forget(lane, topic string) {
	w.t.Helper()
	offsets := kadm.Offsets{}
	for p := range int32(partitions) {
		offsets.AddOffset(w.topic(topic), p, 0, -1)
	}
	if err := w.admin.CommitAllOffsets(w.t.Context(), w.prefix+"sink-"+lane, offsets); err != nil {
		w.t.Fatal(err)
	}
}

// creatingSettled waits until both lanes have committed all of the topics.
func (w *world) creatingSettled() {
	w.t.Helper()
	w.until("all groups are at the end of the log", func() bool {
		return w.lag("immediate", "orders")+w.lag("batch", "orders")+w.lag("batch", "customers") == 0
	})
}

func TestCreateCallRepeatedAfterACrashFindsItsOwnRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withCreateETLs)
	sink := w.start(head + deadLetters + creating)
	for i := range 20 {
		w.produce(now(made(order(fmt.Sprint("o", i), "PLACED", 1))))
	}
	w.produce(now(change("patch", "o1", `"status":"PAID"`)), now(change("upsert", "o2", `"seq":7,"status":"SHIPPED"`)))
	w.produce(now(made(order("o3", "SECOND", 2)))) // a conflict, then as later
	w.creatingSettled()
	if got := len(w.dead()); got != 1 {
		t.Fatalf("dead letters of a second create: got %d, want 1", got)
	}
	sink.stop()
	w.forget("immediate", "orders")
	w.start(head + deadLetters + creating)
	w.creatingSettled()
	w.ordersAre(map[string]string{"o0": "1 PLACED", "o1": "1 PAID", "o2": "7 SHIPPED", "o3": "1 PLACED"})
	for _, l := range w.dead() {
		if string(l.Key) != "o3" {
			t.Errorf("dead letter of %s: %s; its row is in the table", l.Key, header(l, "__connect.errors.exception.message"))
		}
	}
}

// TestSecondCreateInABacklogIsAConflict has two records create one row before the
// sink reads either: the row that the first made is newer than the second record.
func TestSecondCreateInABacklogIsAConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withCreateETLs)
	w.produce(now(made(order("o1", "FIRST", 1))), now(made(order("o1", "SECOND", 2))))
	w.start(head + deadLetters + creating)
	w.creatingSettled()
	w.ordersAre(map[string]string{"o1": "1 FIRST"})
	dead := w.dead()
	if len(dead) != 1 || header(dead[0], "__connect.errors.exception.class.name") != "conflict" {
		t.Errorf("dead letters: got %d, want the second create as a conflict", len(dead))
	}
}

// TestCreateFileRepeatedAfterALostAnswerFindsItsOwnRows loses the answers to the
// triggers of both files: each is sent again. Executions that are accepted at once
// may run in any order, so the test lets them end in the order of their triggers.
func TestCreateFileRepeatedAfterALostAnswerFindsItsOwnRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withCreateETLs)
	w.service.Inject(
		sandbox.Fault{Match: sandbox.Match{Op: 10, Table: "orders", Nth: 1}, Apply: true, Answer: sandbox.Reset()},
		sandbox.Fault{Match: sandbox.Match{Op: 10, Table: "customers", Nth: 1}, Apply: true, Answer: sandbox.Reset()})
	for i := range 50 {
		w.produce(made(order(fmt.Sprint("o", i), "PLACED", 1)), made(customer(fmt.Sprint("C", i), "basic", 1)))
	}
	w.service.Hold()
	w.start(head + deadLetters + strings.ReplaceAll(creating, "rows: 500, bytes: 1MiB, age: 500ms", "rows: 50, bytes: 1MiB, age: 1h"))
	w.until("both files were triggered twice", func() bool { return len(w.service.Executions()) == 4 })
	for _, e := range w.service.Executions() {
		if err := w.service.Finish(e.ID); err != nil {
			t.Fatal(err)
		}
	}
	w.service.Release()
	w.creatingSettled()
	if got := w.service.Len("orders"); got != 50 {
		t.Errorf("orders: got %d, want 50", got)
	}
	customers := 0
	for _, l := range w.dead() {
		if !strings.HasPrefix(string(l.Key), "C") {
			t.Errorf("dead letter of order %s: %s; its row is in the table", l.Key, header(l, "__connect.errors.exception.message"))
			continue
		}
		customers++
		if header(l, "feedsink.may.be.in.table") != "true" || !strings.Contains(header(l, "__connect.errors.exception.message"), "may already be in the table") {
			t.Errorf("dead letter of profile %s: got %q, want it to say that it may be in the table", l.Key, header(l, "__connect.errors.exception.message"))
		}
	}
	if customers != 50 {
		t.Errorf("dead letters of profiles, which cannot be read: got %d, want 50", customers)
	}
}

// TestSecondCreateInALaterFileIsADeadLetter creates rows that are there.
func TestSecondCreateInALaterFileIsADeadLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withCreateETLs)
	w.start(head + deadLetters + creating)
	w.creatingSettled()
	w.produce(made(order("o1", "FIRST", 1)), made(customer("C1", "basic", 1)))
	w.creatingSettled()
	w.produce(made(order("o1", "SECOND", 2)), made(customer("C1", "basic", 2)))
	w.creatingSettled()
	dead := w.dead()
	if len(dead) != 2 {
		t.Fatalf("dead letters: got %d, want one of each table", len(dead))
	}
	for _, l := range dead {
		if got := header(l, "__connect.errors.exception.class.name"); got != "import_row" {
			t.Errorf("dead letter of %s: got %s, want import_row", l.Key, got)
		}
	}
}

// TestSecondCreateInTheSameFileIsADeadLetter has several records create one row before the sink
// reads any of them.
func TestSecondCreateInTheSameFileIsADeadLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withCreateETLs)
	w.produce(made(customer("C1", "basic", 1)), made(customer("C1", "basic", 2)))
	for i, status := range []string{"FIRST", "SECOND", "THIRD"} {
		w.produce(made(order("o1", status, i)), made(order("o1", "FIRST", 0))) // the first one again
	}
	w.start(head + deadLetters + creating)
	w.creatingSettled()
	w.ordersAre(map[string]string{"o1": "0 FIRST"})
	var dead []string
	for _, l := range w.dead() {
		for _, one := range []string{"FIRST", "SECOND", "THIRD", `"seq":1`, `"seq":2`} {
			if bytes.Contains(l.Value, []byte(one)) {
				dead = append(dead, string(l.Key)+" "+one)
				break
			}
		}
	}
	slices.Sort(dead)
	if want := []string{`C1 "seq":2`, "o1 SECOND", "o1 THIRD"}; !slices.Equal(dead, want) {
		t.Errorf("dead letters: got %q, want %q", dead, want)
	}
}
