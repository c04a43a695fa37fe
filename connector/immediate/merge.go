package immediate

import (
	"slices"

	"github.com/feedsink/feedsink/schemas"
)

// merge makes into the one call that leaves the table as into followed by w
// would, and reports whether there is one. Where there is none, into is
// untouched and w needs a call of its own.
//
// Nothing is merged across a create or a delete: whether those succeed depends
// on what was there before. A profile upsert replaces the whole profile
// (operation 1), so whatever waited before it is void. For table records the
// document does not say whether operation 4 keeps the properties it is not
// given; an upsert therefore replaces only what it names in full, which is right
// under both readings.
func merge(into, w *schemas.Write) bool {
	if !mergeable(into.Op) || !mergeable(w.Op) {
		return false
	}
	if into.ProfileID != "" && w.ProfileID != "" && into.ProfileID != w.ProfileID {
		return false // one key, but the service's ids say two profiles
	}
	switch {
	case w.Op == schemas.Patch:
		into.Cells = overlay(into.Cells, w.Cells)
	case w.Table.Custom && !covers(w.Cells, into.Cells):
		return false
	default:
		into.Op = schemas.Upsert
		into.Cells = w.Cells
	}
	if w.ProfileID != "" {
		into.ProfileID = w.ProfileID
	}
	return true
}

func mergeable(op schemas.Op) bool { return op == schemas.Upsert || op == schemas.Patch }

// overlay sets the newer cells over the older. The data collection is one
// statement about one consent, so the newest takes its place as a whole.
func overlay(older, newer []schemas.Cell) []schemas.Cell {
	isConsent := func(c schemas.Cell) bool { return c.Section == schemas.DataCollection }
	if slices.ContainsFunc(newer, isConsent) {
		older = slices.DeleteFunc(older, isConsent)
	}
	for _, c := range newer {
		if i := find(older, c); i >= 0 {
			older[i].Value = c.Value
		} else {
			older = append(older, c)
		}
	}
	return older
}

// covers reports whether newer names every cell that older names.
func covers(newer, older []schemas.Cell) bool {
	for _, c := range older {
		if find(newer, c) < 0 {
			return false
		}
	}
	return true
}

// find is the index of the cell of the same section and name, or -1.
func find(cells []schemas.Cell, c schemas.Cell) int {
	for i := range cells {
		if cells[i].Name == c.Name && cells[i].Section == c.Section {
			return i
		}
	}
	return -1
}
