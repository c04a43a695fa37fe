package pause

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
)

var lane = Of{Mapping: 7, Batch: true}

func wantPaused(t *testing.T, k *Known, when, want string) {
	t.Helper()
	got := "goes on"
	if p, yes := k.Paused(lane); yes {
		got = "paused: " + p.Reason
	}
	if got != want {
		t.Errorf("%s: got %q, want %q", when, got, want)
	}
}

func said(reason string) ack.Pause { return ack.Pause{Mapping: 7, Batch: true, Reason: reason} }

func TestPauseEndsAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &Known{}
		p := said("the table is rebuilt")
		p.Until = time.Now().Add(time.Hour).UnixMilli()
		k.Say(p)
		time.Sleep(time.Hour - time.Millisecond)
		wantPaused(t, k, "just before", "paused: the table is rebuilt")
		if _, yes := k.Paused(Of{Mapping: 7}); yes {
			t.Error("the other lane: got paused, want it to go on")
		}
		time.Sleep(time.Millisecond)
		wantPaused(t, k, "at its time", "goes on")
		if p, known := k.Last(lane); !known || !p.Resumed {
			t.Errorf("for ledgers: got %+v, %t, want it resumed", p, known)
		}
	})
}

func TestWhatWasSaidLastCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &Known{}, &Known{}
		ledger := func(k *Known) []ack.Pause { p, _ := k.Last(lane); return []ack.Pause{p} }
		ahead := said("of a clock that is ahead")
		ahead.At = time.Now().Add(time.Minute).UnixMilli()
		a.Learn([]ack.Pause{ahead})
		b.Learn(ledger(a))
		resumed := said("")
		resumed.Resumed = true
		b.Say(resumed)
		old := ledger(a)
		a.Learn(ledger(b))
		wantPaused(t, a, "resumed at another member whose clock is behind", "goes on")
		b.Learn(old)
		wantPaused(t, b, "a ledger of before", "goes on")
		a.Say(said("again"))
		a.Say(said("for another reason"))
		b.Learn(ledger(a))
		wantPaused(t, b, "paused anew", "paused: for another reason")
	})
}

func TestResumedIsRememberedWhileALedgerShowsThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &Known{}
		k.Say(said("x"))
		stale, _ := k.Last(lane)
		resumed := said("")
		resumed.Resumed = true
		k.Say(resumed)
		k.Forget(nil, nil)
		k.Learn([]ack.Pause{stale})
		wantPaused(t, k, "a commit that comes late", "goes on")
		time.Sleep(2 * forgetAfter)
		k.Forget([]ack.Pause{stale}, nil)
		k.Learn([]ack.Pause{stale})
		wantPaused(t, k, "a group that was away", "goes on")
		k.Forget(nil, map[Of]bool{lane: true})
		k.Learn([]ack.Pause{stale})
		wantPaused(t, k, "a lane that is not used", "goes on")
		k.Forget(nil, nil)
		if _, known := k.Last(lane); known {
			t.Error("no ledger shows it: got remembered, want forgotten")
		}
		k.Say(said("y"))
		time.Sleep(2 * forgetAfter)
		k.Forget(nil, nil)
		wantPaused(t, k, "a long pause", "paused: y")
	})
}
