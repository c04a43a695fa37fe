package spool

import (
	"slices"

	"github.com/feedsink/feedsink/schemas"
)

// At is the place of a record among those that files were made of.
type At struct {
	Partition int // its place among their partitions
	Offset    int64
	Of        any // that partition, compared as it is
}

func (a At) before(b At) bool {
	return a.Partition < b.Partition || a.Partition == b.Partition && a.Offset < b.Offset
}

// Trace is which writes of one key came to which of its rows, as fold makes them.
type Trace struct{ pieces []piece }

// piece is a row that writes from one place on came to.
type piece struct {
	op   schemas.Op
	from At
}

// Reset forgets the writes.
func (t *Trace) Reset() { t.pieces = t.pieces[:0] }

// Any reports whether there were writes.
func (t *Trace) Any() bool { return len(t.pieces) > 0 }

// Add takes the key's next write.
func (t *Trace) Add(op schemas.Op, at At) {
	pieces := t.pieces
	if len(pieces) == 0 {
		t.pieces = append(pieces, piece{op, at})
		return
	}
	newest := pieces[len(pieces)-1].op
	switch op {
	case schemas.Delete:
		t.pieces = append(pieces[:0], piece{op, pieces[0].from})
	case schemas.Upsert:
		switch {
		case pieces[0].op != schemas.Delete:
			t.pieces = append(pieces[:0], piece{op, pieces[0].from})
		case len(pieces) > 1:
			t.pieces = append(pieces[:1], piece{op, pieces[1].from})
		default:
			t.pieces = append(pieces, piece{op, at})
		}
	case schemas.Patch, schemas.Merge:
		if newest != schemas.Upsert && newest != schemas.Merge && newest != op {
			t.pieces = append(pieces, piece{op, at})
		}
	case schemas.Create:
		if !t.Has(schemas.Create) {
			t.pieces = append(pieces, piece{op, at})
		}
	}
}

// Has reports whether there is a row of the operation.
func (t *Trace) Has(op schemas.Op) bool {
	return slices.ContainsFunc(t.pieces, func(p piece) bool { return p.op == op })
}

// RowOf is the operation of the row that one of the writes, of op, came to; 0: it came
// before Reset.
func (t *Trace) RowOf(op schemas.Op, at At) schemas.Op {
	if op == schemas.Create && t.Has(schemas.Create) && !at.before(t.pieces[0].from) {
		return op // a second one shares the first one's fate
	}
	var row schemas.Op
	for _, p := range t.pieces {
		if at.before(p.from) {
			break
		}
		row = p.op
	}
	return row
}
