//go:build !image

package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// TestCallWithoutADeadLetterTopicHoldsUpItsPartitionAlone: a call that is refused for
// good halts its partition in the immediate lane. A row of the same key cannot be
// reconciled then; the imports of the other partitions go on all the same.
func TestCallWithoutADeadLetterTopicHoldsUpItsPartitionAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4, Key: "bad"}, Answer: sandbox.Status(http.StatusBadRequest)})
	const columns = `"seq":%d,"status":%q`
	bad := now(change("upsert", "bad", fmt.Sprintf(columns, 1, "CALL")))
	want := map[string]string{"bad": "2 FILE"}
	records := []*kgo.Record{bad, change("upsert", "bad", fmt.Sprintf(columns, 2, "FILE"))}
	for i := range 20 {
		key := fmt.Sprintf("C%02d", i)
		records, want[key] = append(records, change("upsert", key, fmt.Sprintf(columns, i, "FILE"))), fmt.Sprint(i, " FILE")
	}
	w.produce(records...)
	first := w.start(head + bothLanes)
	elsewhere := func(records []*kgo.Record) (n int64) {
		for _, r := range records {
			if r.Partition != bad.Partition {
				n++
			}
		}
		return n
	}
	behind := int64(len(records)) - elsewhere(records) - 1 // the call itself is not the batch lane's
	w.until("the other partitions are confirmed", func() bool { return w.lag("batch", "orders") == behind })
	w.until("the reason is told", func() bool {
		status := get(t, first.AdminAddress(), "/status")
		return strings.Contains(status, partitionOf(bad)) && strings.Contains(status, "has halted or paused the partition, and keys of an import cannot be reconciled")
	})
	var more []*kgo.Record
	for i := range 20 {
		key := fmt.Sprintf("D%02d", i)
		more, want[key] = append(more, change("upsert", key, fmt.Sprintf(columns, i, "FILE"))), fmt.Sprint(i, " FILE")
	}
	w.produce(more...)
	behind += int64(len(more)) - elsewhere(more)
	w.until("the table's imports go on", func() bool { return w.lag("batch", "orders") == behind })
	first.stop()
	w.start(head + deadLetters + bothLanes)
	w.bothSettled()
	w.ordersAre(want)
	if dead := w.dead(); len(dead) != 1 || string(dead[0].Key) != "bad" {
		t.Errorf("with a dead-letter topic: got %d dead letters, want the one refused call", len(dead))
	}
}

// TestImportWithARowOfAPausedCallsKeyIsConfirmedAfterTheCall: it is loaded, and waits.
func TestImportWithARowOfAPausedCallsKeyIsConfirmedAfterTheCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	const columns = `"seq":%d,"status":%q`
	sink := w.start(head + deadLetters + bothLanes)
	w.produce(now(change("upsert", "first", fmt.Sprintf(columns, 0, "CALL"))))
	w.bothSettled()
	said(t, sink, 0, "pause --mapping orders --lane immediate")
	w.produce(now(change("upsert", "both", fmt.Sprintf(columns, 1, "CALL"))), change("upsert", "both", fmt.Sprintf(columns, 2, "FILE")),
		change("upsert", "file", fmt.Sprintf(columns, 3, "FILE")))
	w.until("the import waits for the call", func() bool {
		return strings.Contains(said(t, sink, 0, "imports show --mapping orders"), "the immediate lane has not confirmed writes of a key")
	})
	if _, loaded := w.service.Row("orders", "file"); !loaded || w.lag("batch", "orders") == 0 {
		t.Errorf("got loaded %t and all confirmed %t, want it loaded and not confirmed", loaded, w.lag("batch", "orders") == 0)
	}
	said(t, sink, 0, "resume --mapping orders")
	w.bothSettled()
	w.ordersAre(map[string]string{"first": "0 CALL", "both": "2 FILE", "file": "3 FILE"})
}
