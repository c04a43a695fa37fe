package router

import (
	"fmt"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/schemas"
)

// columnLiteral is what a column's `absent` and `null` stand for where they are
// literals: values like any other, in a call as in a file.
type columnLiteral struct {
	schemas.Place
	absent, null schemas.Value // Absent: not a literal
	createOnly   bool
}

// fill gives a write the literals for what it leaves out or says to be null. A
// patch leaves out what it does not change, so that it gets only those for null.
func (c *Compiled) fill(w *schemas.Write) {
next:
	for i := range c.literals {
		l := &c.literals[i]
		for j := range w.Cells {
			cell := &w.Cells[j]
			if cell.Place != &l.Place && *cell.Place != l.Place {
				continue
			}
			if cell.Value.Kind() == schemas.Null && l.null.Kind() != schemas.Absent {
				cell.Value = l.null
			}
			continue next
		}
		if l.absent.Kind() != schemas.Absent && w.Op != schemas.Patch && (w.Op == schemas.Create || !l.createOnly) {
			w.Cells = append(w.Cells, schemas.Cell{Place: &l.Place, Value: l.absent})
		}
	}
}

// compileLiterals compiles the literals of the columns, whatever lane the mapping
// uses: a call says the same as a row.
func (s *scope) compileLiterals() {
	for i, col := range s.m.Imports.Columns {
		section, name, err := target(s.c.Table, col.Name)
		if err != nil || section == schemas.DataCollection || col.Name == s.m.Key {
			continue // no column, as columns says; or the key, which is never missing
		}
		l := columnLiteral{
			Place:      schemas.Place{Section: section, Name: name},
			createOnly: section == schemas.Attributes && recencyOf(name) != notRecency,
		}
		for _, choice := range []struct {
			key, text string
			into      *schemas.Value
		}{{"absent", col.Absent, &l.absent}, {"null", col.Null, &l.null}} {
			switch choice.text {
			case "", toEmpty, toImmediate:
				continue
			}
			v, rule := s.columnValue(&l, col.Name, choice.text)
			if rule != "" {
				s.problem(fmt.Sprintf("imports.columns[%d].%s", i, choice.key), "write a value of the column, empty or immediate", "%q %s", choice.text, rule)
			}
			*choice.into = v
		}
		if l.absent.Kind() != schemas.Absent || l.null.Kind() != schemas.Absent {
			s.c.literals = append(s.c.literals, l)
		}
	}
}

// columnValue is the value that a literal's text is, as the column's field or
// `types` has it; text where neither says anything.
func (s *scope) columnValue(l *columnLiteral, header, text string) (v schemas.Value, rule string) {
	v = schemas.StringValue(text)
	switch l.Section {
	case schemas.Subscriptions:
		return asBoolean(v, nil)
	case schemas.Segments:
		if text == "true" || text == "false" {
			return schemas.BoolValue(text == "true"), ""
		}
	}
	if kind, list := s.columnKind(l, header); kind != nil && kind.convert != nil {
		if list && strings.HasPrefix(text, "[") {
			items, err := schemas.NewJSON().Decode([]byte(text))
			if err != nil {
				return v, "must be a list such as [\"a\",\"b\"], or one element of it"
			}
			v = items
		}
		// It is written as the table takes it: neither scale nor format apply.
		if v, rule = kind.convert(v, kind.plain()); rule != "" {
			return v, rule
		}
	}
	at := s.c.spot(l.Section, l.Name)
	return at.cell(v, schemas.Create) // as created: what is technical is checked for its value only
}

// columnKind is the conversion of a column's field, or of its type, and whether it
// makes lists; nil where neither is known.
func (s *scope) columnKind(l *columnLiteral, header string) (kind *converter, list bool) {
	for i := range s.c.fields {
		if f := &s.m.Fields[i]; f.To == header && s.c.fields[i].convert != nil {
			return s.c.fields[i].convert, f.As == "list"
		}
	}
	if l.Section != schemas.Attributes && l.Section != schemas.Properties {
		return nil, false
	}
	list = slices.ContainsFunc(s.m.Types, func(t Type) bool { return t.Name == header && t.As == "list" })
	return s.c.types[l.Name], list
}

// plain is the conversion without the source's way to write values.
func (c *converter) plain() *converter {
	p := &converter{convert: c.convert, limit: c.limit}
	if c.each != nil {
		p.each = c.each.plain()
	}
	return p
}
