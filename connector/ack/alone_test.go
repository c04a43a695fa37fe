package ack_test

import (
	"testing"

	"github.com/feedsink/feedsink/connector/ack"
)

func TestLaneThatIsToBeAloneWaitsUntilTheOtherHasLetGo(t *testing.T) {
	alone := ack.LaneRoutes{Fingerprints: []uint64{2}, Alone: []uint64{2}}
	both := ack.Routes{Changed: 10, Shared: true, Epochs: []ack.Epoch{{Fingerprint: 1}}}
	other := ack.View{Committed: true, Offset: 5, Routes: both}
	other.Routes.Peer = ack.Peer{Changed: 10, Watermark: 8}
	// It has left nothing to the other lane, whose files may land all the same.
	if r := alone.Resume(9, &ack.Ledger{Routes: both}, &other, 20); !r.Routes.Hold || r.At != 5 {
		t.Errorf("a lane that goes on: got hold %v from %d, want it to wait, and then to read again from 5", r.Routes.Hold, r.At)
	}
	if r := alone.Begin(0, &other, 20); !r.Routes.Hold {
		t.Error("a lane that begins: got no hold, want it to wait")
	}
	if r := alone.Begin(0, &ack.View{}, 20); !r.Routes.Hold || alone.Awaits(&ack.View{}, false) || !alone.Awaits(&ack.View{}, true) {
		t.Error("a lane that begins beside one that has committed nothing: want it to wait for that one's members")
	}
	r := alone.Resume(9, &ack.Ledger{Routes: both}, &other, 20)
	further := ack.LaneRoutes{Fingerprints: []uint64{3}, Alone: []uint64{3}}
	if r = further.Resume(r.At, &ack.Ledger{Routes: r.Routes}, &other, 30); !r.Routes.Hold {
		t.Error("other routes while it waits: got no hold, want it to go on waiting")
	}
}

func TestLaneThatBeginsWaitsForOneThatIsAlone(t *testing.T) {
	shared := ack.LaneRoutes{Fingerprints: []uint64{1}, Shared: true}
	own := ack.Ledger{Routes: ack.Routes{Changed: 10, Shared: true, Passed: true, Epochs: []ack.Epoch{{Fingerprint: 1}}}}
	alone := ack.View{Committed: true, Offset: 5, Routes: ack.Routes{Changed: 15, Epochs: []ack.Epoch{{Fingerprint: 2}}}}
	again := alone
	again.Routes.Changed, again.Routes.Shared = 30, true
	for name, r := range map[string]ack.Resumption{
		"goes on": shared.Resume(9, &own, &alone, 20),
		"begins":  shared.Begin(9, &alone, 20),
	} {
		switch {
		case !r.Routes.Hold:
			t.Errorf("a lane that %s: got no hold, want it to wait", name)
		case !shared.Awaits(&alone, false):
			t.Errorf("a lane that %s, the other has no member: got it to go on, though one may come that takes everything", name)
		case shared.Awaits(&again, true):
			t.Errorf("a lane that %s, the other shares the partition: got it to wait", name)
		}
		ledger := ack.Ledger{Routes: r.Routes}
		if r = shared.Resume(r.At, &ledger, &again, 40); r.Routes.Hold {
			t.Errorf("a lane that %s, begun again once the other shares: got it to wait", name)
		}
	}
	// Two that are to be alone: the one without members is of the past.
	last := ack.LaneRoutes{Fingerprints: []uint64{3}, Alone: []uint64{3}, Batch: true}
	r := last.Resume(9, &ack.Ledger{Routes: own.Routes}, &alone, 20)
	if !r.Routes.Hold || !last.Awaits(&alone, true) || last.Awaits(&alone, false) {
		t.Errorf("beside one that is alone: got %+v, want it to wait for its members only", r.Routes)
	}
	last.GoOn(&r.Routes, &alone)
	if back := last.Resume(100, &ack.Ledger{Routes: r.Routes}, &alone, 50); back.At != 100 {
		t.Errorf("and later: got records read again from %d, want 100, since the other has not changed", back.At)
	}
}

// TestBatchLaneWritesAgainWhatItMayHaveOverwrittenAlone: it was behind what the
// immediate lane had called before, and its files came after those calls.
func TestBatchLaneWritesAgainWhatItMayHaveOverwrittenAlone(t *testing.T) {
	batch := ack.LaneRoutes{Fingerprints: []uint64{1}, Batch: true, Shared: true}
	stood := ack.View{Committed: true, Offset: 18, Done: ack.Ranges{{From: 19, To: 21}}, Routes: ack.Routes{Changed: 10, Shared: true, Epochs: []ack.Epoch{{Fingerprint: 1}}}}
	alone := ack.Ledger{Routes: ack.Routes{Changed: 12, Epochs: []ack.Epoch{{Fingerprint: 2}}, Peer: ack.Peer{Changed: 10, Watermark: 18}}}
	r := batch.Resume(15, &alone, &stood, 30)
	if r.Routes.Resend != 21 {
		t.Errorf("got writes below %d written again, want those below 21", r.Routes.Resend)
	}
	if got := r.Routes.Decide(&stood, 1, 20); got != ack.Take {
		t.Errorf("the immediate lane's at 20: got %v, want it taken", got)
	}
}

// TestLaneThatRemainsWritesAgainWhatWasCalledUnderOtherRoutes: the batch lane did not
// know of these calls, and nothing reconciles them once it is gone.
func TestLaneThatRemainsWritesAgainWhatWasCalledUnderOtherRoutes(t *testing.T) {
	alone := ack.LaneRoutes{Fingerprints: []uint64{3}, Alone: []uint64{3}}
	own := ack.Ledger{Routes: ack.Routes{Changed: 10, Shared: true, Epochs: []ack.Epoch{{Fingerprint: 1}}}}
	batch := ack.View{Committed: true, Offset: 30, Routes: ack.Routes{Changed: 20, Shared: true, Epochs: []ack.Epoch{{Fingerprint: 2}}, Peer: ack.Peer{Changed: 10, Watermark: 12}}}
	if r := alone.Resume(30, &own, &batch, 40); r.At != 12 {
		t.Errorf("got records read again from %d, want 12", r.At)
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
	before := ack.Ledger{Routes: ack.Routes{Changed: 10, Shared: true, Epochs: []ack.Epoch{{Fingerprint: 1}}}}
	gone := (&ack.LaneRoutes{Fingerprints: []uint64{3}, Alone: []uint64{3}}).Resume(27, &before, &ack.View{Committed: true, Offset: 15, Routes: own}, 20)
	// It takes part again, and has gone on, before the batch lane looks.
	back := (&ack.LaneRoutes{Fingerprints: []uint64{2}, Shared: true}).Resume(25, &ack.Ledger{Routes: gone.Routes}, &ack.View{Committed: true, Offset: 15, Routes: own}, 25)
	seen := ack.View{Committed: true, Offset: 26, Routes: back.Routes}
	r := batch.Resume(29, &ack.Ledger{Routes: own}, &seen, 30)
	if r.At != 15 {
		t.Errorf("got records read again from %d, want 15", r.At)
	}
	// What the batch lane has taken notice of is not read again.
	later := (&ack.LaneRoutes{Fingerprints: []uint64{4}, Shared: true}).Resume(40, &ack.Ledger{Routes: back.Routes}, &ack.View{Committed: true, Offset: 38, Routes: r.Routes}, 40)
	seen = ack.View{Committed: true, Offset: 41, Routes: later.Routes}
	batch.Fingerprints = []uint64{4}
	if r = batch.Resume(45, &ack.Ledger{Routes: r.Routes}, &seen, 50); r.At != 26 {
		t.Errorf("after a change of both: got records read again from %d, want 26, which both knew of", r.At)
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
}

// TestBatchLaneThatAToolHasSetBeginsWhereItHasSetTheOther has the immediate lane make its
// calls again before the batch lane begins, over rows that were confirmed.
func TestBatchLaneThatAToolHasSetBeginsWhereItHasSetTheOther(t *testing.T) {
	batch := ack.LaneRoutes{Fingerprints: []uint64{1}, Batch: true, Shared: true}
	immediate := ack.LaneRoutes{Fingerprints: []uint64{1}, Shared: true}
	own := immediate.Resume(5, &ack.Ledger{}, &ack.View{Committed: true, Offset: 20}, 200).Routes
	metadata, _, err := (&ack.Ledger{Routes: own}).Encode(35, ack.MetadataLimit)
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := ack.Decode(metadata, 35)
	if err != nil {
		t.Fatal(err)
	}
	there := ack.View{Committed: true, Offset: 35, Routes: ledger.Routes}
	began := batch.Resume(20, &ack.Ledger{}, &there, 300)
	if began.At != 5 {
		t.Errorf("a tool has set both: got the batch lane from %d, want from 5, where the calls are made again", began.At)
	}
	began.Routes.Notice(&batch, &there)
	own.Notice(&immediate, &ack.View{Committed: true, Offset: 20, Routes: began.Routes})
	there.Routes = own
	if alone := batch.Resume(20, &ack.Ledger{}, &there, 400); alone.At != 20 {
		t.Errorf("a tool has set the batch lane alone, later: got it from %d, want from 20", alone.At)
	}
}
