package batcher

import (
	"math"
	"sync"
)

var unlent = spot{page: math.MaxInt32}

// folds have done their work; their memory is for the next file.
var folds = sync.Pool{New: func() any { return &fold{index: make(map[uint64]int32)} }}

// usualKeys bounds the memory of a fold that is kept for the next file: it takes
// some 60 bytes for a key.
const usualKeys = 1 << 15

// newFold is a fold of nothing, until it is freed.
func newFold(r *rows) *fold {
	f := folds.Get().(*fold) //nolint:forcetypeassert // its New
	f.keeping = r.keeping
	return f
}

func (f *fold) free() {
	if cap(f.keys) > usualKeys || cap(f.rows) > 2*usualKeys {
		f.own.free()
		return
	}
	f.reset()
	folds.Put(f)
}

// reset forgets the section before, not its memory.
func (f *fold) reset() {
	f.own.free()
	clear(f.index)
	clear(f.lent)
	f.lent, f.keys, f.rows, f.garbage = f.lent[:0], f.keys[:0], f.rows[:0], 0
}

// add folds whole entries behind those before. Those that stay until the next
// reset are left where they are. What it keeps of others it copies, and it keeps
// at most twice what is left of them: a key that is written a million times takes
// no more memory than one that is written once.
func (f *fold) add(entries []byte, stay bool) {
	f.applied = unlent
	if stay {
		f.lent = append(f.lent, entries)
		f.applied = spot{page: ^int32(len(f.lent) - 1)}
	}
	for entry := range entriesOf(entries) {
		f.apply(entry)
		if stay {
			f.applied.at += uint32(len(entry))
		}
	}
	if f.garbage > f.own.size/2 && f.garbage > 1<<16 {
		f.compact()
	}
}

// keep is where an entry, the one being applied, is for a row.
func (f *fold) keep(entry []byte) spot {
	if f.applied == unlent {
		return f.own.add(entry)
	}
	return f.applied
}

// entry is the entry of a row.
func (f *fold) entry(row int32) []byte {
	at := f.rows[row].entry
	if at.page < 0 {
		return firstEntry(f.lent[^at.page][at.at:])
	}
	return f.own.entry(at)
}

// drop leaves a row without its entry.
func (f *fold) drop(row int32) {
	if at := f.rows[row].entry; at.page >= 0 {
		f.garbage += len(f.own.entry(at))
	}
}

// compact rewrites own and rows without what no key refers to.
func (f *fold) compact() {
	var own pages
	rows := make([]foldedRow, 0, len(f.keys))
	for i := range f.keys {
		k := &f.keys[i]
		from := k.first
		k.first = int32(len(rows))
		for r := from; r != none; r = f.rows[r].next {
			row := foldedRow{entry: f.rows[r].entry, next: int32(len(rows)) + 1, rank: f.rows[r].rank}
			if row.entry.page >= 0 {
				row.entry = own.add(f.own.entry(row.entry))
			}
			rows = append(rows, row)
		}
		k.last = int32(len(rows)) - 1
		rows[k.last].next = none
	}
	f.own.free()
	f.own, f.rows, f.garbage = own, rows, 0
}
