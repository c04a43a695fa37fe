package spool

import (
	"encoding/binary"

	"github.com/feedsink/feedsink/schemas"
)

// At is the place of a record among those that files were made of.
type At struct {
	Partition int // its place among their partitions
	Offset    int64
	Of        any // that partition, compared as it is
}

// recordAt is what of an At tells the order.
type recordAt struct {
	partition int32
	offset    int64
}

func (a recordAt) before(b recordAt) bool {
	return a.partition < b.partition || a.partition == b.partition && a.offset < b.offset
}

// Rank is which of a key's rows one is: that of an operation, in a round of files.
type Rank struct {
	Op    schemas.Op
	Round int // from 0 on
}

// Trace is which rows the writes of some keys came to: it folds them as a file does. Its
// memory follows the number of keys and not that of writes.
type Trace struct {
	rows  *Rows
	fold  *fold
	entry []byte // room for one
}

// NewTrace is one of no writes.
func NewTrace(rows *Rows) *Trace { return &Trace{rows: rows, fold: newFold(rows)} }

// Reset forgets the writes.
func (t *Trace) Reset() { t.fold.reset() }

// Add takes the next write, one that a row can say.
func (t *Trace) Add(w *schemas.Write, at At) {
	if t.encode(w) {
		t.fold.at = recordAt{int32(at.Partition), at.Offset}
		t.fold.add(t.entry, false, several)
	}
}

// Drop takes a write of the other lane that has dropped the key's rows from an open file.
func (t *Trace) Drop(w *schemas.Write) {
	if t.encode(&schemas.Write{Op: schemas.Delete, Key: w.Key}) {
		t.entry[entryOp] = byte(dropRows)
		t.fold.add(t.entry, false, several)
	}
}

// Came reports whether one of the writes came to a row that is meant, and whether its key has
// any such row.
func (t *Trace) Came(w *schemas.Write, at At, meant func(Rank) bool) (came, any bool) {
	if !t.encode(w) {
		return false, false
	}
	k := t.fold.find(t.entry)
	if k == nil {
		return false, false
	}
	own := t.fold.rowOf(k, t.entry, recordAt{int32(at.Partition), at.Offset})
	for r := k.first; r != none; r = t.fold.rows[r].next {
		rank := t.fold.rows[r].rank
		if rank != void && meant(Rank{rankOp(rank), int(rank) / len(order)}) {
			came, any = came || r == own, true
		}
	}
	return came, any
}

// encode makes the entry of w, without the cells where the rows do not depend on them.
func (t *Trace) encode(w *schemas.Write) bool {
	entry, err := t.rows.AppendEntry(t.entry[:0], w)
	if err != nil {
		return false
	}
	if t.rows.keeping == nil {
		_, cells := cutBytes(entry[entryHead:])
		entry = entry[:len(entry)-len(cells)]
		binary.LittleEndian.PutUint32(entry, uint32(len(entry)))
	}
	t.entry = entry
	return true
}

// rowOf is the row that one of the key's writes came to, or none. It is none that only newer
// writes came to; of the others it is the last, but an upsert may have come to the last one
// of upserts, with a patch behind it, and a create to an older one of creates.
func (f *fold) rowOf(k *foldedKey, entry []byte, at recordAt) int32 {
	op := schemas.Op(entry[entryOp])
	last, same := none, none
	for r := k.first; r != none && !at.before(f.rows[r].from); r = f.rows[r].next {
		if f.rows[r].rank == void {
			continue
		}
		if last = r; rankOp(f.rows[r].rank) == op && !op.Partial() {
			same = r
		}
	}
	if same != none {
		return same
	}
	return last
}
