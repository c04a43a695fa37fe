package router

import (
	"github.com/feedsink/feedsink/schemas"
)

// IgnoresEmpty tells what the ETL that loads op has to do with an empty cell of
// a column (an index into Columns): true leaves the row's value alone, and the
// attribute mapping of the ETL's definition needs ignoreEmptyValues; false
// clears it. Where ignoresEmpty says it of the whole ETL, it is so. Else it
// follows from what the column's choices write as empty. A patch writes what it
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
	case op == schemas.Patch:
		return col.Absent != toImmediate
	}
	return col.Absent == toEmpty && col.Null != toEmpty
}

// guard is a column whose cell not every write may leave as a row.
type guard struct {
	column       *CSVColumn
	ignoresEmpty bool
}

// compileGuards finds the columns to look at in the writes of each op; most
// mappings have none.
func (c *Compiled) compileGuards() {
	for op := schemas.Upsert; op < schemas.Delete; op++ {
		for i := range c.Columns {
			col := &c.Columns[i]
			g := guard{col, c.IgnoresEmpty(op, i)}
			if col.CreateOnly && op != schemas.Create {
				continue
			}
			if col.Header != c.KeyName && (g.ignoresEmpty || col.Absent == toImmediate || col.Null == toImmediate) {
				c.guards[op] = append(c.guards[op], g)
			}
		}
	}
}

// guard finds the lane of a write that would be a row: what a column cannot say
// takes the immediate lane where its choice is so, and is refused elsewhere
// instead of being lost.
func (c *Compiled) guard(w *schemas.Write) (schemas.Lane, *Reject) {
	escapes := false
	var lost *Reject
	for i := range c.guards[w.Op] {
		g := &c.guards[w.Op][i]
		v := cellOf(w, g.column)
		switch {
		case v.Kind() == schemas.Absent && g.column.Absent == toImmediate,
			v.Kind() == schemas.Null && g.column.Null == toImmediate:
			escapes = true
		case !g.ignoresEmpty:
		case v.Kind() == schemas.Null && g.column.Null == toEmpty:
			lost = badValue(g.column.Header, "null is written as an empty cell, which the import of "+w.Op.String()+
				" takes for nothing said: the column's null must be immediate or a text")
		case v.Kind() != schemas.String || v.Text() != "":
		case g.column.Null == toImmediate:
			escapes = true
		default:
			lost = badValue(g.column.Header, "an empty text is an empty cell, which the import of "+w.Op.String()+
				" takes for nothing said: the column's null must be immediate")
		}
	}
	switch {
	case escapes && c.callable(w):
		return schemas.Immediate, nil
	case escapes && w.Op == schemas.Create:
		return schemas.Batch, badValue("op", "a column sends this create to the immediate lane, where a profile cannot be created")
	case escapes:
		return schemas.Batch, &Reject{
			Code: CodeNoID, Field: "profileId",
			Rule: "a column sends this " + w.Op.String() + " to the immediate lane, where it cannot be written without one",
		}
	}
	return schemas.Batch, lost
}

// cellOf is the value that a write has for a column.
func cellOf(w *schemas.Write, col *CSVColumn) schemas.Value {
	for i := range w.Cells {
		if w.Cells[i].Section == col.Section && w.Cells[i].Name == col.Name {
			return w.Cells[i].Value
		}
	}
	return schemas.Value{}
}
