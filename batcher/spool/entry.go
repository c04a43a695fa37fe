package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/feedsink/feedsink/schemas"
)

// Column is one column of the files: its header, and the cell of a write it takes.
// Where the write does not carry the cell, or carries null, nothing is written
// between the separators. Kept says that the ETL of upserts leaves the field alone
// then; of patches it always does, unless they never leave the cell out. CreateOnly
// columns are in the files of op create alone: no other import may supply them.
type Column struct {
	Header     string
	Section    schemas.Section
	Name       string
	Kept       bool
	CreateOnly bool
}

// Key names the column that Write.Key fills: the unique-key attribute, or the
// business key of a custom table.
type Key struct {
	Section schemas.Section
	Name    string
}

// An entry is one write in the journal, its cells already encoded for the file:
//
//	size uint32 | hash of the key uint64 | op uint8 | key cell | (column uvarint, cell)…
//
// A cell is its length as uvarint and its bytes; columns ascend and never
// include the key's. Equal keys have equal key cells.
const (
	entryHash = 4
	entryOp   = 12
	entryHead = 13
)

// column is a Column ready to write.
type column struct {
	section    schemas.Section
	name       string
	own        schemas.Place
	createOnly bool
	// Where the last write had this cell, and its place: writes of one topic look
	// alike.
	hint  int
	place *schemas.Place
}

// Rows encodes writes as entries and entries as lines of CSV.
type Rows struct {
	*format
	key     int
	columns []column
	headers [][]byte
	keeping *keeping // what upserts leave in the table; nil: nothing
}

// NewRows checks the columns, of which one is the key's.
func NewRows(key Key, columns []Column, csv CSV) (*Rows, error) {
	f, err := newFormat(csv)
	if err != nil {
		return nil, err
	}
	r := &Rows{format: f, key: -1, columns: make([]column, len(columns)), headers: make([][]byte, len(columns))}
	seen := make(map[string]bool, len(columns))
	for i, c := range columns {
		if c.Header == "" || seen[c.Header] {
			return nil, fmt.Errorf("columns[%d]: header %q must be there and must not repeat: the service refuses files with duplicate headers", i, c.Header)
		}
		seen[c.Header] = true
		if c.Section == key.Section && c.Name == key.Name {
			r.key = i
		}
		r.columns[i] = column{section: c.Section, name: c.Name, createOnly: c.CreateOnly, own: schemas.Place{Section: c.Section, Name: c.Name}}
		if r.headers[i], err = appendCell(f, nil, "header", c.Header); err != nil {
			return nil, fmt.Errorf("columns[%d]: %w", i, err)
		}
	}
	if r.key < 0 {
		return nil, errors.New("columns: the key has no column")
	}
	r.keeping, err = newKeeping(f, columns, r.key)
	return r, err
}

// AppendEntry appends the entry of w. Cells without a column are left out: the
// columns say what is loaded. On an error, a *schemas.ValueError, dst comes back
// as it was.
func (r *Rows) AppendEntry(dst []byte, w *schemas.Write) ([]byte, error) {
	if w.Key == "" {
		return dst, schemas.Invalid("key", "must not be empty")
	}
	start := len(dst)
	dst = append(dst, make([]byte, entryHead)...)
	binary.LittleEndian.PutUint64(dst[start+entryHash:], xxhash.Sum64String(w.Key))
	dst[start+entryOp] = byte(w.Op)
	size := len(dst)
	dst, err := appendCell(r.format, append(dst, 0), r.columns[r.key].name, w.Key)
	if err != nil {
		return dst[:start], err
	}
	dst = setSize(dst, size)
	if w.Op != schemas.Delete {
		for i := range r.columns {
			if dst, err = r.appendColumn(dst, i, w.Cells); err != nil {
				return dst[:start], err
			}
		}
	}
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start))
	return dst, nil
}

func (r *Rows) appendColumn(dst []byte, i int, cells []schemas.Cell) ([]byte, error) {
	c := &r.columns[i]
	if i == r.key || !c.find(cells) {
		return dst, nil
	}
	switch v := cells[c.hint].Value; v.Kind() {
	case schemas.Absent:
		return dst, nil
	case schemas.Null:
		return appendBytes(binary.AppendUvarint(dst, uint64(i)), nil), nil
	default:
		dst = binary.AppendUvarint(dst, uint64(i))
		size := len(dst)
		dst, err := r.appendValue(append(dst, 0), c.name, v)
		return setSize(dst, size), err
	}
}

// left reports whether the files of op are without the column.
func (c *column) left(op schemas.Op) bool { return c.createOnly && op != schemas.Create }

// find leaves the index of the column's cell in hint. The cells of a mapping's
// writes share their places: most comparisons are of two pointers.
func (c *column) find(cells []schemas.Cell) bool {
	if c.hint < len(cells) && cells[c.hint].Place == c.place {
		return true
	}
	for i := range cells {
		if p := cells[i].Place; p.Name == c.name && p.Section == c.section {
			c.hint, c.place = i, p
			return true
		}
	}
	return false
}

// appendMerged appends a patch or merge merged into an older entry of the same key: the
// older one's operation, the union of the cells, the patch's where both have one.
func appendMerged(dst, older, patch []byte) []byte {
	return appendCombined(dst, older, older, patch, func(both pair) []byte {
		if both.newer != nil {
			return both.newer
		}
		return both.older
	})
}

// pair is what two entries of a key say of a column.
type pair struct {
	column       uint64
	older, newer []byte // the cells; nil: there is none
}

// pairs are the columns of which either entry has a cell, in their order.
func pairs(older, newer []byte) iter.Seq[pair] {
	return func(yield func(pair) bool) {
		_, a := cutBytes(older[entryHead:])
		_, b := cutBytes(newer[entryHead:])
		for len(a) > 0 || len(b) > 0 {
			columnA, cellA, restA := cutCell(a)
			columnB, cellB, restB := cutCell(b)
			both := pair{column: min(columnA, columnB)}
			if columnA == both.column {
				both.older, a = cellA, restA
			}
			if columnB == both.column {
				both.newer, b = cellB, restB
			}
			if !yield(both) {
				return
			}
		}
	}
}

// appendCombined appends an entry of the operation and key of one, with the cells that are
// made of those of two others; nil is none.
func appendCombined(dst, of, older, newer []byte, cell func(pair) []byte) []byte {
	start := len(dst)
	key, _ := cutBytes(of[entryHead:])
	dst = appendBytes(append(dst, of[:entryHead]...), key)
	for both := range pairs(older, newer) {
		if c := cell(both); c != nil {
			dst = appendBytes(binary.AppendUvarint(dst, both.column), c)
		}
	}
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start))
	return dst
}

// Hash is that of an entry's key.
func (r *Rows) Hash(entry []byte) uint64 { return binary.LittleEndian.Uint64(entry[entryHash:]) }

// appendLine appends an entry's row. A file of deletions has one column, the
// key: nothing else is needed to find the row.
func (r *Rows) appendLine(dst, entry []byte) []byte {
	key, cells := cutBytes(entry[entryHead:])
	op := schemas.Op(entry[entryOp])
	if op == schemas.Delete {
		return append(append(dst, key...), r.newline...)
	}
	next, cell, rest := cutCell(cells)
	separator := r.separator[:0]
	for i := range r.columns {
		if r.columns[i].left(op) {
			if uint64(i) == next {
				next, cell, rest = cutCell(rest)
			}
			continue
		}
		dst = append(dst, separator...)
		separator = r.separator
		switch {
		case i == r.key:
			dst = append(dst, key...)
		case uint64(i) == next:
			dst = append(dst, cell...)
			next, cell, rest = cutCell(rest)
		}
	}
	return append(dst, r.newline...)
}

// Holds reports whether the files of op have the column.
func (r *Rows) Holds(i int, op schemas.Op) bool {
	if op == schemas.Delete {
		return i == r.key
	}
	return !r.columns[i].left(op)
}

// appendHeader appends the first line of a file of op.
func (r *Rows) appendHeader(dst []byte, op schemas.Op) []byte {
	if op == schemas.Delete {
		return append(append(dst, r.headers[r.key]...), r.newline...)
	}
	separator := r.separator[:0]
	for i, h := range r.headers {
		if !r.columns[i].left(op) {
			dst = append(append(dst, separator...), h...)
			separator = r.separator
		}
	}
	return append(dst, r.newline...)
}

// noColumn sorts behind every column: what cutCell says at the end.
const noColumn = ^uint64(0)

func cutCell(b []byte) (col uint64, cell, rest []byte) {
	if len(b) == 0 {
		return noColumn, nil, nil
	}
	col, n := binary.Uvarint(b)
	cell, rest = cutBytes(b[n:])
	return col, cell, rest
}

// setSize completes a cell that was appended behind one byte kept free at size:
// nearly every cell's length fits there, and nothing is copied.
func setSize(dst []byte, size int) []byte {
	n := uint64(len(dst) - size - 1)
	if n < 0x80 {
		dst[size] = byte(n)
		return dst
	}
	var prefix [binary.MaxVarintLen64]byte
	return slices.Replace(dst, size, size+1, prefix[:binary.PutUvarint(prefix[:], n)]...)
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

func cutBytes(b []byte) (first, rest []byte) {
	size, n := binary.Uvarint(b)
	return b[n : n+int(size)], b[n+int(size):]
}

// Key is the index of the key's column.
func (r *Rows) Key() int { return r.key }

// Drops reports whether a write of the other lane drops the key's row from a file that is
// not sent: a delete, or an upsert that leaves nothing of what a row could say. That of
// a profile always does (operation 1), that of a table record if it names all columns,
// since the document does not say whether operation 4 keeps the others.
func (r *Rows) Drops(w *schemas.Write) bool {
	return w.Op == schemas.Delete || w.Op == schemas.Upsert && (!w.Table.Custom || r.names(w))
}

// says reports whether a patch of the other lane can be merged into an upsert's row, or into
// that of a patch or merge if partial: the files have a column for each of its cells, and none
// of them clears a field that empty cells leave as it is.
func (r *Rows) says(patch *schemas.Write, partial bool) bool {
	said := 0
	for i := range r.columns {
		c := &r.columns[i]
		if !c.find(patch.Cells) {
			continue
		}
		said++
		v := patch.Cells[c.hint].Value
		empty := v.Kind() == schemas.Null || v.Kind() == schemas.String && v.Text() == ""
		kept := partial || r.keeping != nil && r.keeping.columns[i]
		if c.createOnly || empty && kept && i != r.key {
			return false
		}
	}
	return said == len(patch.Cells)
}

// names reports whether the write has a cell for every column.
func (r *Rows) names(w *schemas.Write) bool {
	for i := range r.columns {
		if i != r.key && !r.columns[i].find(w.Cells) {
			return false
		}
	}
	return true
}
