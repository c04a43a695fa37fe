//go:build !image

package e2e_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/schemas"
)

// said runs a command that asks a running sink, and wants this exit code.
func said(t *testing.T, sink *running, want int, args string) string {
	t.Helper()
	out, code := execute(t, append(strings.Fields(args), "--server", "http://"+sink.AdminAddress())...)
	if code != want {
		t.Fatalf("feedsink %s: got exit code %d, %s, want %d", args, code, out, want)
	}
	return out
}

// pausedLanes are the lanes in which a sink shows the mapping as paused.
func pausedLanes(t *testing.T, sink *running, mapping string) (lanes string) {
	t.Helper()
	var status observe.Status
	if err := json.Unmarshal([]byte(get(t, sink.AdminAddress(), "/status")), &status); err != nil {
		t.Fatal(err)
	}
	for _, m := range status.Mappings {
		for _, p := range m.Paused {
			if m.Name == mapping {
				lanes += p.Lane + ":" + p.Reason + " "
			}
		}
	}
	return strings.TrimSpace(lanes)
}

// has waits until a sink has a partition of the topic in each lane that reads it.
func (w *world) has(sink *running, lanes ...string) {
	w.t.Helper()
	w.until("the sink has its partitions", func() bool {
		for _, lane := range lanes {
			if !strings.Contains(get(w.t, sink.AdminAddress(), "/metrics"), `feedsink_lag_records{lane="`+lane+`"`) {
				return false
			}
		}
		return true
	})
}

func (w *world) seq(table, key string) string {
	row, _ := w.service.Row(table, key)
	return row.Text("seq")
}

func TestPausedMappingStaysSoOverARestartAndOthersGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const yaml = head + deadLetters + mappings
	first := w.start(yaml)
	w.produce(customer("C1", "gold", 1), customer("C2", "basic", 1), order("o1", "PAID", 1))
	w.settled()
	said(t, first, 0, "pause --mapping customers --reason rebuilt")
	first.stop() // at once: the pause is in Kafka by now

	calls, imports := w.service.CallCount(1), len(w.service.Executions())
	second := w.start(yaml)
	w.produce(customer("C1", "gold", 2), customer("C2", "basic", 2), order("o1", "PAID", 2))
	w.until("the other mapping goes on", func() bool { return w.lag("immediate", "orders") == 0 && w.seq("orders", "o1") == "2" })
	w.has(second, "batch")
	if got, want := pausedLanes(t, second, "customers"), "immediate:rebuilt batch:rebuilt"; got != want {
		t.Errorf("/status after a restart: got %q, want %q", got, want)
	}
	if metrics := get(t, second.AdminAddress(), "/metrics"); !strings.Contains(metrics, `feedsink_paused{mapping="customers"} 1`) ||
		!strings.Contains(metrics, `feedsink_paused{mapping="orders"} 0`) || !strings.Contains(metrics, `feedsink_halted{mapping="customers"} 0`) {
		t.Errorf("metrics: got\n%s\nwant customers paused, and not halted", metrics)
	}
	if out := said(t, second, 0, "imports list"); !strings.Contains(out, "customers is paused: rebuilt") {
		t.Errorf("imports list: got %s, want that it is paused", out)
	}
	if out := said(t, second, 1, "imports roll --mapping customers"); !strings.Contains(out, "nothing is sent while customers is paused") {
		t.Errorf("roll: got %s, want that it is paused", out)
	}
	said(t, second, 0, "pause --mapping customers --reason still --lane batch")
	if got, want := pausedLanes(t, second, "customers"), "immediate:rebuilt batch:still"; got != want {
		t.Errorf("paused once more: got %q, want %q", got, want)
	}
	for _, state := range []string{"calling", "buffered"} {
		if metrics := get(t, second.AdminAddress(), "/metrics"); regexp.MustCompile(`feedsink_unconfirmed_records\{partition="\d",state="` + state + `",topic="[^"]*customers"\} [1-9]`).MatchString(metrics) {
			t.Errorf("%s: got records that were taken, want none: no mapping reads the topic at present\n%s", state, metrics)
		}
	}
	if w.service.CallCount(1) != calls || len(w.service.Executions()) != imports || w.lag("immediate", "customers") == 0 || w.lag("batch", "customers") == 0 {
		t.Errorf("while it is paused: got %d calls and %d imports more, want none, and its records unconfirmed",
			w.service.CallCount(1)-calls, len(w.service.Executions())-imports)
	}
	said(t, second, 0, "resume --mapping customers --lane immediate")
	w.until("the immediate lane goes on", func() bool { return w.seq("customers", "C1") == "2" })
	if got := w.seq("customers", "C2"); got != "1" {
		t.Errorf("C2, of the lane that is paused: got seq %s, want 1", got)
	}
	said(t, second, 0, "resume --mapping customers")
	said(t, second, 0, "resume --mapping customers") // as after an answer that says that Kafka may not have it
	w.settled()
	if got := w.seq("customers", "C2"); got != "2" {
		t.Errorf("resumed: got seq %s of C2, want 2", got)
	}
	second.stop()
	w.start(yaml)
	w.produce(customer("C3", "gold", 1))
	w.until("a resumed mapping stays so over a restart", func() bool { return w.seq("customers", "C3") == "1" })
	if n := strings.Count(w.logs.String(), "mapping paused"); n != 4 { // two lanes, two sinks
		t.Errorf("log: got %d lines that a lane is paused, want 4", n)
	}
}

// TestPauseHoldsForAllMembers: one that had no word of it, and takes what the others had.
func TestPauseHoldsForAllMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const yaml = head + deadLetters + mappings
	first := w.start(yaml)
	w.produce(customer("C1", "gold", 1), customer("C2", "basic", 1), order("o1", "PAID", 1))
	w.settled()
	said(t, first, 0, "pause --mapping customers --reason rebuilt")
	w.dir = t.TempDir()
	second := w.start(yaml)
	w.until("the second member knows", func() bool { return pausedLanes(t, second, "customers") == "immediate:rebuilt batch:rebuilt" })
	calls, imports := w.service.CallCount(1), len(w.service.Executions())
	for i := range 20 {
		w.produce(customer(fmt.Sprintf("N%d", i), []string{"gold", "basic"}[i%2], 1))
	}
	first.stop()
	w.produce(order("o1", "PAID", 2))
	w.until("the other mapping goes on at the second member", func() bool { return w.lag("immediate", "orders") == 0 })
	w.has(second, "batch")
	if w.service.CallCount(1) != calls || len(w.service.Executions()) != imports {
		t.Errorf("at the new owner: got %d calls and %d imports, want none", w.service.CallCount(1)-calls, len(w.service.Executions())-imports)
	}
	w.dir = t.TempDir()
	third := w.start(yaml)
	w.until("a third member has partitions", func() bool {
		return strings.Contains(get(t, third.AdminAddress(), "/metrics"), `feedsink_lag_records{lane="immediate"`)
	})
	said(t, third, 0, "resume --mapping customers")
	w.settled() // the members that were not told, too
	for i := range 20 {
		if key := fmt.Sprintf("N%d", i); w.seq("customers", key) != "1" {
			t.Errorf("%s: is not in the table", key)
		}
	}
}

// TestPauseHoldsForAllMembersOfALaneWithProcessesOfItsOwn: no lane of theirs looks at their group.
func TestPauseHoldsForAllMembersOfALaneWithProcessesOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.lanes = []schemas.Lane{schemas.Batch}
	const yaml = head + deadLetters + mappings
	first := w.start(yaml)
	w.has(first, "batch")
	w.dir = t.TempDir()
	second := w.start(yaml)
	said(t, first, 0, "pause --mapping customers --lane batch --reason rebuilt")
	w.until("the second member knows", func() bool { return pausedLanes(t, second, "customers") == "batch:rebuilt" })
	said(t, first, 0, "resume --mapping customers")
	w.until("the second member goes on", func() bool { return pausedLanes(t, second, "customers") == "" })
}

// TestPauseIsKnownToTheOtherLaneBeforeItsFirstRecord: its process was not there when the
// person spoke.
func TestPauseIsKnownToTheOtherLaneBeforeItsFirstRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	yaml := head + deadLetters + strings.Replace(mappings, "rows: 500", "rows: 1", 1)
	w.lanes = []schemas.Lane{schemas.Immediate}
	calls := w.start(yaml)
	w.produce(customer("C1", "basic", 1))
	w.has(calls, "immediate")
	said(t, calls, 0, "pause --mapping customers --reason rebuilt")
	w.lanes = []schemas.Lane{schemas.Batch}
	files := w.start(yaml)
	w.has(files, "batch")
	w.until("it is paused there", func() bool { return pausedLanes(t, files, "customers") == "immediate:rebuilt batch:rebuilt" })
	if n := len(w.service.Executions()); n != 0 {
		t.Errorf("got %d imports, want none", n)
	}
	calls.stop()
	said(t, files, 0, "resume --mapping customers")
	w.until("it goes on", func() bool { return w.seq("customers", "C1") == "1" })
	w.lanes = []schemas.Lane{schemas.Immediate}
	calls = w.start(yaml)
	w.produce(customer("C2", "gold", 1))
	w.until("the lane whose ledgers have the pause goes on", func() bool { return w.seq("customers", "C2") == "1" })
	if got := pausedLanes(t, calls, "customers"); got != "" {
		t.Errorf("/status: got %q paused, want nothing", got)
	}
}

// TestResumeEndsThePauseOfALaneThatIsNotUsed: the routes lead to it again afterwards.
func TestResumeEndsThePauseOfALaneThatIsNotUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	yaml := head + deadLetters + mappings
	sink := w.start(yaml)
	w.has(sink, "immediate", "batch")
	said(t, sink, 0, "pause --mapping customers")
	sink.stop()
	sink = w.start(strings.Replace(yaml, `routes: [{when: 'segments.tier == "gold"', lane: immediate}, {lane: batch}]`, "routes: [{lane: batch}]", 1))
	w.has(sink, "batch")
	said(t, sink, 0, "resume --mapping customers")
	w.produce(customer("C1", "gold", 1))
	w.until("its rows go on", func() bool { return w.seq("customers", "C1") == "1" })
	sink.stop()
	w.has(w.start(yaml), "immediate", "batch") // the lanes agree about the routes
	w.produce(customer("C1", "gold", 2))
	w.until("its calls go on", func() bool { return w.seq("customers", "C1") == "2" })
}

// TestPauseHoldsInALaneThatOtherRoutesLeadTo: a mapping is paused whole unless a lane is named.
func TestPauseHoldsInALaneThatOtherRoutesLeadTo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	yaml := head + deadLetters + mappings
	sink := w.start(strings.Replace(yaml, `routes: [{when: 'segments.tier == "gold"', lane: immediate}, {lane: batch}]`, "routes: [{lane: batch}]", 1))
	w.has(sink, "batch")
	said(t, sink, 0, "pause --mapping customers --reason rebuilt")
	w.produce(customer("C1", "gold", 1))
	sink.stop()
	sink = w.start(yaml)
	w.has(sink, "immediate", "batch")
	w.until("it is paused in both lanes", func() bool { return pausedLanes(t, sink, "customers") == "immediate:rebuilt batch:rebuilt" })
	w.produce(order("o0", "PAID", 0))
	w.until("another mapping goes on", func() bool { return w.service.Len("orders") == 1 })
	if got := w.service.CallCount(1); got != 0 {
		t.Errorf("while it is paused: got %d calls, want none", got)
	}
	said(t, sink, 0, "resume --mapping customers")
	w.until("it goes on", func() bool { return w.seq("customers", "C1") == "1" })
}

func TestCallsInBackOffAreNotTriedWhileTheirMappingIsPaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	sink := w.start(head + deadLetters + mappings)
	w.produce(order("o0", "PAID", 0))
	w.settled()
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4}, Answer: sandbox.Status(503)})
	w.produce(order("o1", "PAID", 1))
	tries := w.service.CallCount(4)
	w.until("the call was tried and waits", func() bool { return w.service.CallCount(4) > tries+1 })
	said(t, sink, 0, "pause --mapping orders")
	w.until("no call is in flight", func() bool {
		return strings.Contains(get(t, sink.AdminAddress(), "/metrics"), "feedsink_calls_in_flight 0\n")
	})
	paused := w.service.CallCount(4)
	w.service.ClearFaults()
	for i := range 3 { // each takes a commit, and so longer than the back-off
		w.produce(customer("C1", "gold", i))
		w.until("another mapping goes on", func() bool { return w.lag("immediate", "customers") == 0 })
	}
	if got := w.service.CallCount(4); got != paused {
		t.Errorf("while it is paused: got %d calls, want none", got-paused)
	}
	said(t, sink, 0, "pause --mapping orders --until 1s")
	w.settled() // it goes on by itself
	if got := w.seq("orders", "o1"); got != "1" {
		t.Errorf("o1: got seq %s, want 1", got)
	}
}

// Calls in the place of rows that wait for their turn are not made while the mapping is paused.
func TestCallsThatWaitForTheRateAreNotMadeWhileTheirMappingIsPaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	yaml := strings.Replace(head, "  timeout: 2s\n", "  timeout: 2s\n  rate: {calls: 300, per: 1m}\n", 1) + deadLetters + autoMappings("1h")
	sink := w.start(yaml)
	for i := range 30 {
		w.produce(customer(fmt.Sprint("C", i), "basic", 1))
	}
	w.until("some are called, and others wait", func() bool { return w.service.CallCount(1) > 1 })
	said(t, sink, 0, "pause --mapping customers")
	w.until("no call is in flight", func() bool {
		return strings.Contains(get(t, sink.AdminAddress(), "/metrics"), "feedsink_calls_in_flight 0\n")
	})
	paused := w.service.CallCount(1)
	for i := range 4 { // they share the rate
		w.produce(order(fmt.Sprint("o", i), "PAID", 1))
		w.until("another mapping goes on", func() bool { return w.service.Len("orders") == i+1 })
	}
	if got := w.service.CallCount(1); got != paused {
		t.Errorf("while it is paused: got %d calls, want none", got-paused)
	}
	said(t, sink, 0, "resume --mapping customers")
	w.landed()
	for i := range 30 {
		w.wantSeq(fmt.Sprint("C", i), "1")
	}
}

func TestImportUnderWayEndsThoughItsMappingIsPaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *sandbox.Config) { c.Processing = 2 * time.Second })
	sink := w.start(head + deadLetters + mappings)
	w.has(sink, "immediate")
	w.produce(customer("C1", "basic", 1))
	w.until("its import runs", func() bool { return len(w.service.Executions()) == 1 })
	said(t, sink, 0, "pause --mapping customers")
	w.until("the import is confirmed", func() bool { return w.lag("batch", "customers") == 0 })
	w.produce(customer("C1", "basic", 2))
	w.until("pause holds", func() bool { return w.lag("batch", "customers") == 1 })
	said(t, sink, 0, "resume --mapping customers")
	w.settled()
	if got := w.seq("customers", "C1"); got != "2" || len(w.service.Executions()) != 2 {
		t.Errorf("got seq %s of C1 and %d imports, want 2 and 2", got, len(w.service.Executions()))
	}
}

// TestOtherMappingOfAPausedOnesTopicGoesOn: its calls and files, though nothing is committed.
func TestOtherMappingOfAPausedOnesTopicGoesOn(t *testing.T) {
	t.Parallel()
	for _, lane := range []string{"immediate", "batch"} {
		t.Run(lane, func(t *testing.T) {
			w := newWorld(t, withBothETLs)
			sink := w.start(head + deadLetters + fmt.Sprintf(orderAndBuyer, lane))
			both := func(n int) {
				w.produce(event("orders", "k", fmt.Sprintf(`{"id":"o%[1]d","buyer":"C%[1]d","seq":3,"status":"PAID"}`, n)))
			}
			both(0)
			w.until("both are written", func() bool { return w.seq("orders", "o0") == "3" && w.seq("customers", "C0") == "3" })
			said(t, sink, 0, "pause --mapping buyers")
			both(1)
			both(2)
			w.until("orders go on", func() bool { return w.seq("orders", "o2") == "3" })
			if w.service.Len("customers") != 1 || w.lag(lane, "orders") == 0 {
				t.Errorf("got %d customers and all committed: %t, want those of before and not", w.service.Len("customers"), w.lag(lane, "orders") == 0)
			}
			said(t, sink, 0, "resume --mapping buyers")
			w.until("buyers go on", func() bool { return w.seq("customers", "C1") == "3" && w.seq("customers", "C2") == "3" })
			w.until("all is committed", func() bool { return w.lag(lane, "orders") == 0 })
		})
	}
}

func TestFileThatIsAskedForWhileAnotherIsOnItsWayGoesNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.service.Hold()
	sink := w.start(head + deadLetters + strings.Replace(mappings, "age: 500ms", "age: 10h", 1))
	open := func() bool { return strings.Contains(said(t, sink, 0, "imports show --mapping customers"), "1 row, ") }
	w.produce(customer("C1", "basic", 1))
	w.until("a row is in the file", open)
	if out := said(t, sink, 0, "imports show --mapping customers"); !strings.Contains(out, "goes out    in 9h59m") && !strings.Contains(out, "goes out    in 10h0m0s") {
		t.Errorf("show: got %s, want when it goes out", out)
	}
	first := said(t, sink, 0, "imports roll --mapping customers")
	w.until("the file is on its way", func() bool { return !open() })
	w.produce(customer("C2", "basic", 1))
	w.until("a row is in the next file", open)
	if out := said(t, sink, 0, "imports roll --mapping customers"); !strings.Contains(out, "goes next, once customers-") {
		t.Errorf("got %s, want that it goes next", out)
	}
	w.service.Release()
	w.until("it is in the table", func() bool { return w.seq("customers", "C2") == "1" })
	if file := w.service.Executions()[0].File; !strings.Contains(first, "goes out now as "+file) {
		t.Errorf("roll: got %s, want file %s", first, file)
	}
}
