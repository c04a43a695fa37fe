package schemas

import (
	"slices"
	"strings"
	"unsafe"
)

// Lane is the way a write takes to the service.
type Lane uint8

// The two lanes, one API call per write or a row of a file, and none: what is
// skipped is not written.
const (
	Immediate Lane = iota + 1
	Batch
	Skip
)

// Lanes are those that write.
var Lanes = []Lane{Immediate, Batch}

// Other is the other one of the two.
func (l Lane) Other() Lane {
	if l == Immediate {
		return Batch
	}
	return Immediate
}

// Group is the lane's consumer group of a connector with this kafka.group.
func (l Lane) Group(connector string) string { return connector + "-" + l.String() }

// Section is the part of a request body a cell belongs to.
type Section uint8

// The sections of a profile body, and the properties of a table record.
const (
	Attributes Section = iota + 1
	Subscriptions
	Segments
	DataCollection
	Properties
)

// Place is where in a write a value belongs: its section, and its technical name
// in the table.
type Place struct {
	Section Section
	Name    string
}

// Cell is one field of a write. Its Place is shared with the cells of other
// writes and never changed: a mapping has a few dozen places, and cells by the
// million, whose size is most of what a waiting write costs.
type Cell struct {
	*Place
	Value Value
}

// Table names the destination of a mapping.
type Table struct {
	Name   string
	Custom bool // a custom table; else a profile table
}

// Write is one intended change of one profile or table record. It owns its
// memory and refers to nothing of the record it came from.
type Write struct {
	Op        Op
	Table     Table
	Key       string // value of the unique-key attribute, or the business key
	ProfileID string // profiles: the service's id where known, needed by patch and delete calls
	Cells     []Cell
}

var laneNames = [...]string{Immediate: "immediate", Batch: "batch", Skip: "skip"}

// String is the lane's word in configuration, group names and metrics.
func (l Lane) String() string {
	if l < Immediate || l > Skip {
		return "unknown"
	}
	return laneNames[l]
}

// The kinds of tables, as Qualified writes them.
const (
	profilePrefix = "profile/"
	customPrefix  = "custom/"
)

// Qualified is the table's name with its kind, "profile/customers": a profile table
// and a custom table may have one name.
func (t Table) Qualified() string {
	if t.Custom {
		return customPrefix + t.Name
	}
	return profilePrefix + t.Name
}

// IsNamed reports whether a ledger's name of a table is this one's.
func (t Table) IsNamed(name string) bool {
	return name == t.Qualified() || name == t.Name // the latter by a former version
}

// ParseTable is the table of a qualified name; ok is false for any other name.
func ParseTable(qualified string) (t Table, ok bool) {
	if name, ok := strings.CutPrefix(qualified, profilePrefix); ok {
		return Table{Name: name}, true
	}
	if name, ok := strings.CutPrefix(qualified, customPrefix); ok {
		return Table{Name: name, Custom: true}, true
	}
	return Table{}, false
}

// MergeInto makes into the one call that leaves the table as into followed by w
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
// A patch of what is not there changes nothing, which a merge behind it would create:
// a merge therefore replaces only a patch that it names in full.
func MergeInto(into, w *Write) bool {
	if !mergeable(into.Op) || !mergeable(w.Op) {
		return false
	}
	if into.ProfileID != "" && w.ProfileID != "" && into.ProfileID != w.ProfileID {
		return false // one key, but the service's ids say two profiles
	}
	switch {
	case w.Op.Partial() && !CoversConsent(w.Cells, into.Cells),
		w.Op == Merge && into.Op == Patch && !Covers(w.Cells, into.Cells):
		return false
	case w.Op.Partial():
		if into.Op == Patch {
			into.Op = w.Op
		}
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

func mergeable(op Op) bool { return op == Upsert || op.Partial() }

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

// Voids reports whether nothing of the patch is left once a newer write of its key has landed.
func (w *Write) Voids(patch *Write) bool {
	return w.Op == Delete || w.Op == Upsert && (!w.Table.Custom || Covers(w.Cells, patch.Cells))
}

// Covers reports whether newer names every cell that older names.
func Covers(newer, older []Cell) bool {
	return !slices.ContainsFunc(older, func(c Cell) bool { return find(newer, c) < 0 })
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

// Own returns the write in memory of its own, and how many bytes of it: its texts
// may be parts of what was decoded for the whole record, which is much more.
func (w *Write) Own() (own Write, bytes int64) {
	size := len(w.Key) + len(w.ProfileID)
	for i := range w.Cells {
		size += w.Cells[i].Value.textSize()
	}
	var text strings.Builder
	text.Grow(size)
	own = *w
	own.Key, own.ProfileID = copied(&text, w.Key), copied(&text, w.ProfileID)
	own.Cells = make([]Cell, len(w.Cells))
	bytes = int64(size) + int64(len(w.Cells))*int64(unsafe.Sizeof(Cell{}))
	for i := range w.Cells {
		own.Cells[i] = Cell{Place: w.Cells[i].Place, Value: w.Cells[i].Value.own(&text, &bytes)}
	}
	return own, bytes
}

// copied is s as a part of text, which has room for it.
func copied(text *strings.Builder, s string) string {
	at := text.Len()
	text.WriteString(s)
	return text.String()[at:]
}
