package reconcile

import (
	"slices"

	"github.com/feedsink/feedsink/schemas"
)

// entry is one write of a key.
type entry struct {
	schemas.Write
	row   bool // of a file; else a call of the other lane, or one for this lane to make
	file  int  // its file, which is not sent; 0: none, or it is sent
	at    At
	after *At // a row, or a write that was taken: newest write of the other lane before it
	bytes int64

	other      *At  // newest write of the other lane that it stands for; nil: none
	behind     bool // a row of a file that had not landed, which may be unknown, is older than it
	newer      int  // the last of such files that is not sent; 0: all are
	unanswered bool // of the other lane, and not known to be confirmed when it was read
	landed     bool // no file that holds it, or an older row, waits or is on its way; the key was reconciled since

	taken []At  // the writes that were taken and show in it
	rows  Spans // what the rows did that show in it
	idle  Spans // rows that, in the order of the log, found nothing to do
}

// Span are the rows of a key that are of these operations, from one offset of a
// partition on up to another.
type Span struct {
	Ops
	Partition any
	From, To  int64
}

// Covers reports whether the row of the operation at the place is one of them.
func (s Span) Covers(op schemas.Op, at At) bool {
	return s.Has(op) && s.Partition == at.Partition && at.Offset >= s.From && at.Offset <= s.To
}

// Spans are one for each partition that the key has rows in. They are not changed.
type Spans []Span

// ops are those of all.
func (all Spans) ops() (ops Ops) {
	for _, s := range all {
		ops |= s.Ops
	}
	return ops
}

// with is both.
func (all Spans) with(others Spans) Spans {
	if len(all) == 0 || len(others) == 0 {
		return append(slices.Clip(all), others...)
	}
	all = slices.Clone(all)
	for _, o := range others {
		if i := slices.IndexFunc(all, func(s Span) bool { return s.Partition == o.Partition }); i >= 0 {
			s := &all[i]
			s.Ops, s.From, s.To = s.Ops|o.Ops, min(s.From, o.From), max(s.To, o.To)
		} else {
			all = append(all, o)
		}
	}
	return all
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

// Ops are operations of rows. Rows of one key and operation are one row of a file.
type Ops uint8

func opsOf(op schemas.Op) Ops { return 1 << op }

// Has reports whether op is among them.
func (o Ops) Has(op schemas.Op) bool { return o&opsOf(op) != 0 }

// All are the operations, one by one.
func (o Ops) All() (all []schemas.Op) {
	for _, op := range schemas.Ops {
		if o.Has(op) {
			all = append(all, op)
		}
	}
	return all
}

// join takes over what rows did, or found nothing of to do, in another write, and what of it
// was taken.
func (e *entry) join(other *entry) {
	e.rows, e.idle = e.rows.with(other.rows), e.idle.with(other.idle)
	e.taken = slices.Concat(other.taken, e.taken)
	e.landed, e.behind, e.newer = e.landed && other.landed, e.behind || other.behind, max(e.newer, other.newer)
	e.standFor(*other)
}

// standFor notes that e is kept in the place of older writes, which may not have landed.
func (e *entry) standFor(older ...entry) {
	for i := len(older) - 1; i >= 0 && e.other == nil; i-- {
		e.other = older[i].other
	}
}

// ours reports whether this lane writes any of it.
func (e *entry) ours() bool { return e.row || len(e.rows)+len(e.idle) > 0 || len(e.taken) > 0 }

// finds notes that a write found nothing to do behind e. That of the other lane may land
// later, where it finds something.
func (e *entry) finds(nothing *entry) {
	e.idle = e.idle.with(nothing.rows).with(nothing.idle)
	if nothing.other != nil {
		e.other = nothing.other
	}
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
	case e.Op == schemas.Delete, e.Op == schemas.Upsert && !e.Table.Custom && !e.row:
		e.standFor(all...)
		return []entry{e} // operation 1 replaces the whole profile, a row does not
	case e.Op == schemas.Create:
		if newest.Op == schemas.Delete {
			return append(all, e)
		}
		newest.finds(&e) // the key exists: a create changes nothing
		return all
	case newest.Op == schemas.Delete:
		if e.Op == schemas.Patch {
			newest.finds(&e) // there is nothing to patch
			return all
		}
		return append(all, e)
	case newest.Op == schemas.Create:
		return append(all, e)
	case e.Op.Partial() && !schemas.CoversConsent(e.Cells, newest.Cells):
		return apart(all, e)
	case e.Op.Partial(), e.row, schemas.Covers(e.Cells, newest.Cells):
		return overlaid(all, e)
	}
	// The upsert of a table record. The document does not say whether operation 4
	// keeps the properties that it is not given; so they are given before it.
	if n := len(all); n > 1 && all[n-2].Op == schemas.Upsert {
		all[n-2].Cells = schemas.Overlay(all[n-2].Cells, newest.Cells)
		all[n-2].join(newest)
		return append(all[:n-1], e)
	}
	return append(all, e)
}

// overlaid sets a write's cells over those of the newest. A row keeps what its
// columns do not say, so that a patch or merge of a table record, which is there once
// the row has landed, stays one; of a profile it becomes a row. A patch that a merge
// follows becomes that: the row is there then.
func overlaid(all []entry, e entry) []entry {
	newest := &all[len(all)-1]
	op, row, cells := newest.Op, newest.row, schemas.Overlay(newest.Cells, e.Cells)
	switch {
	case e.Op == schemas.Upsert && op.Partial() && (!e.row || !e.Table.Custom), e.Op == schemas.Merge && op == schemas.Patch:
		op, row = e.Op, e.row
	}
	e.join(newest)
	*newest = e
	newest.Op, newest.row, newest.Cells = op, row, cells
	return all
}

// apart adds a patch of some members of the data collection: the document does not
// say whether the others stay. What it names is nothing that older writes have to
// say any more.
func apart(all []entry, e entry) []entry {
	consent := func(c schemas.Cell) bool { return c.Section == schemas.DataCollection }
	for i := range all {
		all[i].Cells = slices.DeleteFunc(all[i].Cells, func(c schemas.Cell) bool {
			return consent(c) && schemas.Covers(e.Cells, []schemas.Cell{c})
		})
	}
	all = append(all, e)
	for i := len(all) - 1; i > 0; i-- {
		if older := &all[i-1]; older.Op == schemas.Patch && !slices.ContainsFunc(older.Cells, consent) {
			all[i].Cells = schemas.Overlay(older.Cells, all[i].Cells)
			all[i].join(older)
			all = slices.Delete(all, i-1, i)
		}
	}
	return all
}

// asCalls are the calls for reduced writes. A row leaves what its columns do not
// say, and operation 1 would not: unless the profile was deleted before it, it is
// operation 2 that says the same of a profile that is there. No call merges a profile
// whose id is not known.
func asCalls(reduced []entry) (calls []schemas.Write) {
	for i, e := range reduced {
		w := e.Write
		switch whole := !e.row && w.Op == schemas.Upsert || i > 0 && reduced[i-1].Op == schemas.Delete; {
		case w.Table.Custom || w.Op != schemas.Upsert && w.Op != schemas.Merge:
		case !whole && w.ProfileID != "":
			w.Op = schemas.Patch
		case !whole && w.Op == schemas.Merge:
		default:
			w.Op, w.Cells = schemas.Upsert, WithoutNulls(w.Cells)
		}
		calls = append(calls, w)
	}
	return calls
}

// WithoutNulls is what the call of a profile's upsert has of cells: what is not there it
// clears, and subscriptions and segments have no null.
func WithoutNulls(cells []schemas.Cell) []schemas.Cell {
	return slices.DeleteFunc(slices.Clone(cells), func(c schemas.Cell) bool {
		return c.Value.Kind() == schemas.Null && (c.Section == schemas.Subscriptions || c.Section == schemas.Segments)
	})
}

// Follows reports whether anything is known of the key's writes.
func (k *Keys) Follows(key string) bool { return k.byKey[key] != nil }
