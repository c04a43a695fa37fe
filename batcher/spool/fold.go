package spool

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"sync"

	"github.com/feedsink/feedsink/schemas"
)

// fold reduces the entries of one section to the rows that are left of them:
// per key at most one row of each operation, in the order in which the files of
// the operations are loaded.
//
// What an entry does to the rows its key has so far:
//
//	delete  drops them; the row is deleted by the file that goes first
//	upsert  replaces them, except a delete, which still goes first, and what it
//	        leaves in the table: see keeping
//	patch   merges into an upsert, patch or merge; after a delete or create it is a row of its own
//	merge   merges into an upsert or merge, or into a patch of an upsert; else it is a
//	        row of its own: alone, a patch of nothing creates nothing, and a merge does
//	create  is a row of its own; one that says the same as another one of the key stands for
//	        the same event and shares its fate, and the third different one shares the second one's:
//	        files are few, and it can be applied only if the first two are refused
//
// What a write of the other lane does to them, never leaving a row of its own:
//
//	drop    drops them all
//	merge   merges into an upsert, patch or merge
//
// A create behind a patch or merge would be loaded before it, and one behind another create
// together with it; it opens a second round of files behind the first.
type fold struct {
	keeping *keeping
	newest  bool     // a delete before an upsert that clears all is dropped, too
	lent    [][]byte // entries that stay where they are
	own     pages    // copied and merged entries, and garbage
	garbage int      // bytes of own that no row refers to
	applied spot     // the entry being applied, if it was lent; or unlent
	number  int64    // of the entry being applied, as it is given to each
	at      recordAt // of its record; a Trace's alone
	index   map[uint64]int32
	keys    []foldedKey
	rows    []foldedRow
}

type foldedKey struct {
	collides    int32 // next key with the same hash, or none
	first, last int32 // rows
}

type foldedRow struct {
	entry  spot // its page is one of own, or the complement of one of lent
	number int64
	from   recordAt // of the first of the writes that came to it and to what it has replaced
	next   int32
	rank   uint16 // len(order) × round + place of the operation in a round; or void
}

// several is the number of a row that no single entry says.
const several = -1

// Operations of entries beside those of writes: what the other lane's do.
const (
	dropRows schemas.Op = 100 + iota
	mergeRow
)

// void is the rank of the one row that a key without rows keeps for its name.
const void = ^uint16(0)

const none = int32(-1)

// order is the sequence in which a round's files are loaded.
var order = [...]schemas.Op{schemas.Delete, schemas.Upsert, schemas.Create, schemas.Patch, schemas.Merge}

var place = [...]uint16{schemas.Delete: 0, schemas.Upsert: 1, schemas.Create: 2, schemas.Patch: 3, schemas.Merge: 4}

func rankOp(rank uint16) schemas.Op { return order[rank%uint16(len(order))] }

// find is the key of an entry; nil: it is not there.
func (f *fold) find(entry []byte) *foldedKey {
	k, ok := f.index[binary.LittleEndian.Uint64(entry[entryHash:])]
	if !ok {
		return nil
	}
	return f.among(k, entry)
}

// among is the entry's key among those with the same hash; nil: it is not there.
func (f *fold) among(k int32, entry []byte) *foldedKey {
	cell, _ := cutBytes(entry[entryHead:])
	for ; k != none; k = f.keys[k].collides {
		other, _ := cutBytes(f.entry(f.keys[k].first)[entryHead:])
		if bytes.Equal(cell, other) {
			return &f.keys[k]
		}
	}
	return nil
}

// key finds or adds the key of an entry.
func (f *fold) key(entry []byte) *foldedKey {
	hash := binary.LittleEndian.Uint64(entry[entryHash:])
	head, ok := f.index[hash]
	if !ok {
		head = none
	}
	if k := f.among(head, entry); k != nil {
		return k
	}
	f.index[hash] = int32(len(f.keys))
	f.keys = append(f.keys, foldedKey{collides: head, first: none, last: none})
	return &f.keys[len(f.keys)-1]
}

func (f *fold) apply(entry []byte) {
	op := schemas.Op(entry[entryOp])
	if op == dropRows || op == mergeRow {
		f.overrule(entry, op)
		return
	}
	k := f.key(entry)
	if k.first != none && f.rows[k.first].rank == void {
		f.discard(k, k.first)
	}
	if k.first == none {
		f.push(k, entry, op)
		return
	}
	switch op {
	case schemas.Delete:
		f.supersede(k, k.first, entry, op)
	case schemas.Upsert:
		f.replace(k, entry)
	case schemas.Patch, schemas.Merge:
		if f.takes(k, entry, op) {
			f.merge(k, entry)
		} else {
			f.push(k, entry, op)
		}
	case schemas.Create:
		if !f.shares(k, entry) {
			f.push(k, entry, op)
		}
	}
}

// shares reports whether a create is no row of its own.
func (f *fold) shares(k *foldedKey, entry []byte) bool {
	creates := 0
	for r := k.first; r != none; r = f.rows[r].next {
		if rankOp(f.rows[r].rank) != schemas.Create {
			continue
		}
		if creates++; creates == mostCreates || bytes.Equal(f.entry(r), entry) {
			return true
		}
	}
	return false
}

// mostCreates is how many rows of creates a key may have.
const mostCreates = 2

// takes reports whether a patch or merge goes into the key's last row.
func (f *fold) takes(k *foldedKey, entry []byte, op schemas.Op) bool {
	switch into := rankOp(f.rows[k.last].rank); into {
	case schemas.Upsert:
		return !f.keeping.clearsKept(entry)
	case schemas.Merge:
		return true
	case schemas.Patch:
		before := f.before(k, k.last)
		return op == schemas.Patch || before != none && rankOp(f.rows[before].rank) == schemas.Upsert
	}
	return false
}

// before is the key's row before one of its rows, or none.
func (f *fold) before(k *foldedKey, row int32) int32 {
	before := none
	for r := k.first; r != row; r = f.rows[r].next {
		before = r
	}
	return before
}

// replace puts an upsert in the place of the key's rows, as far as it leaves
// nothing of them in the table.
func (f *fold) replace(k *foldedKey, entry []byte) {
	if f.keeping != nil && f.carried(k, entry) {
		return
	}
	from := k.first
	if rankOp(f.rows[from].rank) == schemas.Delete && (!f.newest || f.keeping != nil) {
		from = f.rows[from].next
	}
	if from != none && f.replaced(k, from, entry) {
		f.supersede(k, from, entry, schemas.Upsert)
		return
	}
	f.push(k, entry, schemas.Upsert)
}

// supersede puts a row in the place of the key's rows from one of them on.
func (f *fold) supersede(k *foldedKey, from int32, entry []byte, op schemas.Op) {
	since := f.rows[from].from
	f.discard(k, from)
	f.push(k, entry, op)
	f.rows[k.last].from = since
}

// merge merges an entry into the key's last row.
func (f *fold) merge(k *foldedKey, entry []byte) {
	merged := f.own.add(appendMerged(f.own.tail(), f.entry(k.last), entry))
	f.drop(k.last)
	f.rows[k.last].entry, f.rows[k.last].number = merged, several
}

// overrule applies what a write of the other lane does to the key's rows, if
// there are any.
func (f *fold) overrule(entry []byte, op schemas.Op) {
	k := f.find(entry)
	if k == nil || f.rows[k.first].rank == void {
		return
	}
	if op == dropRows {
		f.discard(k, k.first)
		k.first, k.last = int32(len(f.rows)), int32(len(f.rows))
		f.rows = append(f.rows, foldedRow{entry: f.keep(entry), number: several, next: none, rank: void})
		return
	}
	if into := rankOp(f.rows[k.last].rank); into == schemas.Upsert || into.Partial() {
		f.merge(k, entry)
	}
}

// discard drops the key's rows from one of them on: its first, or the one
// behind a leading delete.
func (f *fold) discard(k *foldedKey, from int32) {
	for r := from; r != none; r = f.rows[r].next {
		f.drop(r)
	}
	if from == k.first {
		k.first, k.last = none, none
		return
	}
	k.last = k.first
	f.rows[k.first].next = none
}

// push adds a row behind the key's last one, in the next round if its operation does not
// come later in a round.
func (f *fold) push(k *foldedKey, entry []byte, op schemas.Op) {
	const round = uint16(len(order))
	rank, added := place[op], int32(len(f.rows))
	if k.last == none {
		k.first = added
	} else {
		last := &f.rows[k.last]
		rank += last.rank / round * round
		if rank <= last.rank {
			rank += round
		}
		last.next = added
	}
	k.last = added
	f.rows = append(f.rows, foldedRow{entry: f.keep(entry), number: f.number, from: f.at, next: none, rank: rank})
}

// each calls emit for every row that is left, keys in the order of their first
// appearance. number is that of the entry which says all of the row, or several.
func (f *fold) each(emit func(rank int, entry []byte, number int64) error) error {
	for k := range f.keys {
		for r := f.keys[k].first; r != none; r = f.rows[r].next {
			row := &f.rows[r]
			if row.rank == void {
				continue
			}
			if err := emit(int(row.rank), f.entry(r), row.number); err != nil {
				return err
			}
		}
	}
	return nil
}

// returns reports whether some key is deleted and written again.
func (f *fold) returns() bool {
	return slices.ContainsFunc(f.keys, func(k foldedKey) bool {
		return k.first != k.last && rankOp(f.rows[k.first].rank) == schemas.Delete
	})
}

var unlent = spot{page: math.MaxInt32}

// folds have done their work; their memory is for the next file.
var folds = sync.Pool{New: func() any { return &fold{index: make(map[uint64]int32)} }}

// usualKeys bounds the memory of a fold that is kept for the next file: it takes
// some 60 bytes for a key.
const usualKeys = 1 << 15

// newFold is a fold of nothing, until it is freed.
func newFold(r *Rows) *fold {
	f := folds.Get().(*fold) //nolint:forcetypeassert // its New
	f.keeping, f.newest = r.keeping, false
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
// no more memory than one that is written once. first is the number of the first.
func (f *fold) add(entries []byte, stay bool, first int64) {
	f.applied, f.number = unlent, first
	if stay {
		f.lent = append(f.lent, entries)
		f.applied = spot{page: ^int32(len(f.lent) - 1)}
	}
	for entry := range entriesOf(entries) {
		f.apply(entry)
		if stay {
			f.applied.at += uint32(len(entry))
		}
		f.number++
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
			row := f.rows[r]
			row.next = int32(len(rows)) + 1
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
