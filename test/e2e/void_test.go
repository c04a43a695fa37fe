//go:build !image

package e2e_test

import (
	"net/http"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// TestPatchThatANewerDeleteMadeVoidIsConfirmed puts the commit back to a patch: it
// is sent again, after the delete that follows it in the log has been applied.
func TestPatchThatANewerDeleteMadeVoidIsConfirmed(t *testing.T) {
	w := newWorld(t, withBothETLs)
	first, patch, last := now(change("upsert", "o1", `"seq":1`)), now(change("patch", "o1", `"seq":2`)), now(change("delete", "o1", ""))
	w.produce(first, patch)
	sink := w.start(head + deadLetters + bothLanes)
	w.produce(last)
	w.until("the row was there, and is gone", func() bool { return w.service.CallCount(7) == 1 && w.service.Len("orders") == 0 })
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
