package spool

import (
	"bytes"
	"encoding/binary"

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
	k.empty, err = f.appendCell(nil, "", "")
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
	_, a := cutBytes(older[entryHead:])
	_, b := cutBytes(upsert[entryHead:])
	for len(a) > 0 {
		ca, _, restA := cutCell(a)
		cb, cell, restB := cutCell(b)
		if cb < ca {
			b = restB
			continue
		}
		a = restA
		unloaded := k.createOnly[ca] && schemas.Op(older[entryOp]) != schemas.Create
		if k.columns[ca] && !unloaded && (cb != ca || !k.says(cell)) {
			return true
		}
	}
	return false
}

// appendCarried appends an upsert with what an older one says of the fields that it
// leaves.
func (k *keeping) appendCarried(dst, older, upsert []byte) []byte {
	start := len(dst)
	dst = append(dst, upsert[:entryHead]...)
	key, b := cutBytes(upsert[entryHead:])
	_, a := cutBytes(older[entryHead:])
	dst = appendBytes(dst, key)
	for len(a) > 0 || len(b) > 0 {
		ca, cellA, restA := cutCell(a)
		cb, cellB, restB := cutCell(b)
		switch {
		case ca < cb:
			if k.columns[ca] {
				dst = appendBytes(binary.AppendUvarint(dst, ca), cellA)
			}
			a = restA
			continue
		case ca == cb:
			a = restA
			if k.columns[cb] && !k.says(cellB) {
				cellB = cellA
			}
		}
		dst = appendBytes(binary.AppendUvarint(dst, cb), cellB)
		b = restB
	}
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start))
	return dst
}

// appendLeft appends a patch or merge without what an upsert behind it replaces; dst itself,
// if nothing is left.
func (k *keeping) appendLeft(dst, patch, upsert []byte) []byte {
	start := len(dst)
	dst = append(dst, patch[:entryHead]...)
	key, a := cutBytes(patch[entryHead:])
	_, b := cutBytes(upsert[entryHead:])
	dst = appendBytes(dst, key)
	empty := len(dst)
	for len(a) > 0 {
		ca, cellA, restA := cutCell(a)
		cb, cellB, restB := cutCell(b)
		if cb < ca {
			b = restB
			continue
		}
		a = restA
		if k.columns[ca] && !k.createOnly[ca] && (cb != ca || !k.says(cellB)) {
			dst = appendBytes(binary.AppendUvarint(dst, ca), cellA)
		}
	}
	if len(dst) == empty {
		return dst[:start]
	}
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start))
	return dst
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
		left := f.keeping.appendLeft(nil, f.entry(k.last), entry)
		f.drop(k.last)
		if len(left) == 0 {
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
