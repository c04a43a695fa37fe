package batcher

import (
	"slices"

	"github.com/feedsink/feedsink/batcher/contest"
	"github.com/feedsink/feedsink/batcher/rowerror"
	"github.com/feedsink/feedsink/schemas"
)

// At is the place of a record among those that a generation was made of.
type At struct {
	Partition int // its place among the generation's partitions
	Offset    int64
}

func (a At) before(b At) bool {
	return a.Partition < b.Partition || a.Partition == b.Partition && a.Offset < b.Offset
}

// replay finds the records behind rows in error. The file of an import holds what
// a key's writes came to, so their records are read again twice: once to see which
// of them came to which row, once to say so. Memory follows the number of
// rows in error, not that of records.
type replay struct {
	op       schemas.Op // of the import
	rejected []*rejected
	rows     map[rowKey]*errorRow
}

// rowKey is a key of one mapping's table.
type rowKey struct{ mapping, key string }

// rejected is a row in error and what it may be a row of: where the output files
// of a bundle do not tell its mapping, the records do that have its key.
type rejected struct {
	rowerror.Row
	reason string
	of     []*errorRow
}

// errorRow is a row in error as a row of one mapping, and what the writes of its
// key came to, in the order of the log.
type errorRow struct {
	*rejected
	member int // the mapping's place among those of the import
	pieces []piece
	found  bool
	idle   []contest.Span // what its records are, where that is known; nil: what came to it
}

// found is the row whose records were found; nil: there are none.
func (r *rejected) found() *errorRow {
	for _, row := range r.of {
		if row.found {
			return row
		}
	}
	return nil
}

// piece is a row that writes from one place on came to.
type piece struct {
	op   schemas.Op
	from At
}

// reset forgets what was read.
func (r *replay) reset() {
	for _, row := range r.rows {
		row.pieces, row.found = row.pieces[:0], false
	}
}

// trace takes one write, as fold does.
func (r *replay) trace(mapping string, w *schemas.Write, at At) {
	row := r.rows[rowKey{mapping, w.Key}]
	if row == nil {
		return
	}
	row.found = true
	pieces := row.pieces
	if len(pieces) == 0 {
		row.pieces = append(pieces, piece{w.Op, at})
		return
	}
	into := pieces[len(pieces)-1].op
	switch w.Op {
	case schemas.Delete:
		row.pieces = append(pieces[:0], piece{w.Op, pieces[0].from})
	case schemas.Upsert:
		switch {
		case pieces[0].op != schemas.Delete:
			row.pieces = append(pieces[:0], piece{w.Op, pieces[0].from})
		case len(pieces) > 1:
			row.pieces = append(pieces[:1], piece{w.Op, pieces[1].from})
		default:
			row.pieces = append(pieces, piece{w.Op, at})
		}
	case schemas.Patch:
		if into != schemas.Upsert && into != schemas.Patch {
			row.pieces = append(pieces, piece{w.Op, at})
		}
	case schemas.Create:
		if row.of(schemas.Create) < 0 {
			row.pieces = append(pieces, piece{w.Op, at})
		}
	}
}

// of is the first piece of an operation; -1: there is none.
func (r *errorRow) of(op schemas.Op) int {
	for i := range r.pieces {
		if r.pieces[i].op == op {
			return i
		}
	}
	return -1
}

// reason is why the write's record is a dead letter; "": it is none. Where the
// rows came out in another way than the file says, which writes of the other lane
// can make them, all records of the key are: none is lost.
func (r *replay) reason(mapping string, w *schemas.Write, at At) string {
	row := r.rows[rowKey{mapping, w.Key}]
	if row == nil || !row.found {
		return ""
	}
	if row.idle != nil {
		if slices.ContainsFunc(row.idle, func(s contest.Span) bool { return w.Op == r.op && s.Covers(w.Op, at.Offset) }) {
			return row.reason
		}
		return ""
	}
	if row.of(r.op) < 0 {
		return row.reason
	}
	op := row.pieces[0].op
	for _, p := range row.pieces {
		if at.before(p.from) {
			break
		}
		op = p.op
	}
	if w.Op == schemas.Create && row.of(schemas.Create) >= 0 {
		op = schemas.Create // a second one shares the first one's fate
	}
	if op != r.op {
		return ""
	}
	return row.reason
}
