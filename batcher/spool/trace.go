package spool

import (
	"bytes"
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

// Came is what a write has to do with rows.
type Came struct {
	Any   bool // its key has a row that is meant
	To    bool // the write came to one
	Third bool // as it is a create behind two others of its key: it is applied by none of their rows, and came to both
}

// Came tells what one of the writes has to do with the rows that are meant.
func (t *Trace) Came(w *schemas.Write, at At, meant func(Rank) bool) (c Came) {
	if !t.encode(w) {
		return c
	}
	k := t.fold.find(t.entry)
	if k == nil {
		return c
	}
	own, third := t.fold.rowOf(k, t.entry, recordAt{int32(at.Partition), at.Offset})
	for r := k.first; r != none; r = t.fold.rows[r].next {
		row := &t.fold.rows[r]
		if row.rank == void || !meant(Rank{rankOp(row.rank), int(row.rank) / len(order)}) {
			continue
		}
		c.Any = true
		switch {
		case third && rankOp(row.rank) == schemas.Create:
			c.To, c.Third = true, true
		case r == own:
			c.To = true
		}
	}
	return c
}

// encode makes the entry of w, without the cells where the rows do not depend on them.
func (t *Trace) encode(w *schemas.Write) bool {
	entry, err := t.rows.AppendEntry(t.entry[:0], w)
	if err != nil {
		return false
	}
	if t.rows.keeping == nil && w.Op != schemas.Create {
		_, cells := cutBytes(entry[entryHead:])
		entry = entry[:len(entry)-len(cells)]
		binary.LittleEndian.PutUint32(entry, uint32(len(entry)))
	}
	t.entry = entry
	return true
}

// rowOf is the row that one of the key's writes came to, or none. It is none that only newer
// writes came to; of the others it is the last, but an upsert may have come to the last one
// of upserts, with a patch behind it, and a create to that of the create that it repeats. It is
// the third if it is another one than the key's creates before it.
func (f *fold) rowOf(k *foldedKey, entry []byte, at recordAt) (row int32, third bool) {
	op := schemas.Op(entry[entryOp])
	last, same, creates := none, none, 0
	for r := k.first; r != none && !at.before(f.rows[r].from); r = f.rows[r].next {
		if f.rows[r].rank == void {
			continue
		}
		last = r
		switch of := rankOp(f.rows[r].rank); {
		case of != op:
		case op == schemas.Upsert:
			same = r
		case op == schemas.Create:
			if bytes.Equal(f.entry(r), entry) {
				return r, false
			}
			creates++
		}
	}
	if same != none {
		return same, false
	}
	return last, creates == mostCreates
}
