package planted

import (
	"slices"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/audit"
)

func report(t *testing.T, w *World, o audit.Options) *audit.Report {
	t.Helper()
	r, err := w.Audit(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestNothingIsFoundWhereAllIsWell(t *testing.T) {
	for name, o := range map[string]audit.Options{"usually": {}, "all": {All: true}, "since": {From: noon.Add(-2 * time.Hour)}, "little memory": {Room: 7, Dir: t.TempDir()}} {
		r := report(t, clean(), o)
		if len(r.Gaps) > 0 || len(r.Notes) > 0 {
			t.Errorf("%s: got %+v, %v, want nothing", name, r.Gaps, r.Notes)
		}
		var ended, waiting, before int64
		for _, p := range r.Partitions {
			ended, waiting, before = ended+p.Ended, waiting+p.Waiting, before+p.Before
		}
		if ended != 20+20+19+8 || waiting != 4+4+3 || before != 0 {
			t.Errorf("%s: got %d ended, %d waiting, %d before, want 67, 11 and none", name, ended, waiting, before)
		}
		if r.Receipts != int64(len(clean().Receipts)) || r.Imports != 3 || r.Keys == 0 || r.Repeated == 0 {
			t.Errorf("%s: got %d receipts, %d imports, %d keys, %d repeated", name, r.Receipts, r.Imports, r.Keys, r.Repeated)
		}
	}
}

func TestEachPlantIsFound(t *testing.T) {
	if n := len(Plants()); n < 20 {
		t.Errorf("got %d plants, want 20 at least", n)
	}
	for _, plant := range Plants() {
		t.Run(plant.Name, func(t *testing.T) {
			w := clean()
			at, ok := plant.Alter(w)
			if !ok {
				t.Fatal("nothing to plant it in")
			}
			for _, room := range []int{0, 5} {
				r := report(t, w, audit.Options{All: plant.All, Room: room, Dir: t.TempDir()})
				if !r.Has(plant.Kind, at.Topic, at.Partition, at.Offset) {
					t.Errorf("room %d: got %+v, want %s at %v", room, r.Gaps, plant.Kind, at)
				}
				if first := r.First(); first != nil && (first.What == "" || first.Do == "") {
					t.Errorf("got %+v, want what is missing and what to do", first)
				}
			}
		})
	}
}

// What says nothing against the sink is no gap.
func TestWhatIsNoGap(t *testing.T) {
	moved := func(r *ack.Routes, from int64) {
		r.First, r.Changed, r.Epochs = false, crashed.UnixMilli(), []ack.Epoch{{Fingerprint: 43, From: from}}
	}
	for name, alter := range map[string]func(w *World){
		"slots were counted on another topic before": func(w *World) {
			home, former := w.partition("customers", 0).Commits[audit.Batch], w.partition("visits", 0).Commits[audit.Batch]
			var used []ack.Slots
			ledger(home, home.Offset, func(l *ack.Ledger) { used, l.Slots = l.Slots, nil })
			ledger(former, former.Offset, func(l *ack.Ledger) { l.Slots = used })
			w.Read = w.Read.Add(2 * time.Minute)
		},
		"receipts began later than the topic": func(w *World) {
			for i := range w.Partitions {
				for _, c := range w.Partitions[i].Commits {
					if c != nil {
						ledger(c, c.Offset, func(l *ack.Ledger) { l.Routes.Changed = firstTry.Add(-time.Hour).UnixMilli() })
					}
				}
			}
			w.Receipts = slices.DeleteFunc(w.Receipts, func(r Receipt) bool { return r.Offset < 8 })
		},
		"both lanes ended a part while routes changed": func(w *World) {
			p := w.partition("customers", 0)
			for _, c := range p.Commits {
				ledger(c, c.Offset, func(l *ack.Ledger) { moved(&l.Routes, 9) })
			}
			r := *w.find(func(r *Receipt) bool { return called(r) && r.Topic == "customers" && r.Offset == 3 })
			r.Lane, r.Outcome, r.Execution, r.Row, r.Assigned, r.Ended, r.Parts = "batch", "imported", "1001", "loaded", crashed, crashed.Add(time.Second), 2
			w.add(r)
		},
		"a record was on its way while routes changed": func(w *World) {
			p := w.partition("customers", 0)
			ledger(p.Commits[audit.Batch], 20, func(l *ack.Ledger) { moved(&l.Routes, 4) })
			ledger(p.Commits[audit.Immediate], 24, func(l *ack.Ledger) { moved(&l.Routes, 12) })
			w.remove(Receipt{Topic: "customers", Offset: 6})
			w.Records["customers[0]"][6].Written = crashed.Add(time.Minute).UnixMilli()
		},
		"a crash was a moment ago, and of a key not all calls were repeated yet": func(w *World) {
			p := w.partition("orders", 0)
			ledger(p.Commits[audit.Immediate], 12, func(l *ack.Ledger) { l.Done = nil })
			for _, r := range w.of(&Receipt{Topic: "orders", Offset: 15}) {
				c := *r
				c.Assigned, c.Ended = crashed, crashed.Add(time.Second)
				w.add(c)
			}
		},
		"a roll-out took the routes from one lane to the other, and its old members went on meanwhile": func(w *World) { w.left() },
		"the newer row of a key was in error": func(w *World) {
			_, n := w.pair(imported)
			n.Outcome, n.Row, n.Execution, n.Started = "dead_letter", "error", "1002", time.UnixMilli(0)
			w.letter(n, n.Offset, "batch")
		},
		"the dead letter of a row was replayed by a call, and came back": func(w *World) {
			r := w.find(imported)
			w.letter(r, r.Offset, "immediate")
			l := &w.Letters[len(w.Letters)-1]
			l.Headers = append(l.Headers, audit.Header{Key: "feedsink.replay.attempts", Value: []byte("1")})
		},
		"each lane has found no schema": func(w *World) {
			r := Receipt{Topic: "customers", Offset: 3, Parts: 1, Lane: "batch", Op: "none", Outcome: "dead_letter", Row: "none", Written: noon, Assigned: firstTry, Started: time.UnixMilli(0), Ended: crashed}
			w.remove(r)
			w.letter(&r, 3, "batch")
			w.add(r)
			r.Lane = "immediate"
			w.letter(&r, 3, "immediate")
			w.add(r)
		},
		"the log has been compacted": func(w *World) {
			p := w.partition("orders", 0)
			p.Compacted = true
			w.Records["orders[0]"] = slices.DeleteFunc(w.Records["orders[0]"], func(r Record) bool { return r.Offset%2 == 0 })
		},
		"retention has taken what had ended": func(w *World) {
			p := w.partition("orders", 0)
			p.Start = 11
			w.Records["orders[0]"] = slices.DeleteFunc(w.Records["orders[0]"], func(r Record) bool { return r.Offset < 11 })
		},
		"retention has taken what an import covers": func(w *World) {
			p := w.partition("customers", 1)
			p.Start = 23
			w.Records["customers[1]"] = slices.DeleteFunc(w.Records["customers[1]"], func(r Record) bool { return r.Offset < 23 })
		},
		"the batch lane has committed nothing yet": func(w *World) {
			w.partition("customers", 0).Commits[audit.Batch] = nil
			w.partition("customers", 1).Commits[audit.Batch] = nil
			w.partition("visits", 0).Commits[audit.Batch] = nil
			w.Receipts = slices.DeleteFunc(w.Receipts, func(r Receipt) bool { return r.Lane == "batch" })
		},
		"another deployment has dead letters": func(w *World) {
			w.Connector = "another"
			w.letter(w.find(called), 4711, "batch")
			w.Connector = "sink"
		},
		"a member's clock was behind that of the one before": func(w *World) { // and nothing lies late in the topic
			o, n := w.pair(called)
			o.Assigned, n.Assigned = crashed, firstTry
		},
		"what a member wrote that had lost the partition lies late": func(w *World) {
			o, n := w.pair(called)
			n.Assigned, n.Ended = crashed, crashed.Add(time.Second)
			late := *o
			w.remove(late)
			w.add(late)
		},
	} {
		w := clean()
		alter(w)
		if r := report(t, w, audit.Options{}); len(r.Gaps) > 0 {
			t.Errorf("%s: got %+v, want no gap", name, r.Gaps)
		}
	}
}

// left is visits, whose former routes led to the immediate lane. It has written up to offset 6,
// and committed 4.
func (w *World) left() *audit.Partition {
	p := w.partition("visits", 0)
	ledger(p.Commits[audit.Batch], 8, func(l *ack.Ledger) {
		l.Routes.Changed, l.Routes.Epochs = firstTry.UnixMilli(), []ack.Epoch{{Fingerprint: 43, From: 2}}
	})
	p.Commits[audit.Immediate] = commit(4, false, func(l *ack.Ledger) { l.Routes.Changed = firstTry.Add(-time.Hour).UnixMilli() })
	for offset := range int64(6) {
		r := w.receipt("visits", 0, offset, firstTry.Add(-time.Hour))
		r.Parts = 1 + int32(offset%2)
		w.add(r)
	}
	return p
}

// A member that had the former file may be the last that took everything.
func TestLaneWithoutRoutesIsNotWaitedFor(t *testing.T) {
	w := clean()
	p := w.left()
	p.Lanes = []audit.Lane{audit.Batch}
	ledger(p.Commits[audit.Immediate], 6, func(l *ack.Ledger) { l.Routes.Changed = crashed.Add(time.Hour).UnixMilli() })
	r := report(t, w, audit.Options{})
	if i := slices.IndexFunc(r.Partitions, func(p audit.Judged) bool { return p.Topic == "visits" }); len(r.Gaps) > 0 || r.Partitions[i].Ended != 8 || r.Partitions[i].Waiting != 0 {
		t.Errorf("got %+v, %+v, want no gap and all of it ended", r.Gaps, r.Partitions[i])
	}
}

// Of a topic that is older than the receipts only --from finds what is missing.
func TestOnlyFromFindsWhatMayBeFromBeforeTheReceipts(t *testing.T) {
	w := clean()
	for i := range w.Partitions {
		for _, c := range w.Partitions[i].Commits {
			if c != nil {
				ledger(c, c.Offset, func(l *ack.Ledger) { l.Routes.First = false })
			}
		}
	}
	w.remove(Receipt{Topic: "orders", Offset: 2})
	r := report(t, w, audit.Options{})
	if len(r.Gaps) > 0 || r.Partitions[2].Before != 1 || r.Partitions[2].Since != firstTry {
		t.Errorf("got %+v and %+v, want no gap and one record that was not judged", r.Gaps, r.Partitions[2])
	}
	for name, o := range map[string]audit.Options{"begin": {All: true}, "a time": {From: noon.Add(-2 * time.Hour)}} {
		if r := report(t, w, o); !r.Has(audit.NoReceipt, "orders", 0, 2) || len(r.Gaps) != 1 {
			t.Errorf("--from %s: got %+v, want the record that has none", name, r.Gaps)
		}
	}
	if r := report(t, w, audit.Options{From: noon.Add(-time.Minute)}); len(r.Gaps) > 0 {
		t.Errorf("--from a time after the record was written: got %+v, want no gap", r.Gaps)
	}
}

// What the receipts topic has lost says nothing.
func TestReceiptsThatRetentionHasTakenAreNoGap(t *testing.T) {
	w := clean()
	w.remove(Receipt{Topic: "orders", Offset: 2})
	w.Records["orders[0]"][2].Written = noon.Add(time.Minute).UnixMilli()
	for gone, want := range map[time.Duration]int{-time.Hour: 1, 2 * time.Minute: 0} { // or some minutes later, as a receipt may lie late
		e := w.evidence()
		e.ReceiptsGone = noon.Add(gone)
		r, err := audit.Run(t.Context(), e, audit.Options{Schema: Schema(), Connector: "sink", Tables: w.Tables})
		if err != nil || len(r.Gaps) != want || r.Partitions[2].Before != int64(1-want) {
			t.Errorf("gone until %v: got %v, %+v, %+v, want %d gaps", gone, err, r.Gaps, r.Partitions[2], want)
		}
	}
}

// Nor do dead letters that the topic has lost.
func TestDeadLettersThatRetentionHasTakenAreNoGap(t *testing.T) {
	w := clean()
	w.Letters = nil
	for gone, want := range map[bool]int{true: 0, false: 2} {
		e := w.evidence()
		e.LettersGone = gone
		r, err := audit.Run(t.Context(), e, audit.Options{Schema: Schema(), Connector: "sink", Tables: w.Tables})
		if err != nil || len(r.Gaps) != want {
			t.Errorf("gone: %v: got %v, %+v, want %d gaps", gone, err, r.Gaps, want)
		}
	}
}

// The receipts of a topic of the same name that was there before count with --from no more.
func TestFromLeavesOutReceiptsOfBefore(t *testing.T) {
	w := clean()
	r := *w.find(called)
	r.Offset, r.Assigned, r.Ended = 4711, noon.Add(-48*time.Hour), noon.Add(-47*time.Hour)
	w.add(r)
	if r := report(t, w, audit.Options{}); len(r.Gaps) != 1 {
		t.Errorf("got %+v, want the receipt beyond the log's end", r.Gaps)
	}
	if r := report(t, w, audit.Options{From: noon.Add(-2 * time.Hour)}); len(r.Gaps) > 0 {
		t.Errorf("--from: got %+v, want no gap", r.Gaps)
	}
}
