//go:build !image

package e2e_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/schemas"
)

// takeBack has another tool commit an offset of the immediate lane, without a ledger.
func (w *world) takeBack(partition int32, to int64) {
	w.t.Helper()
	back := kadm.Offsets{}
	back.AddOffset(w.topic("orders"), partition, to, -1)
	if err := w.admin.CommitAllOffsets(w.t.Context(), w.prefix+"sink-immediate", back); err != nil {
		w.t.Fatal(err)
	}
}

// began waits until the immediate lane has a ledger of its own again.
func (w *world) began(partition int32) {
	w.t.Helper()
	w.until("the immediate lane has committed again", func() bool {
		committed, err := w.admin.FetchOffsets(w.t.Context(), w.prefix+"sink-immediate")
		o, _ := committed.Lookup(w.topic("orders"), partition)
		return err == nil && o.Metadata != "" && w.lag("immediate", "orders") == 0
	})
}

// TestCallThatWasPassedOnIsWrittenOverAFileThatLandsAfterIt resets one partition
// while a file runs: what was in it nothing tells any more. A call to one of its
// keys, in another partition, was passed on before that was known.
func TestCallThatWasPassedOnIsWrittenOverAFileThatLandsAfterIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	w.service.Hold()
	row, elsewhere := order("o1", "FILE", 1), order("o2", "FILE", 1)
	w.produce(row, elsewhere)
	rows := 2
	for ; elsewhere.Partition == row.Partition; rows++ {
		elsewhere = order(fmt.Sprintf("o%d", rows+1), "FILE", 1)
		w.produce(elsewhere)
	}
	sink := w.start(head + deadLetters + bothLanes)
	w.until("the file is triggered", func() bool { return len(w.service.Executions()) == 1 })
	w.produce(now(order("o1", "CALL", 2)))
	w.until("the call is made", func() bool { return w.service.CallCount(4) > 0 && w.lag("immediate", "orders") == 0 })
	w.counts(sink, "other_lane", rows+1) // the rows by the immediate lane, and the call by the batch lane
	sink.stop()
	w.takeBack(elsewhere.Partition, 0)
	w.service.Release()
	w.until("the file has landed", func() bool { return w.service.Executions()[0].Status == sandbox.Finished })
	w.only(schemas.Immediate, nowByCall)
	w.began(elsewhere.Partition)
	w.only(schemas.Batch, nowByCall)
	w.bothSettled()
	w.ordersAre(map[string]string{"o1": "2 CALL"})
	w.noDeadLetters()
}
