package batcher

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/schemas"
)

// gateOfParents opens when told; the other lane of the parents.
type gateOfParents struct{ open chan struct{} }

func (g *gateOfParents) Await(ctx context.Context, _ string, _ func() map[reconcile.At]bool) error {
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestChildsFileWaitsForTheRowsOfItsParent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		parent, child := testMapping(), testMapping()
		child.Name, child.After = "orders", []string{"customers"}
		parent.Roll.Age, child.Roll.Age = 24*time.Hour, time.Minute
		child.Roll.Rows = 1
		other := &gateOfParents{open: make(chan struct{})}
		w.open(Config{Parents: other}, parent, child)
		w.run()
		w.append(write(schemas.Upsert, "1"))
		w.add("orders", write(schemas.Upsert, "2"), w.p, 200)
		synctest.Wait()
		step := func() contract.Step {
			if im := w.b.Status()[1].Import; im != nil {
				return im.Step
			}
			return ""
		}
		if got := step(); got != contract.Linking {
			t.Errorf("child's step with the parent's row open: got %q, want %q", got, contract.Linking)
		}
		time.Sleep(10 * time.Second) // the parent's file goes out at once and is loaded
		if st := w.b.Status()[0]; st.Rows != 0 || st.Import != nil {
			t.Errorf("parent: got %+v, want its row loaded long before its file is due", st)
		}
		if got := step(); got != contract.Linking {
			t.Errorf("child's step with the parent's calls not confirmed: got %q, want %q", got, contract.Linking)
		}
		close(other.open)
		time.Sleep(10 * time.Second)
		if im := w.b.Status()[1].Import; im != nil {
			t.Errorf("child: got %+v, want its file loaded", im)
		}
	})
}

// TestFileThatHasWaitedAsksForItsSlotOnceMore: another import may have taken it while the file
// waited for its parents, or a person had paused it.
func TestFileThatHasWaitedAsksForItsSlotOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, gate := newWorld(t), &turnstile{}
		parent, child := testMapping(), testMapping()
		child.Name, child.After, child.Roll.Rows = "orders", []string{"customers"}, 1
		other := &gateOfParents{open: make(chan struct{})}
		w.open(Config{Parents: other, Gate: gate}, parent, child)
		w.run()
		w.add("orders", write(schemas.Upsert, "2"), w.p, 200)
		time.Sleep(time.Minute)
		gate.roll.Store(int64(12 * time.Hour)) // somebody has made an import by hand
		close(other.open)
		time.Sleep(time.Hour)
		if im := w.b.Status()[1].Import; im == nil || im.Step != contract.Waiting {
			t.Errorf("got %+v, want it to wait for a slot", im)
		}
		gate.roll.Store(0)
		time.Sleep(2 * time.Minute)
		if got := sent(w.transcript(), "trigger"); len(got) != 1 {
			t.Errorf("with a slot: got %q, want the file", got)
		}
	})
}

// TestChildsFileFollowsAllFilesOfItsParent: also those that wait, each as large as a file
// may be.
func TestChildsFileFollowsAllFilesOfItsParent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		gate := &turnstile{}
		gate.roll.Store(int64(time.Minute))
		parent, child := testMapping(), testMapping()
		child.Name, child.After = "orders", []string{"customers"}
		parent.Roll.Age, child.Roll.Age = 24*time.Hour, time.Minute
		parent.MaxFile.Rows, child.MaxFile.Rows = 2, 2
		w.open(Config{Gate: gate}, parent, child)
		w.run()
		w.append(write(schemas.Upsert, "1"), write(schemas.Upsert, "o1"), write(schemas.Upsert, "2"), write(schemas.Upsert, "3"),
			write(schemas.Upsert, "o2"), write(schemas.Upsert, "4"), write(schemas.Upsert, "5"), write(schemas.Upsert, "o3"))
		gate.roll.Store(0)
		time.Sleep(time.Hour)
		var files []string
		for _, e := range w.endings() {
			files = append(files, fmt.Sprint(e.Mapping, " ", e.Rows))
		}
		if got, want := strings.Join(files, ", "), "customers 2, customers 2, customers 1, orders 2, orders 1"; got != want {
			t.Errorf("files: got %s, want %s", got, want)
		}
	})
}

func TestChildDoesNotWaitForRowsReadLater(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		parent, child := testMapping(), testMapping()
		child.Name, child.After = "orders", []string{"customers"}
		parent.Roll.Age, child.Roll.Rows = 24*time.Hour, 1
		w.open(Config{}, parent, child)
		w.run()
		w.add("orders", write(schemas.Upsert, "2"), w.p, 200)
		synctest.Wait()
		w.append(write(schemas.Upsert, "1"))
		time.Sleep(time.Minute)
		st := w.b.Status()
		if st[0].Rows != 1 || st[1].Import != nil {
			t.Errorf("got parent with %d open rows, child's import %v, want 1 and none", st[0].Rows, st[1].Import)
		}
	})
}

// TestChildsFileDoesNotWaitForTheOtherLanesCallsOfItsParent: such a call may be of a record
// that waits for the child's file. The parent's rows are loaded.
func TestChildsFileDoesNotWaitForTheOtherLanesCallsOfItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, peer := newWorld(t), &noCalls{}
		parent, child := testMapping(), testMapping()
		parent.DualLane, parent.Roll.Age = true, time.Minute
		child.Name, child.After, child.Roll.Rows = "orders", []string{"customers"}, 1
		w.open(Config{Peer: peer}, parent, child)
		w.run()
		w.other(write(schemas.Upsert, "1"), 99)
		w.append(write(schemas.Delete, "1"))
		time.Sleep(2 * time.Minute)
		if im := w.b.Status()[0].Import; im == nil || im.Step != contract.Reconciling {
			t.Fatalf("parent: got %+v, want it to wait for the call", im)
		}
		w.add("orders", write(schemas.Upsert, "2"), w.p, 200)
		time.Sleep(time.Minute)
		if im := w.b.Status()[1].Import; im != nil {
			t.Errorf("child: got %+v, want its file loaded", im)
		}
		peer.confirmed.Store(100)
		time.Sleep(time.Hour)
		if im := w.b.Status()[0].Import; im != nil {
			t.Errorf("parent: got %+v, want it confirmed", im)
		}
	})
}
