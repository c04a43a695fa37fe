package check

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// dependsOnLane warns of columns of which an upsert that does not name them says another
// thing by file than by call, which keeps them in a custom table and clears them in a
// profile: what is in the table depends on the lane.
func (m *mapping) dependsOnLane() {
	if m.m.Imports.Upsert == nil || !m.upsertsTake("batch", "auto") {
		return
	}
	routed := m.upsertsTake("immediate")
	var names []string
	for i := range m.c.Columns {
		col := &m.c.Columns[i]
		differs := col.Header != m.m.Key && !col.CreateOnly && col.Absent == "empty" && m.c.IgnoresEmpty(schemas.Upsert, i) != m.c.Table.Custom
		if differs && m.mayLack(col.Header) && (routed || m.calledForOthers(col.Header)) {
			names = append(names, col.Header)
		}
	}
	if len(names) == 0 {
		return
	}
	byFile, byCall := "clears", "keeps"
	hint := "write the columns as {name: NAME, null: immediate}, so that a file keeps them, too, and create the ETL again"
	switch {
	case !m.c.Table.Custom:
		byFile, byCall = byCall, byFile
		hint = "write absent: immediate for the columns, so that such an event is a call; or absent: VALUE, which both lanes write; " +
			"or leave out their null and ignoresEmpty, so that a file clears them, too; then create the ETL again"
	case len(m.m.Fields) > 0:
		hint = "write absent: null for their fields, so that a call clears them, too; or " + hint
	}
	m.Report("imports.columns", hint, "an upsert that does not name %s %s that by file, and %s it by call: the table depends on the lane", few(names), byFile, byCall)
}

// calledForOthers reports whether another column may send a row to the immediate lane.
func (m *mapping) calledForOthers(column string) bool {
	return slices.ContainsFunc(m.c.Columns, func(c router.CSVColumn) bool {
		return c.Header != column && (c.Absent == "immediate" || c.Null == "immediate")
	})
}

// literalsWithoutType warns of literals that a call says as text and a file as what the
// column's type, which is not known, makes of them.
func (m *mapping) literalsWithoutType() {
	if !m.c.DualLane() && !m.c.HasAuto() {
		return
	}
	for i := range m.c.Columns {
		col := &m.c.Columns[i]
		fixed := col.CreateOnly || col.Section != schemas.Attributes && col.Section != schemas.Properties
		if fixed || col.Header == m.m.Key || m.typeKnown(col.Header) {
			continue
		}
		for _, choice := range [...]struct{ key, text string }{{"absent", col.Absent}, {"null", col.Null}} {
			var as, what string
			switch v, _ := schemas.NewJSON().Decode([]byte(choice.text)); {
			case v.Kind() == schemas.Number:
				as, what = "number", "a number"
			case m.c.Table.Custom: // a property has no other type: true and false are text
				continue
			case v.Kind() == schemas.Bool:
				as, what = "boolean", "true or false"
			case v.Kind() == schemas.List:
				as, what = "list", "a list"
			default:
				continue
			}
			m.Report(fmt.Sprintf("imports.columns[%d].%s", i, choice.key), fmt.Sprintf("name its type: types: [{name: %s, as: %s}], or as: string if it is text", col.Header, as),
				"%q is text in a call, as the type of %q is not known: where the column is %s, a file is taken and a call refused", choice.text, col.Header, what)
		}
	}
}

// typeKnown reports whether the configuration says what a column holds.
func (m *mapping) typeKnown(column string) bool {
	return slices.ContainsFunc(m.m.Types, func(t router.Type) bool { return t.Name == column }) ||
		slices.ContainsFunc(m.m.Fields, func(f router.Field) bool { return f.To == column && f.As != "" })
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

// upsertsTake reports whether upserts may go by a route of these lanes. A call of an auto
// route says what the row says.
func (m *mapping) upsertsTake(lanes ...string) bool {
	op, always := m.onlyOp()
	if always && op != schemas.Upsert || !always && m.m.Envelope == "debezium" {
		return false // Debezium's upserts name all columns; what they leave out makes them patches
	}
	return slices.ContainsFunc(m.m.Routes, func(r router.Route) bool {
		return slices.Contains(lanes, r.Lane) && (len(m.m.Fields) > 0 || !noUpsert.MatchString(r.When))
	})
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
