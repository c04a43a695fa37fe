//go:build !image

package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// partitionOf is where a record that was produced is.
func partitionOf(r *kgo.Record) string {
	return fmt.Sprintf("%s[%d] offset %d", r.Topic, r.Partition, r.Offset)
}

func nemo(key string) *kgo.Record {
	return event("customers", key, fmt.Sprintf(`{"op":"upsert","key":{"customerNumber":%q},"attributes":{"lastName":"Nemo"}}`, key))
}

// TestRowInErrorWithoutADeadLetterTopicHaltsItsPartitionAlone: the other partitions'
// imports go on, and so does what of the file is good.
func TestRowInErrorWithoutADeadLetterTopicHaltsItsPartitionAlone(t *testing.T) {
	t.Parallel()
	for name, deleting := range map[string]bool{"one-file": false, "the-first-of-two-files": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withRules)
			if err := w.service.RejectRows(sandbox.Rejection{Column: "lastName", Match: "Nemo"}); err != nil {
				t.Fatal(err)
			}
			yaml := strings.ReplaceAll(head+manyRows, "age: 10s", "age: 1s")
			bad := nemo("bad")
			records := []*kgo.Record{customer("before", "basic", 1), bad}
			for i := range 40 {
				records = append(records, customer(fmt.Sprintf("C%02d", i), "basic", i))
			}
			if deleting {
				records = append(records, event("customers", "C01", `{"op":"delete","key":{"customerNumber":"C01"}}`))
			}
			w.produce(records...)
			behind := int64(0) // of the bad record in its partition
			for _, r := range records {
				if r.Partition == bad.Partition && r.Offset >= bad.Offset {
					behind++
				}
			}
			first := w.start(yaml)
			w.until("all but the partition of the bad record is confirmed", func() bool { return w.lag("batch", "customers") == behind })
			w.until("the reason names the record", func() bool { return strings.Contains(get(t, first.AdminAddress(), "/status"), partitionOf(bad)) })
			var more []*kgo.Record
			for i := range 40 {
				more = append(more, customer(fmt.Sprintf("D%02d", i), "basic", i))
			}
			w.produce(more...)
			for _, r := range more {
				if r.Partition == bad.Partition {
					behind++
				}
			}
			w.until("imports of the other partitions go on", func() bool { return w.lag("batch", "customers") == behind })
			if got := len(w.service.Executions()); got > 4 {
				t.Errorf("got %d executions, want the one or two of each generation", got)
			}
			first.stop()
			executions := len(w.service.Executions())
			second := w.start(strings.Replace(yaml, "mappings:", deadLetters+"mappings:", 1))
			w.until("everything is confirmed", func() bool { return w.lag("batch", "customers") == 0 })
			second.stop()
			var dead []string
			for _, l := range w.dead() {
				dead = append(dead, string(l.Key))
			}
			if !slices.Equal(dead, []string{"bad"}) {
				t.Errorf("with a dead-letter topic: got dead letters %q, want the one bad record, once", dead)
			}
			rows := len(w.service.Rows("customers"))
			if want := 1 + 40 + 40; deleting && rows != want-1 || !deleting && rows != want {
				t.Errorf("got %d rows, want %d, one less where it was deleted", rows, want)
			}
			for _, e := range w.service.Executions()[executions:] {
				if n := e.Results.InError; n > 0 {
					t.Errorf("execution %s: got %d rows in error, want the bad record sent but once", e.ID, n)
				}
			}
		})
	}
}
