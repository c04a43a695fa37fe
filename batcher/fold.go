package batcher

import (
	"bytes"
	"encoding/binary"

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
//	patch   merges into an upsert or patch; after a delete or create it is a row of its own
//	create  is a row of its own; a second one of the same key stands for the
//	        same event and shares the first one's fate
//
// What a write of the other lane does to them, never leaving a row of its own:
//
//	drop    drops them all
//	merge   merges into an upsert or patch
//
// A create behind a patch would be loaded before it; it opens a second round of
// files behind the first.
type fold struct {
	keeping *keeping
	lent    [][]byte // entries that stay where they are
	own     pages    // copied and merged entries, and garbage
	garbage int      // bytes of own that no row refers to
	applied spot     // the entry being applied, if it was lent; or unlent
	index   map[uint64]int32
	keys    []foldedKey
	rows    []foldedRow
}

type foldedKey struct {
	collides    int32 // next key with the same hash, or none
	first, last int32 // rows
	creates     bool  // a create is among them
}

type foldedRow struct {
	entry spot // its page is one of own, or the complement of one of lent
	next  int32
	rank  uint16 // 4 × round + place of the operation in a round; or void
}

// Operations of entries beside those of writes: what the other lane's do.
const (
	dropRows schemas.Op = 100 + iota
	mergeRow
)

// void is the rank of the one row that a key without rows keeps for its name.
const void = ^uint16(0)

const none = int32(-1)

// order is the sequence in which a round's files are loaded.
var order = [...]schemas.Op{schemas.Delete, schemas.Upsert, schemas.Create, schemas.Patch}

var place = [...]uint16{schemas.Delete: 0, schemas.Upsert: 1, schemas.Create: 2, schemas.Patch: 3}

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
		f.discard(k, k.first)
		f.push(k, entry, op)
	case schemas.Upsert:
		f.replace(k, entry)
	case schemas.Patch:
		switch into := rankOp(f.rows[k.last].rank); {
		case into == schemas.Patch, into == schemas.Upsert && !f.keeping.clearsKept(entry):
			f.merge(k, entry)
		default:
			f.push(k, entry, op)
		}
	case schemas.Create:
		if !k.creates {
			f.push(k, entry, op)
		}
	}
}

// replace puts an upsert in the place of the key's rows, as far as it leaves
// nothing of them in the table.
func (f *fold) replace(k *foldedKey, entry []byte) {
	if f.keeping != nil && f.carried(k, entry) {
		return
	}
	from := k.first
	if rankOp(f.rows[from].rank) == schemas.Delete {
		from = f.rows[from].next
	}
	if f.replaced(k, from, entry) {
		f.discard(k, from)
	}
	f.push(k, entry, schemas.Upsert)
}

// merge merges an entry into the key's last row.
func (f *fold) merge(k *foldedKey, entry []byte) {
	merged := f.own.add(appendMerged(f.own.tail(), f.entry(k.last), entry))
	f.drop(k.last)
	f.rows[k.last].entry = merged
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
		f.rows = append(f.rows, foldedRow{entry: f.keep(entry), next: none, rank: void})
		return
	}
	if into := rankOp(f.rows[k.last].rank); into == schemas.Upsert || into == schemas.Patch {
		f.merge(k, entry)
	}
}

// discard drops the key's rows from one of them on: its first, or the one
// behind a leading delete.
func (f *fold) discard(k *foldedKey, from int32) {
	for r := from; r != none; r = f.rows[r].next {
		f.drop(r)
	}
	k.creates = false
	if from == k.first {
		k.first, k.last = none, none
		return
	}
	k.last = k.first
	f.rows[k.first].next = none
}

// push adds a row behind the key's last one, in the next round if its operation
// comes earlier in a round.
func (f *fold) push(k *foldedKey, entry []byte, op schemas.Op) {
	const round = uint16(len(order))
	rank, added := place[op], int32(len(f.rows))
	if k.last == none {
		k.first = added
	} else {
		last := &f.rows[k.last]
		rank += last.rank / round * round
		if rank < last.rank {
			rank += round
		}
		last.next = added
	}
	k.last = added
	k.creates = k.creates || op == schemas.Create
	f.rows = append(f.rows, foldedRow{entry: f.keep(entry), next: none, rank: rank})
}

// each calls emit for every row that is left, keys in the order of their first
// appearance.
func (f *fold) each(emit func(rank int, entry []byte) error) error {
	for k := range f.keys {
		for r := f.keys[k].first; r != none; r = f.rows[r].next {
			if f.rows[r].rank == void {
				continue
			}
			if err := emit(int(f.rows[r].rank), f.entry(r)); err != nil {
				return err
			}
		}
	}
	return nil
}
