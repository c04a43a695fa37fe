package check

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/problem"
	"github.com/feedsink/feedsink/router/values"
	"github.com/feedsink/feedsink/schemas"
)

// importModes are the modes that do what an op says. The interface spells
// create-or-update both ways.
var importModes = map[schemas.Op][]string{
	schemas.Upsert: {"CREATE_OR_UPDATE", "CREATE_UPDATE"},
	schemas.Patch:  {"UPDATE_ONLY"},
	schemas.Merge:  {"CREATE_OR_UPDATE", "CREATE_UPDATE"},
	schemas.Create: {"CREATE_ONLY"},
	schemas.Delete: {"DELETE"},
}

// mostSlots is how many imports of a day the ledger counts: where the service says that there
// are no more, as many are noted.
const mostSlots = 1_000_000

// imports checks the batch lane's part of a mapping, where it has one.
func (m *mapping) imports() {
	imports := &m.m.Imports
	n := 0
	for op, load := range m.m.Imports.All() {
		n++
		path := "imports." + op.String()
		if load.ETL == "" {
			m.Report(path+".etl", fmt.Sprintf("`feedsink etl create --mapping %s` creates one and prints the line to write here", m.m.Name), "missing")
		}
		if modes := importModes[op]; !slices.Contains(modes, load.Mode) {
			m.Report(path+".mode", "write "+modes[0], "%q is not a mode that loads %v", load.Mode, op)
		}
		if op == schemas.Delete && load.IgnoresEmpty {
			m.Report(path+".ignoresEmpty", "leave it out", "a file of deletes has no column but the key's")
		}
		m.ownETL(op, load)
	}
	if !m.c.Uses(schemas.Batch) {
		return
	}
	if n == 0 {
		m.Report("imports", "name an ETL for each op that its events have, such as upsert", "a route leads to the batch lane, but no import is configured")
	}
	m.columns()
	m.csv()
	m.roll()
	if m.m.Bundle == "" {
		m.etlsFit() // that of a bundle's ETL is for all of its mappings
	}
	if n := imports.SlotsPerDay; n < 1 || n > mostSlots {
		m.Report("imports.slotsPerDay", "write how many imports of a day the table may take, such as 12", "%d: from 1 to %d", n, mostSlots)
	}
	if imports.Reserve < 0 || imports.Reserve > 0 && imports.Reserve >= imports.SlotsPerDay {
		m.Report("imports.reserve", "leave it out for two, or for all but one of fewer than three", "%d: from 0 to slotsPerDay (%d) less one", imports.Reserve, imports.SlotsPerDay)
	}
	notNegative(m, "imports.retryFailed", imports.RetryFailed)
	values.Zone(m.Reporter, "imports.timezone", imports.Timezone)
}

// columns refuses columns without the key, and one that no write could ever fill.
func (m *mapping) columns() {
	if len(m.c.Columns) == 0 {
		m.Report("imports.columns", "list the columns of the CSV file, the key among them", "missing")
		return
	}
	for i := range m.c.Columns {
		col := &m.c.Columns[i]
		path := fmt.Sprintf("imports.columns[%d]", i)
		if col.CreateOnly && m.m.Imports.Create == nil {
			m.Report(path, "remove it, or add imports.create", "%q is computed by the service: only an import of mode CREATE_ONLY may supply it", col.Header)
		}
		if len(m.m.Fields) == 0 || col.Absent != "empty" || col.Header == m.m.Key || col.Header == "" {
			continue
		}
		var targets []string
		for _, f := range m.m.Fields {
			targets = append(targets, f.To)
		}
		if !slices.Contains(targets, col.Header) {
			m.Report(path, problem.Suggest(col.Header, targets...), "no field fills %q", col.Header)
		}
	}
	if m.m.Key != "" && !slices.ContainsFunc(m.c.Columns, func(c router.CSVColumn) bool { return c.Header == m.m.Key }) {
		m.Report("imports.columns", m.keyHint(), "the key column is missing")
	}
}

// keyHint says what is to be done where no column has the key's name. That of a custom
// table's is always the same, so that it is not what was misspelt.
func (m *mapping) keyHint() string {
	add := fmt.Sprintf("add %q", m.m.Key)
	if m.c.Table.Custom {
		return add
	}
	if similar := problem.Similar(m.m.Key, m.headers()...); similar != "" {
		return strings.NewReplacer("did you mean", "did you mean key:", `"`, "").Replace(similar) + " Else " + add
	}
	return add
}

func (m *mapping) headers() (names []string) {
	for i := range m.c.Columns {
		names = append(names, m.c.Columns[i].Header)
	}
	return names
}

func (m *mapping) csv() {
	csv := m.m.Imports.CSV
	if _, _, err := schemas.CSVMarks(csv.Separator, csv.Enclosing); err != nil {
		wrong, _ := errors.AsType[*schemas.ValueError](err)
		m.Report("imports.csv."+wrong.Field, `write two characters that differ, such as separator: ";" and enclosing: "'"`, "%s", wrong.Rule)
	}
	encoding, err := schemas.Encoding(csv.Encoding)
	if err != nil {
		m.Report("imports.csv.encoding", "write an IANA name such as UTF-8 or ISO-8859-1", "%v", err)
	}
	encoder := schemas.NewEncoder(csv.Encoding, encoding)
	for i, header := range m.headers() {
		if _, err := encoder.Encode([]byte(header)); err != nil {
			m.Report(fmt.Sprintf("imports.columns[%d]", i), "write csv: {encoding: UTF-8}, and have the ETL's definition say the same", "%q %v", header, err)
		}
	}
	if words := []string{"GZIP", "ZIP", "NONE"}; csv.Compression != "" && !slices.Contains(words, csv.Compression) {
		m.Report("imports.csv.compression", problem.Suggest(csv.Compression, words...), "unknown compression %q", csv.Compression)
	}
}

func notNegative[T ~int | ~int64](m *mapping, path string, n T) {
	if n < 0 {
		m.Report(path, "", "%v: not below 0", n)
	}
}

func (m *mapping) roll() {
	roll := m.m.Imports.Roll
	notNegative(m, "imports.roll.rows", roll.Rows)
	notNegative(m, "imports.roll.bytes", int64(roll.Bytes))
	notNegative(m, "imports.roll.age", roll.Age)
	if roll.Rows == 0 && roll.Bytes == 0 && roll.Age == 0 && len(roll.At) == 0 {
		m.Report("imports.roll", "set rows, bytes, age or at", "without any limit a file would never be complete")
	}
	m.timesOfDay()
	m.maxFile()
}

// timesOfDay checks roll.at: each time has a slot of its own.
func (m *mapping) timesOfDay() {
	at := m.m.Imports.Roll.At
	seen := map[time.Duration]bool{}
	for i, text := range at {
		path := fmt.Sprintf("imports.roll.at[%d]", i)
		t, err := router.TimeOfDay(text)
		switch {
		case err != nil:
			m.Report(path, "write hours and minutes in quotes, from \"00:00\" to \"23:59\"", "%v", err)
		case seen[t]:
			m.Report(path, "leave it out", "%q is there twice", text)
		}
		seen[t] = true
	}
	if free := m.m.Imports.SlotsPerDay - m.m.Imports.Reserve; len(at) > 0 && len(at) > free {
		m.Report("imports.roll.at", "leave out some, or lower imports.reserve", "more times of day (%d) than slots for files (%d): each time needs one of slotsPerDay less reserve", len(at), max(free, 0))
	}
}

// leastFile is the smallest file that can be asked for, in bytes.
const leastFile router.Bytes = 1 << 10

func (m *mapping) maxFile() {
	most := m.m.Imports.MaxFile
	notNegative(m, "imports.maxFile.rows", most.Rows)
	notNegative(m, "imports.maxFile.bytes", int64(most.Bytes))
	least := leastFile
	if m.m.Imports.CSV.Compression == "NONE" { // a row may take as much as the header, which compression would shorten
		least = max(least, 2*router.Bytes(len(strings.Join(m.headers(), ","))+1))
	}
	if most.Bytes > 0 && most.Bytes < least {
		m.Report("imports.maxFile.bytes", "write 0 for no limit", "%d: at least %v, for the header and a row", most.Bytes, least)
	}
}

// ownETL refuses an ETL that has to load another op or another table too. One has one mode and
// one destination: rows would go into the table of another mapping.
func (m *mapping) ownETL(op schemas.Op, load *router.Import) {
	if load.ETL == "" || m.all.unfinished {
		return
	}
	at, hint := "imports."+op.String()+".etl", fmt.Sprintf("create one with `feedsink etl create --mapping %s --op %v`", m.m.Name, op)
	for _, c := range m.all.compiled[:m.c.Index+1] {
		for other, theirs := range c.Config.Imports.All() {
			switch {
			case c == m.c && other == op:
				return
			case theirs.ETL != load.ETL:
			case c == m.c:
				m.Report(at, hint, "%s is the ETL of imports.%v too, and an ETL has one mode", load.ETL, other)
				return
			case c.Table != m.c.Table && (m.m.Bundle == "" || c.Config.Bundle != m.m.Bundle || other != op):
				m.Report(at, fmt.Sprintf("leave it to %q, and ", c.Name)+hint,
					"%s is the ETL of imports.%v of mappings[%d] too, and an ETL loads rows of one op into one table, or into those of one bundle", load.ETL, other, c.Index)
				return
			}
		}
	}
}

// etlsFit refuses an ETL that was created when the mapping was another one, and
// one of which nothing says that it keeps what a row does not name.
func (m *mapping) etlsFit() {
	if m.all.unfinished {
		return
	}
	for op, load := range m.m.Imports.All() {
		now := m.c.ETLFingerprint(op)
		// Rows of a patch or merge may have cells of which their event says nothing, and which
		// the table must keep.
		leavesUnsaid := op.Partial() && slices.ContainsFunc(m.c.FileColumns(op), func(col router.FileColumn) bool { return col.IgnoresEmpty })
		switch {
		case load.Fingerprint != "" && now != load.Fingerprint:
			m.Report("imports."+op.String()+".fingerprint",
				fmt.Sprintf("create a new one with `feedsink etl create --mapping %s --op %v`; or write %q if the ETL was changed to fit", m.m.Name, op, now),
				"the ETL %s was created for other columns, CSV format, mode or table than the mapping has now", load.ETL)
		case load.Fingerprint == "" && !load.IgnoresEmpty && load.ETL != "" && leavesUnsaid:
			m.Report("imports."+op.String(),
				fmt.Sprintf("if the ETL's definition has ignoreEmptyValues: true for every column but the key's, write `%v: {etl: %q, mode: %s, ignoresEmpty: true}`; if not, or if that cannot be told, create one that has with `feedsink etl create --mapping %s --op %v` and write the line that it prints",
					op, load.ETL, load.Mode, m.m.Name, op),
				"a %v's row leaves empty what it does not name, and nothing says that the ETL %s ignores empty values: where it does not, every such row would erase fields of the table", op, load.ETL)
		}
	}
}

// The room of a ledger in characters, of which used slots are to leave a quarter, and what a
// table's slots of today and the days before take of it; uses of a quarter of an hour are one.
const (
	ledgerRoom   = 4096
	tableSize    = 45
	slotSize     = 4
	mostQuarters = 96
)

// slotsFit warns of a topic of which the partition's ledger may have no room for the slots of all
// the tables whose first topic it is.
func (m *mapping) slotsFit() {
	var last *router.Compiled
	tables, size := 0, 0
	for _, c := range m.all.compiled {
		if c.Config.Topics[0] == m.m.Topics[0] && c.Uses(schemas.Batch) {
			tables, size, last = tables+1, size+tableSize+slotSize*min(c.Config.Imports.SlotsPerDay, mostQuarters), c
		}
	}
	if last == m.c && size > ledgerRoom*3/4 {
		m.Report("imports.slotsPerDay", "lower slotsPerDay; or have fewer tables with this topic as their first",
			"%d tables have the first topic %s: the ledger of its partition 0 has hardly room for all of their slots, and imports wait for each other", tables, m.m.Topics[0])
	}
}

// slotsForTimes warns of times of day that may want more imports than their slots and the reserve.
func (m *mapping) slotsForTimes() {
	ops, at, reserve := 0, len(m.m.Imports.Roll.At), m.m.Imports.Reserve
	for range m.m.Imports.All() {
		ops++
	}
	if further := (ops - 1) * at; m.c.Uses(schemas.Batch) && at > 0 && further > reserve {
		m.Report("imports.roll.at", fmt.Sprintf("raise imports.reserve to %d, or have fewer times", further),
			"each op is an import of its own, so that a time may want %d and the day %d beyond those kept for it; they take of the reserve (%d), and with none left rows wait", ops, further, reserve)
	}
}
