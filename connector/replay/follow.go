package replay

import (
	"slices"

	"github.com/feedsink/feedsink/schemas"
)

// follow is the newest state of a row where older was followed by w. replaced
// says that nothing of older shows in it.
//
// An upsert of a profile replaces it whole (operation 1). For table records the
// interface says that operation 4 updates the record: what an upsert does not
// name is kept. Nothing outlives a delete, and a create means that the row began
// anew; a delete that is older than anything else said of the row must not take
// that away.
func follow(older, w schemas.Write) (newest schemas.Write, replaced bool) {
	switch {
	case w.Op == schemas.Delete, w.Op == schemas.Create, older.Op == schemas.Delete,
		w.Op == schemas.Upsert && (!w.Table.Custom || schemas.Covers(w.Cells, older.Cells)),
		w.Op == schemas.Patch && older.Op == schemas.Patch && schemas.Covers(w.Cells, older.Cells):
		return w, true
	}
	newest = older
	newest.Cells = schemas.Overlay(slices.Clone(older.Cells), w.Cells)
	if w.Op == schemas.Upsert {
		newest.Op = schemas.Upsert // it makes the row where there is none
	}
	if w.ProfileID != "" {
		newest.ProfileID = w.ProfileID
	}
	return newest, false
}

// callable reports whether one call can write w: patch and delete of a profile
// need the service's id, and no call only creates one.
func callable(w *schemas.Write) bool {
	return w.Table.Custom || w.Op == schemas.Upsert || w.Op != schemas.Create && w.ProfileID != ""
}
