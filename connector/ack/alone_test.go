package ack_test

import (
	"testing"

	"github.com/feedsink/feedsink/connector/ack"
)

func TestLaneThatIsToBeAloneWaitsUntilTheOtherHasLetGo(t *testing.T) {
	alone := ack.LaneRoutes{Fingerprints: []uint64{2}, Alone: []uint64{2}}
	both := ack.Routes{Changed: 10, Shared: true, Epochs: []ack.Epoch{{Fingerprint: 1}}}
	other := ack.View{Committed: true, Offset: 5, Routes: both}
	// It has left nothing to the other lane, whose files may land all the same.
	if r := alone.Resume(9, &ack.Ledger{Routes: both}, &other, 20); !r.Routes.Hold || r.At != 5 {
		t.Errorf("a lane that goes on: got hold %v from %d, want it to wait, and then to read again from 5", r.Routes.Hold, r.At)
	}
	if r := alone.Begin(0, &other, 20); !r.Routes.Hold {
		t.Error("a lane that begins: got no hold, want it to wait")
	}
	r := alone.Resume(9, &ack.Ledger{Routes: both}, &other, 20)
	further := ack.LaneRoutes{Fingerprints: []uint64{3}, Alone: []uint64{3}}
	if r = further.Resume(r.At, &ack.Ledger{Routes: r.Routes}, &other, 30); !r.Routes.Hold {
		t.Error("other routes while it waits: got no hold, want it to go on waiting")
	}
}

// TestBatchLaneReadsAgainWhatItWroteAlone: the immediate lane goes on where it stood,
// and its calls land over the files of the time in between.
func TestBatchLaneReadsAgainWhatItWroteAlone(t *testing.T) {
	batch := ack.LaneRoutes{Fingerprints: []uint64{1}, Batch: true, Shared: true}
	alone := ack.LaneRoutes{Fingerprints: []uint64{2}, Alone: []uint64{2}, Batch: true}
	stood := ack.View{Committed: true, Offset: 7, Routes: ack.Routes{Changed: 10, Shared: true, Epochs: []ack.Epoch{{Fingerprint: 1}}}}

	before := alone.Resume(9, &ack.Ledger{Routes: stood.Routes}, &stood, 20).Routes
	back := stood
	back.Offset = 12 // it has called meanwhile
	if r := batch.Resume(30, &ack.Ledger{Routes: before}, &back, 30); r.At != 7 {
		t.Errorf("an immediate lane that is back: got records read again from %d, want 7", r.At)
	}

	// One that begins does so where the batch lane stands.
	first := alone.Begin(0, &ack.View{}, 20).Routes
	immediate := ack.LaneRoutes{Fingerprints: []uint64{1}, Shared: true}
	begun := immediate.Begin(0, &ack.View{Committed: true, Offset: 15, Routes: first}, 30)
	seen := ack.View{Committed: true, Offset: 20, Routes: begun.Routes}
	if r := batch.Resume(30, &ack.Ledger{Routes: first}, &seen, 40); r.At != 15 {
		t.Errorf("an immediate lane that began meanwhile: got records read again from %d, want 15", r.At)
	}
	r := batch.Resume(30, &ack.Ledger{Routes: first}, &ack.View{}, 40) // it has committed nothing yet
	if !r.Routes.Outdated(&batch, &seen) {
		t.Error("an immediate lane that is seen later: got nothing outdated, want records read again")
	}
	if r = batch.Resume(30, &ack.Ledger{Routes: r.Routes}, &seen, 50); r.At != 15 {
		t.Errorf("and then: got records read again from %d, want 15", r.At)
	}
}

func TestBatchLaneReadsAgainFromWhereTheOtherHasGoneBackTo(t *testing.T) {
	batch := ack.LaneRoutes{Fingerprints: []uint64{2}, Batch: true, Shared: true}
	own := ack.Routes{Changed: 10, Shared: true, Epochs: []ack.Epoch{{Fingerprint: 1}}, Peer: ack.Peer{Changed: 10, Watermark: 27}}
	back := ack.View{Committed: true, Offset: 15, Routes: ack.Routes{Changed: 20, Shared: true, Epochs: []ack.Epoch{{Fingerprint: 2}}}}
	if r := batch.Resume(29, &ack.Ledger{Routes: own}, &back, 30); r.At != 15 {
		t.Errorf("got records read again from %d, want 15", r.At)
	}
}

// TestBatchLaneReadsAgainFromWhereAToolHasTakenTheOtherBackTo has the immediate lane
// make its calls again, over newer rows, before the batch lane looks at it.
func TestBatchLaneReadsAgainFromWhereAToolHasTakenTheOtherBackTo(t *testing.T) {
	batch := ack.LaneRoutes{Fingerprints: []uint64{1}, Batch: true, Shared: true}
	immediate := ack.LaneRoutes{Fingerprints: []uint64{1}, Shared: true}
	own := ack.Ledger{Routes: ack.Routes{
		Changed: 100, Shared: true, Epochs: []ack.Epoch{{Fingerprint: 1, From: 0}}, Peer: ack.Peer{Changed: 50, Watermark: 30},
	}}
	view := ack.View{Committed: true, Offset: 40, Routes: own.Routes}
	again := immediate.Resume(5, &ack.Ledger{}, &view, 200).Routes
	there := ack.View{Committed: true, Offset: 35, Routes: again}
	if !own.Routes.Outdated(&batch, &there) {
		t.Error("an immediate lane that began again: got that nothing has changed, want it noticed")
	}
	resumed := batch.Resume(40, &own, &there, 300)
	if resumed.At != 5 || resumed.Done != nil {
		t.Errorf("reading again: got from %d, with %v confirmed, want from 5, where the calls are made again", resumed.At, resumed.Done)
	}
	if lost := batch.Resume(40, &ack.Ledger{}, &there, 300); lost.At != 5 {
		t.Errorf("reading again, with the batch lane's ledger lost, too: got from %d, want from 5", lost.At)
	}
	view.Routes = resumed.Routes
	again.Notice(&immediate, &view)
	there.Routes = again
	if later := batch.Resume(30, &ack.Ledger{}, &there, 400); later.At != 30 {
		t.Errorf("an offset that is set once that is over: got from %d, want from 30", later.At)
	}
}
