package batcher

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/schemas"
)

// rolling is a partition whose next record waits for the other lane's routes until it
// was read.
type rolling struct {
	*partition
	read atomic.Int64
	goes atomic.Bool
}

func (r *rolling) String() string { return "crm[3]" }
func (r *rolling) Halted() string { return "" }
func (r *rolling) Read() int64    { return r.read.Load() }
func (r *rolling) Waits() string {
	if r.goes.Load() {
		return ""
	}
	return "the other lane has other routes"
}

// rollOut is a batch lane that waits at a record of p for the other lane to take the
// same routes.
func rollOut(t *testing.T) (w *world, p *rolling, peer *endless) {
	t.Helper()
	w = newWorld(t)
	p = &rolling{partition: w.p}
	p.read.Store(102)
	peer = &endless{ends: map[Partition]int64{p: 109}}
	w.beside(peer)
	return w, p, peer
}

// TestImportIsConfirmedWhileARecordWaitsForTheOtherLanesRoutes: the other lane is
// never upgraded. What is loaded is confirmed, and the table's next file goes.
func TestImportIsConfirmedWhileARecordWaitsForTheOtherLanesRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p, _ := rollOut(t)
		w.add("customers", write(schemas.Upsert, "1", "a", "x"), p, 101)
		time.Sleep(time.Hour)
		w.said(
			`1m0s intend upsert 1/1 attempt 1 "" holds 101-101`,
			`1m0s trigger 101 with customers-*.upsert.csv.gz: "k,a,b\n1,x,\n", <nil>`,
			`1m0s record upsert 1/1 attempt 1 "e1" holds 101-101`,
			`1m2s poll e1: FINISHED`,
			`1m2s settle upsert 1/1 attempt 1 "e1" holds 101-101`,
			`2m2s leave unread up to [109]: upsert 1/1 attempt 1 "e1" holds `,
			`2m2s confirm upsert 1/1 attempt 1 "e1" holds 101-101`,
		)
		w.add("customers", write(schemas.Upsert, "2", "a", "y"), &partition{}, 7)
		time.Sleep(time.Hour)
		w.lastSaid(`confirm upsert 1/1 attempt 1 "e2" holds 7-7`)
	})
}

// TestConflictsBelowWhatIsReadAreReconciledWhileARecordWaits: a key whose writes by the
// other lane were read is sent once more before its row is confirmed.
func TestConflictsBelowWhatIsReadAreReconciledWhileARecordWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p, peer := rollOut(t)
		check(t, w.b.Other("customers", write(schemas.Upsert, "1", "a", "call"), p, 100, false))
		w.add("customers", write(schemas.Upsert, "1", "a", "row"), p, 101)
		time.Sleep(10 * time.Minute)
		w.lastSaid(`settle upsert 1/1 attempt 1 "e1" holds 101-101`)
		if got := peer.sent.Load(); got != 0 {
			t.Errorf("calls while the other lane may still write the key: got %d, want none", got)
		}
		peer.confirmed.Store(101)
		time.Sleep(time.Minute)
		w.lastSaid(`confirm upsert 1/1 attempt 1 "e1" holds 101-101`)
		if got := peer.sent.Load(); got != 1 {
			t.Errorf("calls with the newest state: got %d, want 1", got)
		}
	})
}

// TestPartitionThatGoesOnIsReadToItsEnd: it waits no more when the ledger has the note.
func TestPartitionThatGoesOnIsReadToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p, peer := rollOut(t)
		goesOn := &notes{world: w, noted: func() { p.goes.Store(true) }}
		w.b.ledger = goesOn
		w.add("customers", write(schemas.Upsert, "1", "a", "row"), p, 101)
		time.Sleep(10 * time.Minute)
		w.lastSaid(`leave unread up to [109]: upsert 1/1 attempt 1 "e1" holds `)
		check(t, w.b.Other("customers", write(schemas.Upsert, "1", "a", "call"), p, 102, false))
		p.read.Store(109)
		peer.confirmed.Store(109)
		time.Sleep(time.Minute)
		w.lastSaid(`confirm upsert 1/1 attempt 1 "e1" holds 101-101`)
		if got := peer.sent.Load(); got != 1 {
			t.Errorf("calls with the newest state: got %d, want 1", got)
		}
	})
}

// notes tells when the ledger was to note what is not read.
type notes struct {
	*world
	noted func()
}

func (n *notes) Unread(ctx context.Context, imp contract.Import, ends map[Partition]int64) error {
	n.noted()
	return n.world.Unread(ctx, imp, ends)
}
