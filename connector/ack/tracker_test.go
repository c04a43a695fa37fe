package ack_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/feedsink/feedsink/connector/ack"
)

// naive keeps every record it ever saw: what the Tracker must agree with.
type naive struct {
	seen map[int64]*situation
	next int64
}

type situation struct{ pending, inClaim bool }

func (n *naive) confirmed(o int64) bool {
	s := n.seen[o]
	return s == nil || !s.pending && !s.inClaim
}

func (n *naive) watermark(from int64) int64 {
	for o := from; o < n.next; o++ {
		if !n.confirmed(o) {
			return o
		}
	}
	return n.next
}

func TestTrackerAgreesWithNaiveModel(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		start := rnd.Int64N(1000)
		tr, model := ack.New(start, nil), &naive{seen: map[int64]*situation{}, next: start}
		entries := map[int64]*ack.Entry{}
		claims := map[*ack.Claim][]int64{}
		var open *ack.Claim
		for range 400 {
			switch o := model.next + rnd.Int64N(3); rnd.IntN(10) {
			case 0, 1, 2: // a record on its own
				entries[o] = new(ack.Entry)
				tr.Track(entries[o], o)
				tr.Advance(o + 1)
				model.seen[o], model.next = &situation{pending: true}, o+1
			case 3, 4: // a record for a file
				if open == nil {
					open = tr.Claim(o)
				} else {
					open.Extend(o)
				}
				claims[open] = append(claims[open], o)
				tr.Advance(o + 1)
				model.seen[o], model.next = &situation{inClaim: true}, o+1
			case 5: // the other lane's
				tr.Advance(o + 1)
				model.next = o + 1
			case 6:
				open = nil // sealed
			case 7:
				for c, offsets := range claims {
					if c == open {
						open = nil
					}
					tr.Release(c)
					for _, o := range offsets {
						model.seen[o].inClaim = false
					}
					delete(claims, c)
					break
				}
			default:
				for o, e := range entries {
					tr.Confirm(e)
					model.seen[o].pending = false
					delete(entries, o)
					break
				}
			}
			check(t, seed, start, tr, model, claims)
		}
	}
}

func check(t *testing.T, seed uint64, start int64, tr *ack.Tracker, model *naive, claims map[*ack.Claim][]int64) {
	t.Helper()
	want := model.watermark(start)
	if got := tr.Watermark(); got != want {
		t.Fatalf("seed %d: watermark: got %d, want %d", seed, got, want)
	}
	confirmed := tr.Confirmed()
	for o := want; o < model.next; o++ {
		got := confirmed.Contains(o)
		if got && !model.confirmed(o) {
			t.Fatalf("seed %d: offset %d: counts as confirmed, but is not", seed, o)
		}
		// Within the span of a claim only records confirmed one by one need
		// to be known; everywhere else the set is exact.
		spanned := slices.ContainsFunc(slices.Collect(maps.Keys(claims)), func(c *ack.Claim) bool {
			return c.Span().From <= o && o < c.Span().To
		})
		if !got && model.confirmed(o) && !spanned {
			t.Fatalf("seed %d: offset %d: is confirmed, but does not count", seed, o)
		}
	}
}

func TestTrackerHoldsBehindGap(t *testing.T) {
	tr := ack.New(100, nil)
	var e [3]ack.Entry
	for i := range e {
		tr.Track(&e[i], 100+int64(i))
	}
	tr.Advance(103)
	tr.Confirm(&e[1])
	tr.Confirm(&e[2])
	if got := tr.Watermark(); got != 100 {
		t.Errorf("watermark with 100 pending: got %d, want 100", got)
	}
	if got, want := fmt.Sprint(tr.Confirmed()), "[{101 103}]"; got != want {
		t.Errorf("confirmed: got %s, want %s", got, want)
	}
	tr.Confirm(&e[0])
	if got := tr.Watermark(); got != 103 {
		t.Errorf("watermark with nothing pending: got %d, want 103", got)
	}
}

func TestSecondConfirmIsHarmless(t *testing.T) {
	tr := ack.New(0, nil)
	var a, b ack.Entry
	tr.Track(&a, 0)
	tr.Track(&b, 1)
	tr.Advance(2)
	if !tr.Confirm(&a) || tr.Confirm(&a) {
		t.Error("confirm of one entry twice: got not (true, false)")
	}
	if got := tr.Watermark(); got != 1 {
		t.Errorf("watermark: got %d, want 1", got)
	}
	c := tr.Claim(2)
	tr.Advance(3)
	if !tr.Release(c) || tr.Release(c) {
		t.Error("release of one claim twice: got not (true, false)")
	}
}

func TestDeadLetterInsideAFilesSpanStaysDone(t *testing.T) {
	tr := ack.New(0, nil)
	c := tr.Claim(0)
	var dead ack.Entry
	tr.Track(&dead, 1)
	c.Extend(2)
	tr.Advance(3)
	tr.Confirm(&dead)
	if got, want := fmt.Sprint(tr.Confirmed()), "[{1 2}]"; got != want {
		t.Errorf("confirmed: got %s, want %s", got, want)
	}
	again := ack.New(tr.Watermark(), tr.Confirmed())
	if again.Done(0) || !again.Done(1) || again.Done(2) {
		t.Error("after a restart only offset 1 must be done")
	}
}

func TestRecordOfTwoMappingsIsNotDoneByHalf(t *testing.T) {
	tr := ack.New(0, nil)
	tr.Claim(0)
	var e ack.Entry
	tr.Track(&e, 0)
	tr.Share(&e)
	tr.Advance(1)
	tr.Confirm(&e)
	if got := tr.Confirmed(); len(got) != 0 {
		t.Errorf("confirmed while the file is open: got %v, want none", got)
	}
}

func TestRestoredTrackerSkipsWhatIsDone(t *testing.T) {
	tr := ack.New(10, ack.Ranges{{From: 12, To: 14}, {From: 20, To: 21}})
	for o, want := range map[int64]bool{9: true, 10: false, 11: false, 12: true, 13: true, 14: false, 20: true} {
		if got := tr.Done(o); got != want {
			t.Errorf("done(%d): got %v, want %v", o, got, want)
		}
	}
	tr.Advance(15)
	if got, want := fmt.Sprint(tr.Confirmed()), "[{20 21}]"; got != want {
		t.Errorf("what is not reached yet must stay in the ledger: got %s, want %s", got, want)
	}
}

func TestTrackRefusesOffsetsThatDoNotAscend(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("tracking offset 4 after 5: got no panic")
		}
	}()
	tr := ack.New(0, nil)
	tr.Track(new(ack.Entry), 5)
	tr.Track(new(ack.Entry), 4)
}

func BenchmarkTrackConfirm(b *testing.B) {
	b.ReportAllocs()
	tr := ack.New(0, nil)
	ring := make([]ack.Entry, 256)
	for i := range b.N {
		e := &ring[i%len(ring)]
		tr.Confirm(e)
		tr.Track(e, int64(i))
		tr.Advance(int64(i) + 1)
	}
}
