package batcher

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/schemas"
)

// noCalls is another lane that has no call for a delete.
type noCalls struct {
	confirmed atomic.Int64 // offsets below are
	asked     func()       // called when a call is asked for
	sent      atomic.Int64 // calls made
	looks     atomic.Int64
	refused   atomic.Int64 // the offset of a call that the service has refused; 0: none
	ends      map[Partition]int64
	answer    func(writes []schemas.Write) ([]int, error)
}

var errNoCall = errors.New("the profile's id is not known")

func (n *noCalls) Look(context.Context) error {
	n.looks.Add(1)
	return nil
}

func (n *noCalls) Confirmed(_ Partition, offset int64) bool { return offset < n.confirmed.Load() }

func (n *noCalls) Halted(Partition) bool { return false }

func (n *noCalls) Refused(_ Partition, offset int64) (may, is bool) {
	is = offset > 0 && offset == n.refused.Load()
	return is, is
}

func (n *noCalls) Ends(context.Context, string) (map[Partition]int64, error) { return n.ends, nil }

func (n *noCalls) Apply(_ context.Context, _ string, writes []schemas.Write) ([]int, error) {
	if n.asked != nil {
		n.asked()
	}
	if n.answer != nil {
		return n.answer(writes)
	}
	if writes[0].Op == schemas.Delete {
		return nil, errNoCall
	}
	n.sent.Add(1)
	return nil, nil
}

// conflicting is a world in which a file deletes key 1, of which an older write of
// the other lane had not landed when it was sent.
func conflictingKeys(t *testing.T) (*world, *noCalls) {
	m := testMapping()
	m.DualLane, m.Roll.Age = true, time.Minute
	return conflictingKeysOf(t, m)
}

func conflictingKeysOf(t *testing.T, m files.Mapping) (*world, *noCalls) {
	w, peer := newWorld(t), &noCalls{}
	w.open(Config{Peer: peer}, m)
	w.run()
	w.other(write(schemas.Upsert, "1"), 99)
	w.append(write(schemas.Delete, "1"))
	time.Sleep(time.Minute + time.Second)
	w.said(
		`1m0s intend delete 1/1 attempt 1 "" holds 100-100`,
		`1m0s trigger 104 with customers-*.delete.csv.gz: "k\n1\n", <nil>`,
		`1m0s record delete 1/1 attempt 1 "e1" holds 100-100`,
	)
	return w, peer
}

func TestRowThatIsAddedAgainStaysBehindNewerRowsOfItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, peer := conflictingKeys(t)
		w.add("customers", write(schemas.Upsert, "1", "a", "new"), w.p, 101)
		peer.confirmed.Store(100)
		time.Sleep(time.Hour)
		w.said(
			`1m2s poll e1: FINISHED`,
			`1m2s settle delete 1/1 attempt 1 "e1" holds 100-100`,
			`1m2s confirm delete 1/1 attempt 1 "e1" holds 100-100`,
			`2m1s intend delete 1/2 attempt 1 "" holds 101-101 100-100`,
			`2m1s trigger 104 with customers-*.delete.csv.gz: "k\n1\n", <nil>`,
			`2m1s record delete 1/2 attempt 1 "e2" holds 101-101 100-100`,
			`2m3s poll e2: FINISHED`,
			`2m3s intend upsert 2/2 attempt 1 "" holds 101-101 100-100`,
			`2m3s trigger 101 with customers-*.upsert.csv.gz: "k,a,b\n1,new,\n", <nil>`,
			`2m3s record upsert 2/2 attempt 1 "e3" holds 101-101 100-100`,
			`2m4s poll e3: FINISHED`,
			`2m4s settle upsert 2/2 attempt 1 "e3" holds 101-101 100-100`,
			`2m4s confirm upsert 2/2 attempt 1 "e3" holds 101-101 100-100`,
		)
	})
}

// Were the newer row confirmed with its own file, which goes before, a restart would read the older
// one alone, and send it over that.
func TestRowThatIsAddedAgainHoldsNewerRowsOfFilesThatGoBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testMapping()
		m.DualLane, m.Roll.Age, m.MaxFile.Rows = true, time.Minute, 2
		w, peer := conflictingKeysOf(t, m)
		for i, key := range []string{"1", "2", "3"} {
			w.add("customers", write(schemas.Upsert, key, "a", "new"), w.p, 101+int64(i))
		}
		peer.confirmed.Store(100)
		time.Sleep(time.Hour)
		if got, want := strings.Join(w.transcript(), "\n"), `holds 103-103 100-100 101-101`; !strings.Contains(got, want) {
			t.Errorf("files: got\n%s\nwant one that %s", got, want)
		}
	})
}

// TestRowThatIsAddedAgainLeavesNewerPatchesOfNothing: the newer delete is added behind it once
// more, and takes the place of all rows before it. The patch behind that is still to be refused.
func TestRowThatIsAddedAgainLeavesNewerPatchesOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, peer := conflictingKeys(t)
		for i, row := range []schemas.Write{write(schemas.Upsert, "1", "a", "old"), write(schemas.Delete, "1"), write(schemas.Patch, "1", "a", "new"), write(schemas.Patch, "1", "b", "new")} {
			w.add("customers", row, w.p, 101+int64(i))
		}
		peer.confirmed.Store(100)
		time.Sleep(time.Hour)
		if got, want := strings.Join(w.transcript(), "\n"), `.patch.csv.gz: "k,a,b\n1,`; !strings.Contains(got, want) {
			t.Errorf("files: got\n%s\nwant one with %s", got, want)
		}
	})
}

// TestRowThatIsAddedAgainStaysBehindNewerPatchesOfTheOtherLane: these were merged into
// the newer row.
func TestRowThatIsAddedAgainStaysBehindNewerPatchesOfTheOtherLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, peer := conflictingKeys(t)
		w.add("customers", write(schemas.Upsert, "1", "a", "new", "b", "new"), w.p, 101)
		w.other(write(schemas.Patch, "1", "a", "newest"), 102)
		peer.confirmed.Store(103)
		time.Sleep(time.Hour)
		if got, want := strings.Join(w.transcript(), "\n"), `"k,a,b\n1,newest,new\n"`; !strings.Contains(got, want) {
			t.Errorf("files: got\n%s\nwant one with %s", got, want)
		}
	})
}

func TestRowIsNotAddedAgainOnceTheOtherLaneHasWrittenItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, peer := conflictingKeys(t)
		peer.asked = func() { // while the delete is being tried
			peer.asked = nil
			if err := w.b.Other("customers", write(schemas.Upsert, "1", "a", "new"), w.p, 101, false); err != nil {
				t.Error(err)
			}
		}
		peer.confirmed.Store(100)
		time.Sleep(time.Hour)
		w.said(
			`1m2s poll e1: FINISHED`,
			`1m2s settle delete 1/1 attempt 1 "e1" holds 100-100`,
			`1m2s confirm delete 1/1 attempt 1 "e1" holds 100-100`,
		)
		if got := peer.sent.Load(); got != 1 {
			t.Errorf("calls with the newest state: got %d, want 1", got)
		}
	})
}

// TestNewestStateIsOnRecordBeforeItIsSentThoughThereIsNoFile: it may take several
// calls, and an owner that is killed among them leaves the next one to send it again.
func TestNewestStateIsOnRecordBeforeItIsSentThoughThereIsNoFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := taking(t)
		w.run()
		w.append(write(schemas.Upsert, "1", "a", "x"))
		w.other(write(schemas.Delete, "1"), 101)
		time.Sleep(time.Hour)
		w.said(
			`1m0s settle unknown 1/1 attempt 0 "" holds 100-100`,
			`1m0s call delete 1`,
			`1m0s confirm unknown 0/0 attempt 0 "" holds 100-100`,
		)
	})
}

// TestKeysAreLetGoOfAsThePeerSees: it looks at the other lane's ledger by itself, and less often
// the larger that is.
func TestKeysAreLetGoOfAsThePeerSees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, peer, m := newWorld(t), &noCalls{}, testMapping()
		m.DualLane = true
		w.open(Config{Peer: peer, MaxFollowed: 1}, m)
		w.run()
		w.other(write(schemas.Upsert, "1"), 101)
		time.Sleep(time.Minute)
		if w.b.Ready() {
			t.Error("while the key is followed: got ready, want no room for more")
		}
		peer.confirmed.Store(102)
		time.Sleep(letGoEvery)
		synctest.Wait()
		if !w.b.Ready() {
			t.Error("once its write is confirmed: got not ready, want that the key is let go of")
		}
		if n := peer.looks.Load(); n != 0 {
			t.Errorf("got %d looks beside the peer's own, want none", n)
		}
	})
}

// growing is a log that goes on.
type growing struct {
	noCalls
	p   Partition
	end atomic.Int64
}

func (g *growing) Ends(context.Context, string) (map[Partition]int64, error) {
	return map[Partition]int64{g.p: g.end.Load()}, nil
}

// TestWaitingForTheOtherLaneReadsOnOnce: what comes meanwhile needs no looking at, and may be more
// than there is room for.
func TestWaitingForTheOtherLaneReadsOnOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testMapping()
		m.DualLane, m.Roll.Age = true, time.Minute
		w := newWorld(t)
		peer := &growing{p: w.p}
		peer.end.Store(102)
		w.open(Config{Peer: peer, MaxFollowed: 1}, m)
		w.run()
		w.other(write(schemas.Upsert, "1"), 99)
		w.append(write(schemas.Delete, "1"))
		time.Sleep(time.Hour)
		w.lastSaid("settle")
		if !w.b.Ready() {
			t.Error("before the log was read to its end: got no room, want that it is read on")
		}
		w.p.read.Store(102)
		time.Sleep(time.Minute)
		if w.b.Ready() {
			t.Error("while the other lane's write is awaited: got ready, want no room for more")
		}
		peer.end.Store(200)
		time.Sleep(time.Hour)
		if w.b.Ready() {
			t.Error("as the log goes on: got ready, want no room for more")
		}
		peer.confirmed.Store(100)
		time.Sleep(time.Minute)
		w.p.read.Store(200)
		time.Sleep(time.Minute)
		w.lastSaid("confirm")
	})
}
