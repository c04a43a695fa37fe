//go:build !image

package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// TestRowInErrorWaitsForAnOlderCall has patches go by file while the calls wait
// that are to create their rows.
func TestRowInErrorWaitsForAnOlderCall(t *testing.T) {
	t.Parallel()
	const keys = 24
	w := newWorld(t, withBothETLs)
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4}, Answer: sandbox.Status(http.StatusServiceUnavailable)})
	want := map[string]string{"nothing": ""}
	for i := range keys {
		key := fmt.Sprint("k", i)
		w.produce(now(change("upsert", key, `"seq":1,"status":"CALL"`)), change("patch", key, `"status":"FILE"`))
		want[key] = "1 FILE"
	}
	w.produce(change("patch", "nothing", `"seq":1`))
	w.start(head + deadLetters + bothLanes)
	w.until("the file has ended", func() bool {
		all := w.service.Executions()
		return len(all) > 0 && all[0].Status == sandbox.Finished
	})
	w.until("the patch of nothing is a dead letter", func() bool { return len(w.dead()) > 0 })
	w.service.ClearFaults()
	w.bothSettled()
	w.ordersAre(want)
	var dead []string
	for _, l := range w.dead() {
		dead = append(dead, string(l.Key))
	}
	if !slices.Equal(dead, []string{"nothing"}) {
		t.Errorf("dead letters: got %q, want the patch of nothing alone", dead)
	}
}

// TestCreateCallWaitsForAnOlderRow creates records that a file, which is still on
// its way, is to delete first.
func TestCreateCallWaitsForAnOlderRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	w.produce(now(change("upsert", "o1", `"seq":1,"status":"OLD"`)))
	w.start(head + deadLetters + bothLanes)
	w.bothSettled()
	w.service.Hold()
	w.produce(change("delete", "o1", ""))
	w.until("the file is on its way", func() bool { return len(w.service.Executions()) == 1 })
	w.produce(now(change("create", "o1", `"seq":2,"status":"NEW"`)))
	before := w.service.CallCount(6)
	w.until("the create was refused again and again", func() bool { return w.service.CallCount(6) > before+2 })
	w.service.Release()
	w.bothSettled()
	w.ordersAre(map[string]string{"o1": "2 NEW"})
	if dead := w.dead(); len(dead) > 0 {
		t.Errorf("dead letters: got %d, want none", len(dead))
	}
}
