package batcher

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/schemas"
)

// besideCalls is callable where the other lane writes the table, too, and has confirmed all.
func besideCalls(t *testing.T) (*world, *scriptedCalls, *noCalls) {
	peer := &noCalls{ends: map[Partition]int64{}}
	peer.confirmed.Store(1000)
	w, calls := callableBeside(t, peer, func(m *files.Mapping) { m.DualLane = true })
	return w, calls, peer
}

// anotherImportReconciles is what an import that is under way does: it sends all keys that
// are conflicting, and reads on.
func (w *world) anotherImportReconciles(want int) {
	w.t.Helper()
	m := w.b.byName["customers"]
	m.queue.mu.Lock()
	defer m.queue.mu.Unlock()
	all := m.dualLane.keys.Next(func(reconcile.At) bool { return true })
	if len(all) != want {
		w.t.Errorf("keys to be sent: got %d, want %d", len(all), want)
	}
	for _, n := range all {
		m.dualLane.keys.Sent(n)
	}
	m.dualLane.keys.Noted()
	m.dualLane.keys.Reconcile()
}

// A call of a row may land though it had no answer. An import that reconciles its key before that
// does not settle it: the key is sent once more when the call cannot land any more.
func TestKeyWhoseCallMayLandLateIsSentOnceItCannot(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the queue does not come between the other lane's write and the call's end
	for name, inFlight := range map[string]bool{"in flight when the other lane's write is read": true, "without an answer before": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, calls, peer := besideCalls(t)
				w.offer(100, write(schemas.Upsert, "1", "a", "old"))
				synctest.Wait()
				if inFlight {
					w.other(write(schemas.Upsert, "1", "a", "new", "b", "new"), 101)
					calls.end(errDisconnected)
				} else {
					calls.end(errDisconnected)
					w.other(write(schemas.Upsert, "1", "a", "new", "b", "new"), 101)
				}
				w.anotherImportReconciles(1)
				time.Sleep(80 * time.Second)
				if n := peer.sent.Load(); n != 0 {
					t.Errorf("while the call may land: got the key sent %d times, want it to wait", n)
				}
				time.Sleep(time.Minute)
				if n := peer.sent.Load(); n != 1 {
					t.Errorf("once it cannot: got the key sent %d times, want once", n)
				}
			})
		})
	}
}

// TestKeyWhoseCallHasLandedAmidReconcilingIsSentAgain: where an import that is under way has noted the
// end of the log before, what the other lane writes behind that is later than its file, and not than the call.
func TestKeyWhoseCallHasLandedAmidReconcilingIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, calls, peer := besideCalls(t)
		w.offer(100, write(schemas.Upsert, "1", "a", "old"))
		synctest.Wait()
		m := w.b.byName["customers"]
		m.queue.locked(func() { m.dualLane.ends = map[Partition]int64{w.p: 101} })
		peer.ends = map[Partition]int64{w.p: 102} // it is in the log when the call ends, and read behind that
		calls.end(nil)
		synctest.Wait()
		w.other(write(schemas.Upsert, "1", "a", "new", "b", "new"), 101)
		w.p.read.Store(102)
		m.queue.locked(func() { m.dualLane.ends = nil })
		time.Sleep(time.Minute)
		if n := peer.sent.Load(); n != 1 {
			t.Errorf("got the key sent %d times, want once", n)
		}
	})
}
