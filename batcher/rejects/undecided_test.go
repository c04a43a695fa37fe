package rejects

import (
	"slices"
	"testing"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/schemas"
)

// A patch that found nothing in the order of the log is decided about with the state that shows
// that. When the key is sent again for a newer write of the other lane, having been let go
// meanwhile, its state shows nothing of that: the key's other records are no dead letters for it.
func TestRowIsDecidedByTheStateThatShowsIt(t *testing.T) {
	var u Undecided
	decide := func(n reconcile.Newest) {
		n.Key, n.Shows = "o1", make([]reconcile.Ops, 1)
		u.Decide(n, nil, nil, func(op schemas.Op) contract.Import { return contract.Import{Op: op} })
	}
	idle := []reconcile.Span{{Ops: 1 << schemas.Patch, From: 7, To: 7}}
	decide(reconcile.Newest{Writes: []schemas.Write{{Op: schemas.Delete}}, Idle: idle, Whole: true})
	decide(reconcile.Newest{Writes: []schemas.Write{{Op: schemas.Patch}}})
	w := u.rows[conflicting{"o1", schemas.Patch}]
	if w == nil || !w.dead || len(w.idle) != 1 {
		t.Fatalf("got %+v, want the record of offset 7 alone to be a dead letter", w)
	}
	decide(reconcile.Newest{Writes: []schemas.Write{{Op: schemas.Delete}}, Whole: true})
	if w.dead {
		t.Error("got a dead letter, want none: a newer delete leaves nothing of it")
	}
}

// A key may have rows of one operation in several rounds of files. Those of each are named in the
// output files of their own import.
func TestRowsOfSeveralRoundsAreHeldTogether(t *testing.T) {
	var u Undecided
	var before []bool
	for _, file := range []string{"x.patch.csv", "x.patch.csv", "x.patch2.csv", "x.patch2.csv"} {
		before = append(before, u.Hold("o1", "bad", &contract.Import{Op: schemas.Patch, File: file}))
	}
	if want := []bool{false, true, false, true}; !slices.Equal(before, want) {
		t.Errorf("held before: got %v, want %v", before, want)
	}
	if w := u.rows[conflicting{"o1", schemas.Patch}]; w == nil || !w.rounds {
		t.Errorf("got %+v, want a row of any round", w)
	}
}

// A new owner cannot tell whether a row that a former one has loaded is in error: where the service
// refuses the key's newest state as a call, the records of its rows are dead letters that may be in the
// table, and the newest alone does not go as a row once more.
func TestRowsOfAFormerOwnerAreInErrorWhereTheServiceRefusesTheirState(t *testing.T) {
	var u Undecided
	n := reconcile.Newest{Key: "o1", Writes: make([]schemas.Write, 1), Shows: []reconcile.Ops{1 << schemas.Upsert}}
	refused := u.Decide(n, nil, refusal{}, func(op schemas.Op) contract.Import { return contract.Import{Op: op} })
	dead := u.End(&reconcile.Keys{})
	if !refused || len(dead) != 1 || dead[0].reason != "bad" || !dead[0].MayBeLoaded {
		t.Errorf("got %v, %+v, want the row's records to be dead letters for what the service says", refused, dead)
	}
}

type refusal struct{ contract.Failure }

func (refusal) Error() string  { return "400" }
func (refusal) Reason() string { return "bad" }
