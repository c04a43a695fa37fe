package schemas

import "slices"

// Merge makes into the one call that leaves the table as into followed by w
// would, and reports whether there is one. Where there is none, into is
// untouched and w needs a call of its own.
//
// Nothing is merged across a create or a delete: whether those succeed depends
// on what was there before. A profile upsert replaces the whole profile
// (operation 1), so whatever waited before it is void. For table records the
// document does not say whether operation 4 keeps the properties it is not
// given; an upsert therefore replaces only what it names in full, which is right
// under both readings. Nor does it say whether a patch of the data collection keeps
// the members that it is not given; such a patch is merged only if it is given all.
func Merge(into, w *Write) bool {
	if !mergeable(into.Op) || !mergeable(w.Op) {
		return false
	}
	if into.ProfileID != "" && w.ProfileID != "" && into.ProfileID != w.ProfileID {
		return false // one key, but the service's ids say two profiles
	}
	switch {
	case w.Op == Patch && !CoversConsent(w.Cells, into.Cells):
		return false
	case w.Op == Patch:
		into.Cells = Overlay(into.Cells, w.Cells)
	case w.Table.Custom && !Covers(w.Cells, into.Cells):
		return false
	default:
		into.Op = Upsert
		into.Cells = w.Cells
	}
	if w.ProfileID != "" {
		into.ProfileID = w.ProfileID
	}
	return true
}

func mergeable(op Op) bool { return op == Upsert || op == Patch }

// Overlay sets the newer cells over the older. The data collection is one
// statement about one consent, so the newest takes its place as a whole.
func Overlay(older, newer []Cell) []Cell {
	isConsent := func(c Cell) bool { return c.Section == DataCollection }
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

// CoversConsent reports whether newer says nothing of the data collection, or names
// every member of it that older names.
func CoversConsent(newer, older []Cell) bool {
	isConsent := func(c Cell) bool { return c.Section == DataCollection }
	return !slices.ContainsFunc(newer, isConsent) ||
		!slices.ContainsFunc(older, func(c Cell) bool { return isConsent(c) && find(newer, c) < 0 })
}

// Covers reports whether newer names every cell that older names.
func Covers(newer, older []Cell) bool {
	for _, c := range older {
		if find(newer, c) < 0 {
			return false
		}
	}
	return true
}

// find is the index of the cell of the same section and name, or -1.
func find(cells []Cell, c Cell) int {
	for i := range cells {
		if cells[i].Place == c.Place || *cells[i].Place == *c.Place {
			return i
		}
	}
	return -1
}
