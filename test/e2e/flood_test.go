//go:build !image

package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/observe"
)

// floodRecords is dlq.flood.records unless a file says otherwise.
const floodRecords = 100

// released lets a mapping go on, as a person does.
func released(t *testing.T, sink *running, mapping string) {
	t.Helper()
	if out, code := execute(t, "imports", "release", "--mapping", mapping, "--server", "http://"+sink.AdminAddress()); code != 0 {
		t.Errorf("release: got exit code %d, %s", code, out)
	}
}

// haltsOf are the reasons that /status gives for a mapping that is halted.
func haltsOf(t *testing.T, sink *running, mapping string) []string {
	t.Helper()
	var status observe.Status
	if err := json.Unmarshal([]byte(get(t, sink.AdminAddress(), "/status")), &status); err != nil {
		t.Fatal(err)
	}
	for _, m := range status.Mappings {
		if m.Name == mapping && len(m.Halted) > 0 {
			return m.Halted
		}
	}
	t.Fatalf("/status: got %+v, want %s halted", status.Mappings, mapping)
	return nil
}

// halts waits until the mapping is halted for the n-th time, all sinks together.
func (w *world) halts(mapping string, n int) {
	w.t.Helper()
	w.until(fmt.Sprintf("mapping %s halts for the %d. time", mapping, n), func() bool {
		logged := 0
		for line := range strings.Lines(w.logs.String()) {
			if strings.Contains(line, "mapping halted: nearly all") && strings.Contains(line, "mapping="+mapping+" ") {
				logged++
			}
		}
		return logged >= n
	})
}

// letters are the keys of the dead letters; none may be there twice.
func (w *world) letters() map[string]bool {
	w.t.Helper()
	keys := map[string]bool{}
	for _, l := range w.dead() {
		if keys[string(l.Key)] {
			w.t.Errorf("dead letter of %s: it is there twice", l.Key)
		}
		keys[string(l.Key)] = true
	}
	return keys
}

func orders(n int) (records []*kgo.Record) {
	for i := range n {
		records = append(records, order(fmt.Sprintf("o%04d", i), "PAID", i))
	}
	return records
}

func TestServiceThatRefusesEverythingHaltsTheMappingInsteadOfFillingTheTopic(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const yaml = head + deadLetters + mappings
	const records = 1000
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4}, Answer: sandbox.Status(400)})
	w.produce(orders(records)...)
	first := w.start(yaml)
	w.halts("orders", 1)
	w.produce(customer("C1", "gold", 1), customer("C2", "basic", 1))
	w.until("another mapping goes on in both lanes", func() bool {
		return w.lag("immediate", "customers")+w.lag("batch", "customers") == 0
	})
	first.stop() // which waits for the dead letters that are on their way
	dead := len(w.letters())
	if dead == 0 || dead > floodRecords {
		t.Errorf("got %d dead letters, want some, and at most %d", dead, floodRecords)
	}

	calls := w.service.CallCount(4)
	second := w.start(yaml)
	w.halts("orders", 2)
	w.produce(customer("C3", "gold", 1))
	w.until("another mapping goes on after the restart", func() bool { return w.lag("immediate", "customers") == 0 })
	if got := len(w.letters()); got != dead || w.service.CallCount(4) != calls {
		t.Errorf("after a restart: got %d dead letters and %d calls more, want the %d of before and none", got, w.service.CallCount(4)-calls, dead)
	}
	if out, code := execute(t, "imports", "release", "--mapping", "customers", "--server", "http://"+second.AdminAddress()); code != 1 {
		t.Errorf("release of a mapping that is not halted: got exit code %d, %s, want 1", code, out)
	}

	w.service.ClearFaults()
	released(t, second, "orders")
	w.until("everything is confirmed", func() bool { return w.lag("immediate", "orders") == 0 })
	letters := w.letters()
	for i := range records {
		key := fmt.Sprintf("o%04d", i)
		if _, applied := w.service.Row("orders", key); applied == letters[key] {
			t.Errorf("%s: applied %t, dead letter %t, want one of the two", key, applied, letters[key])
		}
	}
	if len(letters) != dead {
		t.Errorf("released: got %d dead letters, want the %d of before: the cause was gone", len(letters), dead)
	}
	second.stop()
	w.start(yaml)
	w.produce(order("last", "PAID", 1))
	w.until("a released mapping stays so over a restart", func() bool { return w.lag("immediate", "orders") == 0 })
}

func TestReleasedWhileTheCauseIsThereTheMappingHaltsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4}, Answer: sandbox.Status(422)})
	w.produce(orders(600)...)
	sink := w.start(head + strings.Replace(deadLetters, "dlq}", "dlq, flood: {records: 40, share: 0.9}}", 1) + mappings)
	for n := 1; n <= 3; n++ {
		w.halts("orders", n)
		w.until("what is in flight has ended", func() bool {
			return strings.Contains(get(t, sink.AdminAddress(), "/metrics"), "feedsink_calls_in_flight 0\n")
		})
		w.until("dead letters of each time", func() bool { return len(w.letters()) > 20*n })
		if got := len(w.letters()); got > 40*n {
			t.Errorf("halted %d times: got %d dead letters, want at most %d", n, got, 40*n)
		}
		released(t, sink, "orders")
	}
}

func TestConflictsAreNoFlood(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4}, Answer: sandbox.Status(409)})
	w.produce(orders(300)...)
	w.start(head + deadLetters + mappings)
	w.until("everything is a dead letter", func() bool { return w.lag("immediate", "orders") == 0 })
	if got := len(w.letters()); got != 300 {
		t.Errorf("got %d dead letters, want all 300 conflicts", got)
	}
}

// TestDeletesOfNothingHideNoFlood: where entity or table are wrong, every delete finds nothing.
func TestDeletesOfNothingHideNoFlood(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	records := orders(600)
	for i, r := range records {
		r.Value = fmt.Appendf(nil, `{"op":%q,"businessKey":%q,"properties":{"status":"PAID"}}`, []string{"patch", "delete"}[i%2], r.Key)
	}
	w.produce(records...)
	w.start(head + deadLetters + mappings)
	w.halts("orders", 1)
}

func TestMappingWithoutAFloodLimitNeverHalts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4}, Answer: sandbox.Status(400)})
	w.produce(orders(300)...)
	w.start(head + strings.Replace(deadLetters, "dlq}", "dlq, flood: {records: 0}}", 1) + mappings)
	w.until("everything is a dead letter", func() bool { return w.lag("immediate", "orders") == 0 })
	if got := len(w.letters()); got != 300 {
		t.Errorf("got %d dead letters, want all 300", got)
	}
}

func TestFloodIsNearlyAllOfAMappingsRecordsNotMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	var records []*kgo.Record
	for i, r := range orders(1000) {
		if i%4 != 0 {
			r.Value = []byte(`{"op":"patch","businessKey":"nobody` + fmt.Sprint(i) + `","properties":{"status":"PAID"}}`)
		}
		records = append(records, r)
	}
	w.produce(records...)
	// A busy service may answer good writes later than refused ones, by as many as are in
	// flight: the window is larger than that.
	w.start(head + "\ndlq: {topic: ${PREFIX}dlq, flood: {records: 400}}\n" + mappings)
	w.until("everything is confirmed", func() bool { return w.lag("immediate", "orders") == 0 })
	if got := len(w.letters()); got != 750 {
		t.Errorf("got %d dead letters, want the 750 patches of nothing: every fourth record is good", got)
	}
}

func TestRecordsThatCannotBeReadHaltTheMapping(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ topic, mapping, lane, value string }{
		"decoding-immediate": {"orders", "orders", "immediate", `{`},
		"values-immediate":   {"orders", "orders", "immediate", `{"op":"upsert","businessKey":"","properties":{}}`},
		"decoding-batch":     {"customers", "customers", "immediate", `{`}, // both lanes read the topic
		"values-batch":       {"customers", "customers", "batch", `{"op":"upsert","key":{"customerNumber":"C1"},"attributes":{"lastName":{"a":1}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			const yaml = head + deadLetters + mappings
			var records []*kgo.Record
			for i := range 500 {
				records = append(records, event(tc.topic, fmt.Sprintf("k%03d", i), tc.value))
			}
			w.produce(records...)
			first := w.start(yaml)
			w.halts(tc.mapping, 1)
			first.stop()
			dead := len(w.letters())
			if dead == 0 || dead > floodRecords {
				t.Errorf("got %d dead letters, want some, and at most %d", dead, floodRecords)
			}
			second := w.start(yaml)
			w.halts(tc.mapping, 2)
			if got := w.lag(tc.lane, tc.topic); got != int64(500-dead) && got < 400 {
				t.Errorf("got a lag of %d, want the records that wait", got)
			}
			if got := len(w.letters()); got != dead {
				t.Errorf("after a restart: got %d dead letters, want the %d of before", got, dead)
			}
			released(t, second, tc.mapping)
			w.halts(tc.mapping, 3)
			second.stop()
			if got := len(w.letters()); got <= dead || got > 2*floodRecords {
				t.Errorf("released: got %d dead letters, want more than %d and at most %d", got, dead, 2*floodRecords)
			}
			w.start(strings.Replace(yaml, "dlq}", "dlq, flood: {records: 0}}", 1))
			w.until("every record is a dead letter", func() bool { return w.lag(tc.lane, tc.topic) == 0 })
			if got := len(w.letters()); got != 500 {
				t.Errorf("with flood.records 0: got %d dead letters, want all 500, each once", got)
			}
		})
	}
}

func TestFileOfWhichNearlyAllRowsAreInErrorHaltsBeforeAnyDeadLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withRules)
	if err := w.service.RejectRows(sandbox.Rejection{Column: "lastName", Match: "Nemo"}); err != nil {
		t.Fatal(err)
	}
	yaml := strings.ReplaceAll(head+deadLetters+manyRows, "age: 10s", "age: 1s")
	w.produce(nemos(0, 300)...)
	first := w.start(yaml)
	w.halts("customers", 1)
	first.stop()
	second := w.start(yaml)
	w.halts("customers", 2)
	w.until("the import waits for a person", func() bool { return strings.Count(w.logs.String(), "mapping halted; find the cause") >= 2 })
	for _, reason := range haltsOf(t, second, "customers") {
		if strings.Count(reason, "feedsink imports release --mapping customers") != 1 || !strings.Contains(reason, "A restart alone does not end this") {
			t.Errorf("halted: got %q, want it to say once what ends the halt, and that a restart does not", reason)
		}
	}
	if got := len(w.letters()); got != 0 {
		t.Errorf("got %d dead letters, want none before a person has looked", got)
	}
	executions := len(w.service.Executions())
	released(t, second, "customers")
	w.until("the file is confirmed", func() bool { return w.lag("batch", "customers") == 0 })
	if got, n := len(w.letters()), len(w.service.Executions()); got != 300 || n != executions {
		t.Errorf("released: got %d dead letters and %d executions, want all 300 of the %d", got, n, executions)
	}
}

// TestFilesOfFewRowsCountTogether: 95 of the last 100 rows come in four files.
func TestFilesOfFewRowsCountTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withRules)
	if err := w.service.RejectRows(sandbox.Rejection{Column: "lastName", Match: "Nemo"}); err != nil {
		t.Fatal(err)
	}
	w.start(strings.ReplaceAll(head+deadLetters+manyRows, "rows: 1000000", "rows: 30"))
	for n := range 3 {
		w.produce(nemos(30*n, 30)...)
		w.until("the file is confirmed", func() bool { return w.lag("batch", "customers") == 0 })
	}
	w.produce(nemos(90, 30)...)
	w.halts("customers", 1)
	if got := len(w.letters()); got != 90 {
		t.Errorf("got %d dead letters, want the 90 of the first three files", got)
	}
}

func nemos(from, n int) (records []*kgo.Record) {
	for i := from; i < from+n; i++ {
		key := fmt.Sprintf("C%04d", i)
		records = append(records, event("customers", key, fmt.Sprintf(`{"op":"upsert","key":{"customerNumber":%q},"attributes":{"customerNumber":%q,"lastName":"Nemo"}}`, key, key)))
	}
	return records
}
