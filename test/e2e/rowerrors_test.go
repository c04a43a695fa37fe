package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// manyRows is one file of customers.
const manyRows = `
mappings:
  - name: customers
    topics: ["${PREFIX}customers"]
    profileTable: customers
    key: customerNumber
    routes: [{lane: batch}]
    imports:
      upsert: {etl: "101", mode: CREATE_OR_UPDATE}
      delete: {etl: "102", mode: DELETE}
      columns: [customerNumber, emailAddress, lastName, seq, S_tier]
      roll: {rows: 1000000, bytes: 256MiB, age: 10s}
      slotsPerDay: 1000
`

// kinds are ten ways for a row to be in error. The sink cannot know the first
// ones: they are rules of the table.
var kinds = []struct{ name, attributes, segments, reason string }{
	{"whole number", `"seq":"many"`, `{}`, "seq: not a whole number"},
	{"number's range", `"seq":3000000000`, `{}`, "seq: not a whole number"},
	{"fraction", `"seq":1.5`, `{}`, "seq: not a whole number"},
	{"length", `"lastName":"Longer than sixteen"`, `{}`, "lastName: longer than 16 characters"},
	{"format", `"emailAddress":"nowhere"`, `{}`, "emailAddress: "},
	{"segment", `"seq":1`, `{"tier":"lead"}`, "S_tier: not a segment"},
	{"refused by name", `"lastName":"Nemo"`, `{}`, "nobody of this name"},
	{"refused by number", `"seq":-1`, `{}`, "not this number"},
	{"refused by address", `"emailAddress":"x@blocked.example"`, `{}`, "blocked domain"},
	{"refused by segment", `"seq":2`, `{"tier":"gold"}`, "no gold by files"},
}

func withRules(c *sandbox.Config) {
	strict := tables[0]
	strict.Fields = []sandbox.Field{
		{Name: "customerNumber"},
		{Name: "emailAddress", Format: sandbox.Email},
		{Name: "lastName", MaxLength: 16},
		{Name: "seq", Type: sandbox.Integer},
	}
	c.Tables = []sandbox.Table{strict, tables[1]}
	c.KeepCalls = 0
}

func TestRowsInErrorComeBackAsDeadLetters(t *testing.T) {
	t.Parallel()
	const rows, wrong = 100_000, 1_000
	w := newWorld(t, withRules)
	w.patience = 4 * time.Minute // a hundred thousand rows and then their records again, with the race detector
	if err := w.service.RejectRows(
		sandbox.Rejection{Column: "lastName", Match: "^Nemo$", Reason: "nobody of this name"},
		sandbox.Rejection{Column: "seq", Match: "^-1$", Reason: "not this number"},
		sandbox.Rejection{Column: "S_tier", Match: "gold", Reason: "no gold by files"},
		sandbox.Rejection{Column: "emailAddress", Match: "@blocked", Reason: "blocked domain"},
	); err != nil {
		t.Fatal(err)
	}
	var records []*kgo.Record
	original := map[string]*kgo.Record{}
	for i := range rows {
		key := fmt.Sprintf("C%06d", i)
		r := customer(key, "basic", i)
		if i%(rows/wrong) == 7 {
			k := kinds[i/(rows/wrong)%len(kinds)]
			r = event("customers", key, fmt.Sprintf(`{"op":"upsert","key":{"customerNumber":%q},"attributes":{"customerNumber":%q,%s},"segments":%s}`, key, key, k.attributes, k.segments))
			r.Headers = []kgo.RecordHeader{{Key: "kind", Value: []byte(k.name)}}
			original[key] = r
		}
		records = append(records, r)
	}
	w.produce(records...)
	sink := w.start(head + deadLetters + manyRows)
	w.until("the file is confirmed", func() bool { return w.lag("batch", "customers") == 0 })
	sink.stop()

	if got := len(w.service.Rows("customers")); got != rows-wrong {
		t.Errorf("table: got %d rows, want the %d good ones", got, rows-wrong)
	}
	letters, executions := w.dead(), w.service.Executions()
	if len(letters) != wrong {
		t.Errorf("got %d dead letters, want %d", len(letters), wrong)
	}
	for _, l := range letters {
		r := original[string(l.Key)]
		if r == nil {
			t.Errorf("dead letter %s: its row was good, or it is there twice", l.Key)
			continue
		}
		delete(original, string(l.Key))
		if got := header(l, "kind"); string(l.Value) != string(r.Value) || got != header(r, "kind") || !l.Timestamp.Equal(r.Timestamp) {
			t.Errorf("dead letter %s: got %s, kind %q, want the original record %s", l.Key, l.Value, got, r.Value)
		}
		reason := header(l, "__connect.errors.exception.message")
		for _, k := range kinds {
			if k.name == header(r, "kind") && (!strings.HasPrefix(reason, k.reason) || reason == "") {
				t.Errorf("dead letter %s, %s: got reason %q, want %q", l.Key, k.name, reason, k.reason)
			}
		}
		for name, want := range map[string]string{
			"__connect.errors.exception.class.name": "import_row", "__connect.errors.stage": "TASK_PUT",
			"__connect.errors.offset": fmt.Sprint(r.Offset), "__connect.errors.partition": fmt.Sprint(r.Partition),
			"feedsink.mapping": "customers", "feedsink.lane": "batch",
		} {
			if got := header(l, name); got != want {
				t.Errorf("dead letter %s: got %s %q, want %q", l.Key, name, got, want)
			}
		}
		// One, unless the machine is so slow that a file is complete by its age before all rows are in it.
		if got := header(l, "feedsink.execution"); !slices.ContainsFunc(executions, func(e sandbox.Execution) bool { return e.ID == got }) {
			t.Errorf("dead letter %s: got feedsink.execution %q, want one of the %d", l.Key, got, len(executions))
		}
	}
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

func TestRowsInErrorOfAnAdoptedImportComeBackToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withRules)
	if err := w.service.RejectRows(sandbox.Rejection{Column: "lastName", Match: "Nemo", Reason: "nobody of this name"}); err != nil {
		t.Fatal(err)
	}
	const sink = head + deadLetters + manyRows
	yaml := strings.ReplaceAll(sink, "age: 10s", "age: 1s")
	nemo := event("customers", "C1", `{"op":"upsert","key":{"customerNumber":"C1"},"attributes":{"lastName":"Nemo"}}`)
	older := customer("C1", "basic", 1)
	w.service.Hold()
	w.produce(older, customer("C2", "basic", 2), nemo)
	first := w.start(yaml)
	w.until("the import runs", func() bool { return len(w.service.Executions()) == 1 })
	first.stop()
	w.service.Release()
	w.start(yaml)
	w.until("the import is confirmed", func() bool { return w.lag("batch", "customers") == 0 })

	var got []string
	for _, l := range w.dead() {
		got = append(got, string(l.Value))
	}
	if want := []string{string(older.Value), string(nemo.Value)}; !slices.Equal(got, want) {
		t.Errorf("dead letters: got %q, want all records that came to the row: %q", got, want)
	}
	if n := len(w.service.Executions()); n != 1 {
		t.Errorf("got %d executions, want the one", n)
	}
	if _, ok := w.service.Row("customers", "C2"); !ok {
		t.Error("C2: got no row, want the good one")
	}
}

func TestRowsInErrorWithoutADeadLetterTopicHaltTheirPartition(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withRules)
	if err := w.service.RejectRows(sandbox.Rejection{Column: "lastName", Match: "Nemo"}); err != nil {
		t.Fatal(err)
	}
	yaml := strings.ReplaceAll(head+manyRows, "age: 10s", "age: 300ms")
	w.produce(event("customers", "C1", `{"op":"upsert","key":{"customerNumber":"C1"},"attributes":{"lastName":"Nemo"}}`))
	first := w.start(yaml)
	w.until("the partition halts", func() bool { return strings.Contains(w.logs.String(), "partition halted") })
	if got := w.lag("batch", "customers"); got != 1 {
		t.Errorf("without a dead-letter topic: got a lag of %d, want 1: nothing is dropped", got)
	}
	// Neither another restart nor a service that takes the row by now ends this.
	w.until("/status says what ends the halt", func() bool {
		return strings.Contains(get(t, first.AdminAddress(), "/status"), "Set dlq.topic and run feedsink reload: the record becomes a dead letter")
	})
	first.stop()
	w.start(strings.Replace(yaml, "mappings:", deadLetters+"mappings:", 1))
	w.until("the record is a dead letter", func() bool { return w.lag("batch", "customers") == 0 })
	if got, n := len(w.dead()), len(w.service.Executions()); got != 1 || n != 1 {
		t.Errorf("with one: got %d dead letters of %d executions, want the one of the one", got, n)
	}
}
