package router

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/feedsink/feedsink/schemas"
)

// What absent and null cells of a column become, beside a literal.
const (
	toEmpty     = "empty"
	toImmediate = "immediate"
)

// imports checks the batch lane's part of a mapping, where it has one.
func (s *scope) imports() {
	imports := &s.m.Imports
	loads := s.loads()
	if !s.c.batch {
		return
	}
	if loads == 0 {
		s.problem("imports", "name an ETL for each op that its events have, such as upsert", "a route leads to the batch lane, but no import is configured")
	}
	s.columns()
	s.csv()
	s.roll()
	s.oneOp()
	if s.m.Bundle == "" {
		s.fitting() // that of a bundle's ETL is for all of its mappings
	}
	if imports.SlotsPerDay < 1 {
		s.problem("imports.slotsPerDay", "", "%d: at least 1", imports.SlotsPerDay)
	}
	if imports.Reserve < 0 || imports.Reserve > 0 && imports.Reserve >= imports.SlotsPerDay {
		s.problem("imports.reserve", "", "%d: from 0 to slotsPerDay (%d) less one", imports.Reserve, imports.SlotsPerDay)
	}
	if imports.RetryFailed < 0 {
		s.problem("imports.retryFailed", "", "%d: not below 0", imports.RetryFailed)
	}
	// Local would make a day depend on the machine.
	if _, err := time.LoadLocation(imports.Timezone); err != nil || imports.Timezone == "Local" {
		s.problem("imports.timezone", "write an IANA name such as Europe/Paris or UTC", "%q is not a time zone", imports.Timezone)
	}
}

// loads checks the ETL of each op and counts them.
func (s *scope) loads() int {
	n := 0
	for op := schemas.Upsert; op <= schemas.Delete; op++ {
		load := s.c.Import(op)
		if load == nil {
			continue
		}
		n++
		path := "imports." + op.String()
		if load.ETL == "" {
			s.problem(path+".etl", "", "missing")
		}
		if modes := importModes[op]; !slices.Contains(modes, load.Mode) {
			s.problem(path+".mode", "write "+modes[0], "%q is not a mode that loads %v", load.Mode, op)
		}
	}
	return n
}

// importModes are the modes that do what an op says. The interface spells
// create-or-update both ways.
var importModes = map[schemas.Op][]string{
	schemas.Upsert: {"CREATE_OR_UPDATE", "CREATE_UPDATE"},
	schemas.Patch:  {"UPDATE_ONLY"},
	schemas.Create: {"CREATE_ONLY"},
	schemas.Delete: {"DELETE"},
}

func (s *scope) columns() {
	columns := s.m.Imports.Columns
	if len(columns) == 0 {
		s.problem("imports.columns", "list the columns of the CSV file, the key among them", "missing")
		return
	}
	for i, col := range columns {
		path := fmt.Sprintf("imports.columns[%d]", i)
		section, name, err := target(s.c.Table, col.Name)
		switch {
		case err != nil:
			s.problem(path, "", "%v", err)
		case section == schemas.DataCollection:
			s.problem(path, "", "%q: a file has no column for dataCollection", col.Name)
		case slices.IndexFunc(columns, func(c Column) bool { return c.Name == col.Name }) < i:
			s.problem(path, "", "%q is listed twice", col.Name)
		}
		compiled := CSVColumn{
			Header: col.Name, Section: section, Name: name,
			Absent: orDefault(col.Absent, toEmpty), Null: orDefault(col.Null, toEmpty),
			CreateOnly: section == schemas.Attributes && recencyOf(name) != notRecency,
		}
		s.filled(path, &compiled)
		s.c.Columns = append(s.c.Columns, compiled)
	}
	s.c.compileGuards()
	if s.m.Key != "" && !slices.ContainsFunc(columns, func(c Column) bool { return c.Name == s.m.Key }) {
		s.problem("imports.columns", fmt.Sprintf("add %q", s.m.Key), "the key column is missing")
	}
}

// filled refuses a column that no write could ever fill.
func (s *scope) filled(path string, col *CSVColumn) {
	if col.CreateOnly && s.m.Imports.Create == nil {
		s.problem(path, "remove it, or add imports.create", "%q is computed by the service: only an import of mode CREATE_ONLY may supply it", col.Header)
	}
	if len(s.m.Fields) == 0 || col.Absent != toEmpty || col.Header == s.m.Key || col.Header == "" {
		return
	}
	var targets []string
	for i := range s.m.Fields {
		if s.m.Fields[i].To == col.Header {
			return
		}
		targets = append(targets, s.m.Fields[i].To)
	}
	s.problem(path, suggest(col.Header, targets...), "no field fills %q", col.Header)
}

func (s *scope) csv() {
	csv := s.m.Imports.CSV
	for _, mark := range []struct{ path, text string }{{"separator", csv.Separator}, {"enclosing", csv.Enclosing}} {
		if mark.text != "" && (len(mark.text) != 1 || mark.text[0] >= utf8.RuneSelf || strings.ContainsAny(mark.text, "\r\n\x00")) {
			s.problem("imports.csv."+mark.path, "", "%q: one ASCII character, not a line break", mark.text)
		}
	}
	if csv.Separator != "" && csv.Separator == csv.Enclosing {
		s.problem("imports.csv.enclosing", "", "%q is the separator too", csv.Enclosing)
	}
	if _, err := schemas.Encoding(csv.Encoding); err != nil {
		s.problem("imports.csv.encoding", "write an IANA name such as UTF-8 or ISO-8859-1", "%v", err)
	}
	if words := []string{"GZIP", "ZIP", "NONE"}; csv.Compression != "" && !slices.Contains(words, csv.Compression) {
		s.problem("imports.csv.compression", suggest(csv.Compression, words...), "unknown compression %q", csv.Compression)
	}
}

func (s *scope) roll() {
	roll := s.m.Imports.Roll
	if roll.Rows < 0 {
		s.problem("imports.roll.rows", "", "%d: not below 0", roll.Rows)
	}
	if roll.Bytes < 0 {
		s.problem("imports.roll.bytes", "", "%d: not below 0", roll.Bytes)
	}
	if roll.Age < 0 {
		s.problem("imports.roll.age", "", "%v: not below 0", roll.Age)
	}
	if roll.Rows == 0 && roll.Bytes == 0 && roll.Age == 0 {
		s.problem("imports.roll", "set rows, bytes or age", "without any limit a file would never be complete")
	}
}
