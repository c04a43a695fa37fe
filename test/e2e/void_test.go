//go:build !image

package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// TestPatchThatANewerDeleteMadeVoidIsConfirmed puts the commit back to a patch: it
// is sent again, after the delete that follows it in the log has been applied.
func TestPatchThatANewerDeleteMadeVoidIsConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	first, patch, last := now(change("upsert", "o1", `"seq":1`)), now(change("patch", "o1", `"seq":2`)), now(change("delete", "o1", ""))
	sink := w.start(head + deadLetters + bothLanes)
	// One after the other: what waits together may become one call.
	w.produce(first)
	w.until("the row is there", func() bool { return w.service.Len("orders") == 1 })
	w.produce(patch)
	w.until("the patch is sent", func() bool { return w.service.CallCount(5) > 0 })
	w.produce(last)
	w.until("the row is gone", func() bool { return w.service.Len("orders") == 0 })
	w.bothSettled()
	sink.stop()
	offsets := kadm.Offsets{}
	offsets.AddOffset(w.topic("orders"), patch.Partition, patch.Offset, -1)
	if err := w.admin.CommitAllOffsets(t.Context(), w.prefix+"sink-immediate", offsets); err != nil {
		t.Fatal(err)
	}
	w.start(head + deadLetters + bothLanes)
	w.until("the patch is sent again", func() bool { return w.service.CallCount(5) >= 2 })
	w.bothSettled()
	for _, l := range w.dead() {
		t.Errorf("dead letter of %s: %s; the delete behind it has made it void", l.Value, header(l, "__connect.errors.exception.message"))
	}
}

// TestPatchThatANewerRowMadeVoidIsConfirmed holds a patch up until a file has
// deleted its row.
func TestPatchThatANewerRowMadeVoidIsConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	w.start(head + deadLetters + bothLanes)
	w.produce(change("upsert", "o1", `"seq":1,"status":"FILE"`))
	w.bothSettled()
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 5}, Answer: sandbox.Status(http.StatusServiceUnavailable)})
	w.produce(now(change("patch", "o1", `"seq":2`)), now(change("patch", "o2", `"seq":2`)))
	w.until("the patch waits", func() bool { return w.service.CallCount(5) > 0 })
	w.produce(change("delete", "o1", ""))
	w.until("the row is gone", func() bool { return w.service.Len("orders") == 0 })
	w.service.ClearFaults()
	w.bothSettled()
	if dead := w.dead(); len(dead) != 1 || string(dead[0].Key) != "o2" {
		t.Errorf("dead letters: got %d, want the patch of o2, which was never there, alone", len(dead))
	}
}

// Patches of one key that a row of the other lane comes between are calls of their own: the
// import with the row waits for the older one, and the newer one for that import.
func TestPatchesAroundARowDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	w.produce(change("upsert", "o1", `"seq":1`), now(change("patch", "o1", `"status":"A"`)))
	w.start(head + deadLetters + strings.Replace(bothLanes, "age: 400ms", "age: 3s", 1))
	w.until("the first patch finds nothing", func() bool { return w.service.CallCount(5) > 0 })
	w.produce(now(change("patch", "o1", `"status":"B"`)), change("delete", "o1", ""), now(change("patch", "o1", `"status":"C"`)))
	w.bothSettled()
	w.ordersAre(map[string]string{"o1": ""})
}

// Nor do they after a restart, though the row's record is confirmed in their lane and they are not.
func TestPatchesAroundARowDoNotWaitForEachOtherAfterARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	w.produce(change("upsert", "o1", `"seq":1`), now(change("patch", "o1", `"status":"A"`)))
	sink := w.start(head + deadLetters + strings.Replace(bothLanes, "age: 400ms", "age: 1h", 1))
	w.until("the first patch finds nothing", func() bool { return w.service.CallCount(5) > 0 })
	w.produce(change("delete", "o1", ""), now(change("patch", "o1", `"status":"C"`)))
	const others = 20 // in each partition some
	for n := range others {
		w.produce(now(change("upsert", fmt.Sprint("other", n), `"seq":1`)))
	}
	w.until("all partitions are read", func() bool { return w.service.Len("orders") == others })
	sink.stop()
	w.start(head + deadLetters + bothLanes)
	w.bothSettled()
	w.ordersAre(map[string]string{"o1": ""})
}

// An import waits for a patch by call that is older than a row of it. That finds nothing, and a
// delete in the next file, which waits for the import, does not hold it up.
func TestPatchOfNothingDoesNotWaitForTheFileBehindItsImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	w.service.Hold()
	w.produce(now(change("patch", "o1", `"status":"CALL"`)), change("patch", "o1", `"status":"FILE"`))
	w.start(head + deadLetters + bothLanes)
	w.until("the import is on its way", func() bool { return len(w.service.Executions()) == 1 })
	w.produce(change("delete", "o1", ""))
	w.service.Release()
	w.bothSettled()
	w.ordersAre(map[string]string{"o1": ""})
}

// TestPatchOfNothingDoesNotWaitForADeleteThatWaitsForIt: the import with a newer row of the key
// waits for the first patch, the second patch for the next import, the delete for the second
// patch.
func TestPatchOfNothingDoesNotWaitForADeleteThatWaitsForIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	w.service.Hold()
	w.produce(now(change("patch", "o1", `"status":"A"`)), change("patch", "o1", `"seq":1`))
	w.start(head + deadLetters + bothLanes)
	w.until("the file is on its way", func() bool { return len(w.service.Executions()) == 1 })
	w.produce(now(change("patch", "o1", `"status":"C"`)), now(change("delete", "o1", "")))
	w.until("the second patch finds nothing", func() bool { return w.lag("batch", "orders") > 0 && w.service.CallCount(5) > 5 })
	w.service.Release()
	w.bothSettled()
	w.ordersAre(map[string]string{"o1": ""})
}

// TestPatchIsVoidByAnUpsertThatHasDroppedItsRow: the row waits in a file when the upsert by call
// comes, and the patch is still to be confirmed when the import of that file is reconciled.
func TestPatchIsVoidByAnUpsertThatHasDroppedItsRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	all := []*kgo.Record{change("upsert", "o1", `"seq":1`), now(change("patch", "o1", `"status":"A"`))}
	for n := range 20 { // in each partition some: the import covers the patch
		all = append(all, change("upsert", fmt.Sprint("other", n), `"seq":1`))
	}
	w.produce(all...)
	w.start(strings.Replace(head, "timeout: 2s", "timeout: 10s", 1) + deadLetters + strings.Replace(bothLanes, "age: 400ms", "age: 3s", 1))
	w.until("the patch finds nothing", func() bool { return w.service.CallCount(5) > 0 })
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4, Key: "o1"}, Answer: sandbox.AsIs(), Delay: 4 * time.Second})
	w.produce(now(change("upsert", "o1", `"seq":2,"status":"B"`)))
	w.bothSettled()
	for _, l := range w.dead() {
		t.Errorf("dead letter of %s: %s; the upsert behind it has made it void", l.Value, header(l, "__connect.errors.exception.message"))
	}
	w.ordersAre(map[string]string{"o1": "2 B"})
}

// TestPatchWaitsForTheRowThatReconcilingBringsBack holds a delete up until the file with a newer
// upsert has landed. It leaves nothing to patch, until the batch lane has brought the row back.
func TestPatchWaitsForTheRowThatReconcilingBringsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	w.start(strings.Replace(head, "timeout: 2s", "timeout: 10s", 1) + deadLetters + bothLanes)
	w.produce(now(change("upsert", "o1", `"seq":1`)))
	w.bothSettled()
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 7}, Answer: sandbox.Status(http.StatusServiceUnavailable)})
	all := []*kgo.Record{now(change("delete", "o1", "")), change("upsert", "o1", `"seq":3,"status":"FILE"`), now(change("patch", "o1", `"seq":4`))}
	for n := range 20 { // in each partition some: the file covers the patch
		all = append(all, change("upsert", fmt.Sprint("other", n), `"seq":1`))
	}
	w.produce(all...)
	w.until("the file has landed", func() bool { return w.service.Rows("orders")["o1"].Text("status") == "FILE" })
	w.service.ClearFaults()
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4}, Answer: sandbox.AsIs(), Delay: 4 * time.Second})
	w.bothSettled()
	for _, l := range w.dead() {
		t.Errorf("dead letter of %s: %s; there is a row once the batch lane has brought it back", l.Value, header(l, "__connect.errors.exception.message"))
	}
	if row := w.service.Rows("orders")["o1"]; row.Text("seq") != "4" || row.Text("status") != "FILE" {
		t.Errorf("o1: got %v, want seq 4 of the patch and the status of the row", row.Values)
	}
}

// TestPatchBetweenRowsOfAFileFindsTheRowThatReconcilingBringsBack is the same with a newer row in
// that file, which waits for the patch, and one in the next file, which makes the patch void once
// it has landed: that waits for the import.
func TestPatchBetweenRowsOfAFileFindsTheRowThatReconcilingBringsBack(t *testing.T) {
	t.Parallel()
	for _, next := range []bool{false, true} {
		w := newWorld(t, withBothETLs)
		w.start(strings.Replace(head, "timeout: 2s", "timeout: 10s", 1) + deadLetters + bothLanes)
		w.produce(now(change("upsert", "o1", `"seq":1`)))
		w.bothSettled()
		w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 7}, Answer: sandbox.Status(http.StatusServiceUnavailable)})
		w.produce(
			now(change("delete", "o1", "")), change("upsert", "o1", `"seq":3,"status":"FILE"`),
			now(change("patch", "o1", `"status":"CALL"`)), change("patch", "o1", `"seq":5`),
		)
		w.until("the file has landed", func() bool { return w.service.Rows("orders")["o1"].Text("seq") == "5" })
		want := "CALL"
		if next {
			w.produce(change("upsert", "o1", `"seq":5,"status":"NEXT"`))
			want = "NEXT"
		}
		w.service.ClearFaults()
		w.bothSettled()
		for _, l := range w.dead() {
			t.Errorf("with a newer row in the next file %v: dead letter of %s: %s; there is a row once the batch lane has brought it back", next, l.Value, header(l, "__connect.errors.exception.message"))
		}
		if row := w.service.Rows("orders")["o1"]; row.Text("seq") != "5" || row.Text("status") != want {
			t.Errorf("with a newer row in the next file %v: got %v, want seq 5 of the row and status %s", next, row.Values, want)
		}
	}
}
