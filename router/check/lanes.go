package check

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// dependsOnLane warns of columns of a custom table that an upsert which does not name them
// clears by file and keeps by call: what is in the table depends on the lane.
func (m *mapping) dependsOnLane() {
	if !m.c.Table.Custom || m.m.Imports.Upsert == nil || !m.upsertsTakeBothLanes() {
		return
	}
	var names []string
	for i := range m.c.Columns {
		col := &m.c.Columns[i]
		clears := col.Header != m.m.Key && !col.CreateOnly && col.Absent == "empty" && !m.c.IgnoresEmpty(schemas.Upsert, i)
		if clears && m.mayLack(col.Header) {
			names = append(names, col.Header)
		}
	}
	if len(names) == 0 {
		return
	}
	hint := "write the columns as {name: NAME, null: immediate}, so that a file keeps them, too, and create the ETL again"
	if len(m.m.Fields) > 0 {
		hint = "write absent: null for their fields, so that a call clears them, too; or " + hint
	}
	m.Report("imports.columns", hint, "an upsert that does not name %s clears that by file, and keeps it by call: the table depends on the lane", few(names))
}

// leftOut warns of fields that no file of the mapping carries.
func (m *mapping) leftOut() {
	if len(m.m.Fields) == 0 || !m.filesHaveValues() {
		return
	}
	var unlisted, consents []string
	for i := range m.m.Fields {
		switch to := m.m.Fields[i].To; {
		case to == m.m.Key, slices.Contains(m.headers(), to):
		case !m.c.Table.Custom && strings.HasPrefix(to, "dataCollection."):
			consents = append(consents, to)
		default:
			unlisted = append(unlisted, to)
		}
	}
	if len(unlisted) > 0 {
		m.Report("imports.columns", "add the column and create the ETL again, or remove the field",
			"files leave out what fields say of %s, for which no column is listed", few(unlisted))
	}
	if len(consents) > 0 {
		m.Report("fields", "route to the immediate lane what needs it, or remove the field",
			"files leave out what fields say of %s, for which a file can have no column", few(consents))
	}
}

// filesHaveValues reports whether files of the mapping may have more than keys: not those of
// deletes.
func (m *mapping) filesHaveValues() bool {
	only, always := m.onlyOp()
	routed := slices.ContainsFunc(m.m.Routes, func(r router.Route) bool { return r.Lane == "batch" || r.Lane == "auto" })
	for op := range m.m.Imports.All() {
		byFile := routed || op != schemas.Upsert && !m.c.Table.Custom // for want of a call or of the profile's id
		if op != schemas.Delete && (!always || op == only) && byFile {
			return true
		}
	}
	return false
}

// few names three at most.
func few(names []string) string {
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%s or %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " or " + names[last]
	}
	return names[0]
}

// noUpsert is a condition of canonical events that no upsert meets.
var noUpsert = regexp.MustCompile(`^\s*op\s*==\s*["'](patch|merge|create|delete)["']\s*$`)

// upsertsTakeBothLanes reports whether upserts may go by the routes of either lane. A call of
// an auto route says what the row says; beside calls of the immediate lane it makes none.
func (m *mapping) upsertsTakeBothLanes() bool {
	op, always := m.onlyOp()
	if always && op != schemas.Upsert || !always && m.m.Envelope == "debezium" {
		return false // Debezium's upserts name all columns; what they leave out makes them patches
	}
	leads := func(lanes ...string) bool {
		return slices.ContainsFunc(m.m.Routes, func(r router.Route) bool {
			return slices.Contains(lanes, r.Lane) && (len(m.m.Fields) > 0 || !noUpsert.MatchString(r.When))
		})
	}
	return leads("immediate") && leads("batch", "auto")
}

// mayLack reports whether a write may say nothing of the column: its field says what is
// written where the event has none, and is never without it.
func (m *mapping) mayLack(column string) bool {
	for i := range m.m.Fields {
		if f := &m.m.Fields[i]; f.To == column {
			return f.Value == "" && (f.Absent == router.Omit || f.Absent == "" && f.Default == "")
		}
	}
	return true
}
