package batcher

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/schemas"
)

// TestRowInErrorOfAConflictingKeyWaitsForTheOlderWrite: what becomes of a row in error
// is decided once the other lane's writes of its key have landed.
func TestRowInErrorOfAConflictingKeyWaitsForTheOlderWrite(t *testing.T) {
	refuse := func([]schemas.Write) ([]int, error) { return nil, &refusal{} }
	take := func([]schemas.Write) ([]int, error) { return nil, nil }
	finds := func(writes []schemas.Write) ([]int, error) { return []int{len(writes) - 1}, nil }
	for _, c := range []struct {
		name   string
		older  schemas.Op // of the other lane, 0: none
		row    schemas.Op
		newer  schemas.Op // likewise
		answer func([]schemas.Write) ([]int, error)
		dead   bool
		lost   int64 // the offset of a write of the other lane that the service has refused; 0: of none
	}{
		{"a patch of what the older upsert creates", schemas.Upsert, schemas.Patch, 0, take, false, 0},
		{"a patch of what the older upsert cannot create", schemas.Upsert, schemas.Patch, 0, refuse, true, 0},
		{"a patch beside an older patch, of nothing", schemas.Patch, schemas.Patch, 0, finds, true, 0},
		{"a patch of what the older delete has taken away", schemas.Delete, schemas.Patch, 0, take, true, 0},
		{"a create behind an older delete", schemas.Delete, schemas.Create, 0, take, false, 0},
		{"a create of what the older upsert creates", schemas.Upsert, schemas.Create, 0, take, true, 0},
		{"an upsert behind an older patch, refused again", schemas.Patch, schemas.Upsert, 0, refuse, true, 0},
		{"an upsert behind an older patch", schemas.Patch, schemas.Upsert, 0, take, false, 0},
		{"a patch of what a newer delete has taken away", 0, schemas.Patch, schemas.Delete, take, false, 0},
		{"an upsert in whose place a newer one has come", 0, schemas.Upsert, schemas.Upsert, refuse, false, 0},
		{"an upsert in whose place a newer one has come that is refused", 0, schemas.Upsert, schemas.Upsert, refuse, true, 102},
		{"an upsert in whose place a newer delete has come that is refused", 0, schemas.Upsert, schemas.Delete, refuse, true, 102},
		{"an upsert in whose place a newer one has come, behind one that is refused", schemas.Upsert, schemas.Upsert, schemas.Upsert, refuse, false, 99},
		{"a patch beside a newer patch, of nothing", 0, schemas.Patch, schemas.Patch, finds, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, peer := rejecting(t, 2, "k,error\n1,bad\n2,bad\n"), &noCalls{answer: c.answer}
				peer.refused.Store(c.lost)
				w.beside(peer)
				if c.older != 0 {
					w.other(write(c.older, "1", "a", "x"), 99)
				}
				w.results = append([]contract.Results{{Status: contract.InProgress}}, w.results...)
				w.append(write(c.row, "1", "a", "y"), write(c.row, "2", "a", "y"))
				time.Sleep(time.Minute + time.Second) // it is on its way
				if c.newer != 0 {
					w.other(write(c.newer, "1", "a", "z"), 102)
				}
				time.Sleep(10 * time.Minute)
				got := w.deadLetters()
				if want := "101: bad"; c.older != 0 && got != want {
					t.Errorf("dead letters before the older write has landed: got %q, want %q", got, want)
				}
				peer.confirmed.Store(103)
				time.Sleep(10 * time.Minute)
				want := "101: bad"
				if c.dead {
					want += ", 100: bad"
				}
				if got = strings.TrimSuffix(got+", "+w.deadLetters(), ", "); got != want {
					t.Errorf("dead letters in the end: got %q, want %q", got, want)
				}
			})
		})
	}
}

// TestRowsInErrorThatWaitSurviveACrash adopts an import whose former owner was
// waiting for the other lane.
func TestRowsInErrorThatWaitSurviveACrash(t *testing.T) {
	for _, settling := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, peer := rejecting(t, 2, "k,error\n1,bad\n2,bad\n"), &noCalls{}
			peer.answer = func([]schemas.Write) ([]int, error) { return []int{0}, nil }
			m := testMapping()
			m.DualLane = true
			w.open(Config{Peer: peer}, m)
			w.log = []schemas.Write{write(schemas.Patch, "1", "a", "x"), write(schemas.Patch, "2", "a", "x")}
			left := w.left(102, contract.Import{Part: 1, Parts: 1, Attempt: 1, Mode: m.Loads[schemas.Patch].Mode, Execution: "e1"})
			left.Reconciling = settling
			w.adopt(left)
			w.run()
			for i := range w.log {
				w.b.Covered("customers", w.log[i], w.p, int64(100+i))
			}
			w.other(write(schemas.Patch, "1", "b", "z"), 102)
			time.Sleep(10 * time.Minute)
			want := "100: bad"
			if !settling { // else it is one since the former owner was told
				want = "101: bad, 100: bad"
			}
			if got := w.deadLetters(); got != want {
				t.Errorf("settling %v: got dead letters %q, want %q", settling, got, want)
			}
		})
	}
}

// deadLetters are the dead letters since the last transcript, as offset and reason.
func (w *world) deadLetters() string {
	var all []string
	for _, line := range w.transcript() {
		if _, what, ok := strings.Cut(line, " reject "); ok {
			offset, rest, _ := strings.Cut(what, " ")
			_, reason, _ := strings.Cut(rest, ": ")
			all = append(all, offset+": "+reason)
		}
	}
	return strings.Join(all, ", ")
}

// TestRowsThatTheOtherLaneDroppedAreNoDeadLetters has the other lane delete a key whose rows
// are in the open file, and that known as confirmed before the file is sent: the patch that
// follows, of nothing, is the only record that came to the row in error.
func TestRowsThatTheOtherLaneDroppedAreNoDeadLetters(t *testing.T) {
	for _, before := range []schemas.Op{schemas.Upsert, schemas.Patch, schemas.Create} {
		t.Run(before.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, peer := rejecting(t, 1, "k,error\n1,no row has this key\n"), &noCalls{}
				w.beside(peer)
				w.log = []schemas.Write{
					write(before, "1", "a", "x"), write(schemas.Patch, "2", "a", "x"), write(schemas.Delete, "1", "", ""),
					write(schemas.Patch, "1", "a", "y"), write(schemas.Patch, "1", "a", "z"), write(schemas.Patch, "3", "a", "y"),
				}
				w.others = map[int]bool{2: true}
				for i := range w.log {
					if !w.others[i] {
						w.read(w.p, int64(100+i), w.log[i])
					} else {
						w.other(w.log[i], int64(100+i))
					}
				}
				peer.confirmed.Store(103)
				time.Sleep(10 * time.Minute)
				if got, want := w.deadLetters(), "103: no row has this key, 104: no row has this key"; got != want {
					t.Errorf("dead letters: got %q, want %q", got, want)
				}
			})
		})
	}
}

// TestRowsInErrorDoNotWaitForAPartitionThatIsNotRead has the log go on while the
// partition is paused.
func TestRowsInErrorDoNotWaitForAPartitionThatIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rejecting(t, 1, "k,error\n1,bad\n")
		peer := &noCalls{ends: map[Partition]int64{w.p: 1000}}
		w.beside(peer)
		w.append(write(schemas.Upsert, "1", "a", "y"))
		time.Sleep(2 * time.Minute)
		if got, want := w.deadLetters(), "100: bad"; got != want {
			t.Errorf("dead letters: got %q, want %q", got, want)
		}
	})
}

// TestRowInErrorIsADeadLetterIfTheNewerWriteIsRefused: the newer write comes to the log once the
// file has landed, and so it settles the key without a call.
func TestRowInErrorIsADeadLetterIfTheNewerWriteIsRefused(t *testing.T) {
	for _, refused := range []int64{0, 103} {
		synctest.Test(t, func(t *testing.T) {
			w, peer := rejecting(t, 1, "k,error\n1,bad\n"), &noCalls{}
			peer.answer = func([]schemas.Write) ([]int, error) { t.Error("got a call"); return nil, nil }
			m := testMapping()
			m.DualLane, m.Roll.Age = true, time.Minute
			w.open(Config{Peer: peer}, m)
			peer.ends = map[contract.Partition]int64{w.p: 103}
			w.run()
			other := func(offset int64) {
				w.other(write(schemas.Upsert, "1", "a", "z"), offset)
			}
			other(99)
			w.append(write(schemas.Upsert, "1", "a", "y"), write(schemas.Upsert, "2", "a", "y"), write(schemas.Upsert, "3", "a", "y"))
			w.p.read.Store(103)
			time.Sleep(10 * time.Minute) // the older write has not landed
			other(103)
			peer.refused.Store(refused)
			peer.confirmed.Store(104)
			time.Sleep(10 * time.Minute)
			want := ""
			if refused > 0 {
				want = "100: bad"
			}
			if got := w.deadLetters(); got != want {
				t.Errorf("refused %d: got dead letters %q, want %q", refused, got, want)
			}
		})
	}
}
