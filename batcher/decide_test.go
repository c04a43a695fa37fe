package batcher

import (
	"testing"

	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/schemas"
)

// A patch that found nothing in the order of the log is decided about with the state that shows
// that. When the key is sent again for a newer write of the other lane, having been let go
// meanwhile, its state shows nothing of that: the key's other records are no dead letters for it.
func TestRowIsDecidedByTheStateThatShowsIt(t *testing.T) {
	q := &tableQueue{}
	r := &importRun{queue: q, generation: &generation{}, waiting: map[waitingKey]*waitingRow{}}
	r.generation.from.Part = 2
	rec := reconciliation{run: r, member: &member{}}
	idle := []reconcile.Span{{Ops: 1 << schemas.Patch, From: 7, To: 7}}
	rec.decide(reconcile.Newest{Key: "o1", Writes: []schemas.Write{{Op: schemas.Delete}}, Shows: make([]reconcile.Ops, 1), Idle: idle, Whole: true}, nil, nil)
	rec.decide(reconcile.Newest{Key: "o1", Writes: []schemas.Write{{Op: schemas.Patch}}, Shows: make([]reconcile.Ops, 1)}, nil, nil)
	w := r.waiting[waitingKey{0, "o1", schemas.Patch}]
	if w == nil || !w.dead || len(w.idle) != 1 {
		t.Fatalf("got %+v, want the record of offset 7 alone to be a dead letter", w)
	}
	rec.decide(reconcile.Newest{Key: "o1", Writes: []schemas.Write{{Op: schemas.Delete}}, Shows: make([]reconcile.Ops, 1), Whole: true}, nil, nil)
	if w.dead {
		t.Error("got a dead letter, want none: a newer delete leaves nothing of it")
	}
}
