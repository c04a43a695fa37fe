package router

import "github.com/feedsink/feedsink/schemas"

// CSVColumn is one column of the mapping's files.
type CSVColumn struct {
	Header        string
	schemas.Place        // of the cell that fills it; for the business key: Properties
	Absent        string // what a missing cell becomes: empty, immediate or a literal
	Null          string // what a null cell becomes: the same choices
	// CreateOnly columns hold what only an import that creates may supply: the
	// files of other imports are without them.
	CreateOnly bool
}

// What absent and null cells of a column become, beside a literal.
const (
	toEmpty     = "empty"
	toImmediate = "immediate"
)

// FileColumn is a column as the ETL of its file has to know it.
type FileColumn struct {
	Header       string // the technical name that it is loaded into, too
	IgnoresEmpty bool   // what IgnoresEmpty says of it
}

// FileColumns are the columns of the files that load op, in their order: of a
// delete the key alone, and those that only a creating import may supply for it
// alone.
func (c *Compiled) FileColumns(op schemas.Op) []FileColumn {
	var columns []FileColumn
	for i := range c.Columns {
		col := &c.Columns[i]
		if op == schemas.Delete && col.Header != c.KeyName || op != schemas.Create && col.CreateOnly {
			continue
		}
		columns = append(columns, FileColumn{Header: col.Header, IgnoresEmpty: c.IgnoresEmpty(op, i)})
	}
	return columns
}

// IgnoresEmpty tells what the ETL that loads op has to do with an empty cell of
// a column (an index into Columns): true leaves the row's value alone, and the
// attribute mapping of the ETL's definition needs ignoreEmptyValues; false
// clears it. Where ignoresEmpty says it of the whole ETL, it is so. Else it
// follows from what the column's choices write as empty. A patch or merge writes what it
// does not name, which says nothing, unless it goes to the immediate lane for
// that. An upsert or create writes absent, null or both: absent alone says
// nothing; with null the cell clears, as an upsert is the whole state of its row.
func (c *Compiled) IgnoresEmpty(op schemas.Op, column int) bool {
	load := c.Import(op)
	return c.Columns[column].ignoresEmpty(op, c.KeyName, load != nil && load.IgnoresEmpty)
}

// ignoresEmpty is IgnoresEmpty for an ETL of which it is declared, or not.
func (col *CSVColumn) ignoresEmpty(op schemas.Op, key string, declared bool) bool {
	switch {
	case op == schemas.Delete || col.Header == key:
		return false
	case declared:
		return true
	case op.Partial():
		return col.Absent != toImmediate
	}
	return col.Absent == toEmpty && col.Null != toEmpty
}

// checkedColumn is a column of which not every write's cell may be in a row.
type checkedColumn struct {
	*CSVColumn
	ignoresEmpty bool
}

// findCheckedColumns finds those columns for each op; most mappings have none.
func (c *Compiled) findCheckedColumns() {
	for _, op := range schemas.Ops {
		if op == schemas.Delete {
			continue
		}
		for i := range c.Columns {
			col := &c.Columns[i]
			if col.Header == c.KeyName || col.CreateOnly && op != schemas.Create {
				continue
			}
			if ignores := c.IgnoresEmpty(op, i); ignores || col.Absent == toImmediate || col.Null == toImmediate {
				c.checkedColumns[op] = append(c.checkedColumns[op], checkedColumn{col, ignores})
			}
		}
	}
}

// rowLane is the lane of a write that would be a row: what a column cannot say
// takes the immediate lane where its choice is so, and is refused elsewhere
// instead of being lost.
func (c *Compiled) rowLane(w *schemas.Write) (schemas.Lane, *Reject) {
	needsCall := false
	var lost *Reject
	for _, col := range c.checkedColumns[w.Op] {
		v := cellOf(w, col.Place)
		switch {
		case v.Kind() == schemas.Absent && col.Absent == toImmediate,
			v.Kind() == schemas.Null && col.Null == toImmediate:
			needsCall = true
		case !col.ignoresEmpty:
		case v.Kind() == schemas.Null && col.Null == toEmpty:
			lost = badValue(col.Header, "null is written as an empty cell, which the import of "+w.Op.String()+
				" takes for nothing said: the column's null must be immediate or a text")
		case v.Kind() != schemas.String || v.Text() != "":
		case col.Null == toImmediate:
			needsCall = true
		default:
			lost = badValue(col.Header, "an empty text is an empty cell, which the import of "+w.Op.String()+
				" takes for nothing said: the column's null must be immediate")
		}
	}
	switch {
	case needsCall && c.Callable(w):
		return schemas.Immediate, nil
	case needsCall && w.Op == schemas.Create:
		return schemas.Batch, badValue("op", "a column sends this create to the immediate lane, where a profile cannot be created")
	case needsCall && w.Op == schemas.Merge:
		return schemas.Batch, badValue("op", "a column sends this merge to the immediate lane, where a profile cannot be merged")
	case needsCall:
		return schemas.Batch, noID("a column sends this " + w.Op.String() + " to the immediate lane, where it cannot be written without one")
	}
	return schemas.Batch, lost
}

// cellOf is the value that a write has at a place.
func cellOf(w *schemas.Write, at schemas.Place) schemas.Value {
	for i := range w.Cells {
		if *w.Cells[i].Place == at {
			return w.Cells[i].Value
		}
	}
	return schemas.Value{}
}

// columnConstant is what a column's `absent` and `null` stand for where they are
// literals: values like any other, in a call as in a file.
type columnConstant struct {
	schemas.Place
	absent, null schemas.Value // Absent: not a literal
	createOnly   bool
}

// fillConstants gives a write the literals for what it leaves out. A patch or merge leaves
// out what it does not change. Those for null stand in the place of each already.
func (c *Compiled) fillConstants(w *schemas.Write) {
	if w.Op.Partial() {
		return
	}
	for i := range c.constants {
		constant := &c.constants[i]
		if constant.absent.Kind() == schemas.Absent || constant.createOnly && w.Op != schemas.Create {
			continue
		}
		if cellOf(w, constant.Place).Kind() == schemas.Absent {
			w.Cells = append(w.Cells, schemas.Cell{Place: &constant.Place, Value: constant.absent})
		}
	}
}
