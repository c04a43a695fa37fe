package contest

import (
	"slices"

	"github.com/feedsink/feedsink/schemas"
)

// entry is one write of a key.
type entry struct {
	schemas.Write
	row   bool // of a file; else a call of the other lane
	open  bool // its file is open
	at    At
	after *At // a row: newest write of the other lane before it
	bytes int64
}

// ownEntry is a write with memory of its own: nothing of its record is kept.
func ownEntry(w *schemas.Write, at At) entry {
	e := entry{Write: *w, at: at}
	e.own()
	return e
}

func (e *entry) own() {
	e.Write, e.bytes = e.Own()
	e.bytes += entryBytes
}

// reduce leaves as few writes as leave the key as all of them would: of a
// profile one, of a table record at most three.
func reduce(writes []entry) []entry {
	var all []entry
	for _, e := range writes {
		e.Cells = slices.Clone(e.Cells)
		if n := len(all); n > 0 && e.ProfileID == "" {
			e.ProfileID = all[n-1].ProfileID
		}
		all = followed(all, e)
	}
	return all
}

// followed is reduced writes followed by one more.
func followed(all []entry, e entry) []entry {
	if len(all) == 0 {
		return []entry{e}
	}
	newest := &all[len(all)-1]
	switch {
	case e.Op == schemas.Delete, e.Op == schemas.Upsert && !e.Table.Custom:
		return []entry{e} // operation 1 replaces the whole profile
	case e.Op == schemas.Create:
		if newest.Op == schemas.Delete {
			return append(all, e)
		}
		return all // the key exists: a create changes nothing
	case newest.Op == schemas.Delete:
		if e.Op == schemas.Patch {
			return all // there is nothing to patch
		}
		return append(all, e)
	case newest.Op == schemas.Create:
		return append(all, e)
	case e.Op == schemas.Patch, e.row, schemas.Covers(e.Cells, newest.Cells):
		return overlaid(all, e)
	}
	// The upsert of a table record. The document does not say whether operation 4
	// keeps the properties that it is not given; so they are given before it.
	if n := len(all); n > 1 && all[n-2].Op == schemas.Upsert {
		all[n-2].Cells = schemas.Overlay(all[n-2].Cells, newest.Cells)
		return append(all[:n-1], e)
	}
	return append(all, e)
}

// overlaid sets a write's cells over those of the newest. A row keeps what its
// columns do not say, so that a patch stays one.
func overlaid(all []entry, e entry) []entry {
	newest := &all[len(all)-1]
	op, cells := newest.Op, schemas.Overlay(newest.Cells, e.Cells)
	if e.Op == schemas.Upsert && !e.row {
		op = schemas.Upsert
	}
	*newest = e
	newest.Op, newest.Cells = op, cells
	return all
}
