package contest

import (
	"slices"

	"github.com/feedsink/feedsink/schemas"
)

// state is one followed key.
type state struct {
	// landed is what the key's writes come to, from the first of those that may
	// land in another order on, without the rows of the open file. Sent in their
	// order they leave the key as it should be. open is the same for the rows of
	// the open file and what came after them.
	landed, open []schemas.Write
	row, openRow *At // newest row among landed, and of the open file

	last  At  // newest write of the other lane
	older *At // newest write of the other lane that is older than openRow
	await *At // the same for row: only once it has landed the key can be sent

	doubt     bool // its file was sealed while await was not known to have landed
	overtaken bool // the open file holds a row older than a write of the other lane
	contested bool
	version   uint64 // counts the other lane's writes
	sent      uint64 // version last sent; 0: none
	sending   bool
	shares    []share
}

// share binds the confirmation of rows that were dropped to that of the write
// they were dropped for.
type share struct {
	fate *Fate
	at   At
}

func (s *state) release(known func(At) bool) {
	s.shares = slices.DeleteFunc(s.shares, func(sh share) bool {
		if !known(sh.at) {
			return false
		}
		sh.fate.waiting--
		return true
	})
}

// followed is the writes that leave a key as writes followed by w would, as few
// as can be: of a profile one, of a table record at most three.
func followed(writes []schemas.Write, w *schemas.Write) []schemas.Write {
	next := *w
	next.Cells = slices.Clone(w.Cells)
	if next.ProfileID == "" {
		for i := range writes {
			if writes[i].ProfileID != "" {
				next.ProfileID = writes[i].ProfileID
			}
		}
	}
	if len(writes) == 0 {
		return []schemas.Write{next}
	}
	newest := &writes[len(writes)-1]
	switch w.Op {
	case schemas.Delete:
		return []schemas.Write{next}
	case schemas.Upsert:
		if !w.Table.Custom {
			return []schemas.Write{next} // operation 1 replaces the whole profile
		}
		return upserted(writes, next)
	case schemas.Create:
		if newest.Op == schemas.Delete {
			return append(writes, next)
		}
		return writes // the key exists: a create changes nothing
	}
	if newest.Op == schemas.Delete || schemas.Merge(newest, &next) {
		return writes // a patch of what is not there changes nothing
	}
	return append(writes, next)
}

// upserted is followed for the upsert of a table record. The document does not
// say whether operation 4 keeps properties it is not given: what came before is
// kept, as one write, where the newest does not name all of it.
func upserted(writes []schemas.Write, w schemas.Write) []schemas.Write {
	keep := 0
	if writes[0].Op == schemas.Delete {
		keep = 1
	}
	older := slices.Clone(writes[:keep])
	if len(writes) > keep {
		base := writes[keep]
		base.Op = schemas.Upsert
		for _, next := range writes[keep+1:] {
			base.Cells = schemas.Overlay(base.Cells, next.Cells)
		}
		if !schemas.Covers(w.Cells, base.Cells) {
			older = append(older, base)
		}
	}
	return append(older, w)
}
