package spool

import (
	"bytes"

	"github.com/feedsink/feedsink/schemas"
)

// keeping is what an upsert's row leaves in the table as it was: the fields of kept
// columns whose cell is empty, and of those that its file does not have. An upsert
// takes over what the upsert before it says of them. Behind rows of another
// operation, of which the service decides whether they apply, it is a row of its
// own then.
type keeping struct {
	columns    []bool // by column
	createOnly []bool
	empty      []byte // the cell of an empty text
}

// newKeeping is nil for columns of which an upsert leaves nothing.
func newKeeping(f *format, columns []Column, key int) (*keeping, error) {
	k := &keeping{columns: make([]bool, len(columns)), createOnly: make([]bool, len(columns))}
	keeps := false
	for i, c := range columns {
		k.columns[i], k.createOnly[i] = i != key && (c.Kept || c.CreateOnly), c.CreateOnly
		keeps = keeps || k.columns[i]
	}
	if !keeps {
		return nil, nil
	}
	var err error
	k.empty, err = appendCell(f, nil, "", "")
	return k, err
}

// says reports whether a cell of a kept column changes its field.
func (k *keeping) says(cell []byte) bool { return len(cell) > 0 && !bytes.Equal(cell, k.empty) }

// clearsKept reports whether a patch or merge clears a field that an upsert's row could not
// clear.
func (k *keeping) clearsKept(patch []byte) bool {
	if k == nil {
		return false
	}
	_, cells := cutBytes(patch[entryHead:])
	for len(cells) > 0 {
		col, cell, rest := cutCell(cells)
		if k.columns[col] && !k.says(cell) {
			return true
		}
		cells = rest
	}
	return false
}

// leaves reports whether an upsert leaves something of an older row in the table.
func (k *keeping) leaves(older, upsert []byte) bool {
	creates := schemas.Op(older[entryOp]) == schemas.Create
	for both := range pairs(older, upsert) {
		loaded := creates || !k.createOnly[both.column]
		if both.older != nil && k.columns[both.column] && loaded && !k.says(both.newer) {
			return true
		}
	}
	return false
}

// appendCarried appends an upsert with what an older one says of the fields that it
// leaves.
func (k *keeping) appendCarried(dst, older, upsert []byte) []byte {
	return appendCombined(dst, upsert, older, upsert, func(both pair) []byte {
		if both.older != nil && k.columns[both.column] && !k.says(both.newer) {
			return both.older
		}
		return both.newer
	})
}

// left is a patch or merge without what an upsert behind it replaces; nil: nothing is left.
func (k *keeping) left(patch, upsert []byte) []byte {
	left := appendCombined(nil, patch, patch, upsert, func(both pair) []byte {
		if k.columns[both.column] && !k.createOnly[both.column] && !k.says(both.newer) {
			return both.older
		}
		return nil
	})
	if _, cells := cutBytes(left[entryHead:]); len(cells) == 0 {
		return nil
	}
	return left
}

// carried puts an upsert in the place of the one that is the key's last row, or
// has a patch or merge behind it that could not be merged into it, and reports whether
// there is such a row. What the new upsert leaves of the latter stays behind it.
func (f *fold) carried(k *foldedKey, entry []byte) bool {
	into := k.last
	if before := f.before(k, into); rankOp(f.rows[into].rank).Partial() && before != none {
		into = before
	}
	if rankOp(f.rows[into].rank) != schemas.Upsert {
		return false
	}
	if into != k.last {
		left := f.keeping.left(f.entry(k.last), entry)
		f.drop(k.last)
		if left == nil {
			k.last, f.rows[into].next = into, none
		} else {
			f.rows[k.last].entry, f.rows[k.last].number = f.own.add(left), several
		}
	}
	row := &f.rows[into]
	f.drop(into)
	if f.keeping.leaves(f.entry(into), entry) {
		row.entry, row.number = f.own.add(f.keeping.appendCarried(f.own.tail(), f.entry(into), entry)), several
	} else {
		row.entry, row.number = f.keep(entry), f.number
	}
	return true
}

// replaced reports whether an upsert leaves nothing of the key's rows from one of
// them on. A patch of what the row before has deleted changes nothing.
func (f *fold) replaced(k *foldedKey, from int32, entry []byte) bool {
	if f.keeping == nil {
		return true
	}
	gone := from != k.first
	for r := from; r != none; r = f.rows[r].next {
		gone = gone && rankOp(f.rows[r].rank) == schemas.Patch
		if !gone && f.keeping.leaves(f.entry(r), entry) {
			return false
		}
	}
	return true
}

// Stated is what the row of w says of the table, and no more: of its columns alone,
// and null where an empty cell clears the field.
func (r *Rows) Stated(w *schemas.Write) schemas.Write {
	said := *w
	said.Cells = nil
	if w.Op == schemas.Delete {
		return said
	}
	said.Cells = make([]schemas.Cell, 0, len(r.columns))
	for i := range r.columns {
		c := &r.columns[i]
		if c.left(w.Op) {
			continue
		}
		var v schemas.Value
		if c.find(w.Cells) {
			v = w.Cells[c.hint].Value
		}
		if v.Kind() == schemas.String && v.Text() == "" {
			v = schemas.NullValue()
		}
		kept := w.Op != schemas.Upsert || i == r.key || r.keeping != nil && r.keeping.columns[i]
		switch {
		case v.Kind() == schemas.Absent && kept, v.Kind() == schemas.Null && kept && w.Op == schemas.Upsert:
			continue
		case v.Kind() == schemas.Absent:
			v = schemas.NullValue()
		}
		said.Cells = append(said.Cells, schemas.Cell{Place: &c.own, Value: v})
	}
	return said
}

// Callable reports whether a call of what Stated makes of w leaves the table as its row
// does: an upsert's call replaces what its row leaves in the table.
func (r *Rows) Callable(w *schemas.Write) bool {
	if w.Op == schemas.Create || w.Op == schemas.Merge {
		return false
	}
	if w.Op != schemas.Upsert || r.keeping == nil {
		return true
	}
	for i := range r.columns {
		c := &r.columns[i]
		if !r.keeping.columns[i] || r.keeping.createOnly[i] {
			continue
		}
		if !c.find(w.Cells) {
			return false
		}
		if v := w.Cells[c.hint].Value; v.Kind() == schemas.Absent || v.Kind() == schemas.Null || v.Kind() == schemas.String && v.Text() == "" {
			return false
		}
	}
	return true
}
