package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector"
)

// importsTable has a line for each mapping, and below them what a person has
// to look at.
func importsTable(list []connector.MappingImports, now time.Time) string {
	if len(list) == 0 {
		return "This process has no batch lane."
	}
	lines := [][]string{{"MAPPING", "STEP", "FOR", "MODE", "EXECUTION", "PART", "TRY", "ROWS", "BYTES", "OPEN ROWS", "SLOTS LEFT", "FILE"}}
	var notes []string
	for _, m := range list {
		step, since := stepOf(m, now)
		line := []string{m.Mapping, step, since, "", "", "", "", "", "", "", slotsLeft(m), ""}
		if imp := m.Import; imp != nil {
			line[3], line[4], line[5], line[6] = imp.Mode, imp.Execution, part(imp), number(imp.Attempt)
			line[7], line[8], line[11] = number(imp.Rows), number(imp.Bytes), imp.File
		}
		if m.Open != nil {
			line[9] = number(m.Open.Rows)
		}
		lines = append(lines, line)
		if m.Halted != "" {
			notes = append(notes, m.Mapping+" is halted: "+m.Halted)
		}
		for _, file := range m.Kept {
			notes = append(notes, m.Mapping+" keeps a file in the spool: "+file)
		}
	}
	text := aligned(lines)
	if len(notes) > 0 {
		text += "\n\n" + strings.Join(notes, "\n")
	}
	return text
}

// shownImport is one mapping's import, and what the service said if somebody asked
// for that.
type shownImport struct {
	connector.MappingImports
	Reason connector.LastMessage `json:"reason,omitzero"`
	asked  bool
}

func (s shownImport) text(now time.Time) string {
	text := importText(s.MappingImports, now)
	switch said := s.Reason.Said; {
	case !s.asked:
	case said == nil:
		text += "\n\nThe service has said nothing about an import that went wrong, as far as this process heard."
	default:
		about := said.File
		if said.Execution != "" {
			about += ", execution " + said.Execution
		}
		text += fmt.Sprintf("\n\nThe service said about %s, %s ago:\n%s", about, ago(said.At, now), oneLine(said.Words))
	}
	return text
}

// importText has a line for each thing that is known.
func importText(m connector.MappingImports, now time.Time) string {
	step, since := stepOf(m, now)
	if since != "" {
		step += ", for " + since
	}
	lines := [][]string{{"mapping", m.Mapping}, {"table", m.Table}, {"step", step}}
	if m.Bundle != "" {
		lines = slices.Insert(lines, 2, []string{"bundle", m.Bundle})
	}
	if imp := m.Import; imp != nil {
		lines = append(lines, []string{"file", imp.File}, []string{"mode", imp.Mode}, []string{"etl", imp.ETL},
			[]string{"execution", imp.Execution}, []string{"part", part(imp)}, []string{"try", number(imp.Attempt)},
			[]string{"rows", number(imp.Rows) + ofMembers(imp)}, []string{"bytes", number(imp.Bytes)})
	}
	if m.Import != nil && m.Import.WaitsFor != "" {
		lines = append(lines, []string{"waits for", m.Import.WaitsFor})
	}
	if m.Open != nil {
		lines = append(lines, []string{"open file", fmt.Sprintf("%d rows, %d bytes, for %s", m.Open.Rows, m.Open.Bytes, ago(m.Open.Since, now))})
	}
	lines = append(lines, []string{"slots left", slotsLeft(m)}, []string{"halted", m.Halted})
	for _, file := range m.Kept {
		lines = append(lines, []string{"kept file", file})
	}
	return aligned(lines)
}

func releasedText(r connector.Released) string {
	var goes []string
	for _, lane := range r.Lanes {
		goes = append(goes, "records that wait in the "+lane+" lane are tried again")
	}
	switch {
	case r.Loaded:
		goes = append(goes, "the rows in error of "+r.File+" that its output files name become dead letters")
	case r.File != "":
		goes = append(goes, r.File+" is sent again")
	}
	text := r.Mapping + " is released: " + strings.Join(goes, ", ")
	if r.File != "" && !r.Loaded && r.SlotsLeft != nil && *r.SlotsLeft == 0 {
		text += " when the next day begins, no slot is left today"
	}
	return text
}

// stepOf is where the mapping's import stands, and for how long; "not here" if
// another member has the table, or nobody yet.
func stepOf(m connector.MappingImports, now time.Time) (step, since string) {
	switch {
	case m.Import != nil:
		return string(m.Import.Step), ago(m.Import.Since, now)
	case !m.Owned:
		return "not here", ""
	case m.Open != nil:
		return "collecting", ago(m.Open.Since, now)
	}
	return "idle", ""
}

// ago is for clocks that may differ by a moment.
func ago(then, now time.Time) string {
	return max(now.Sub(then).Truncate(time.Second), 0).String()
}

func part(imp *batcher.ImportStatus) string {
	if imp.Parts == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", imp.Part, imp.Parts)
}

// ofMembers tells a bundle's rows apart, where they are known.
func ofMembers(imp *batcher.ImportStatus) string {
	var rows []string
	for _, m := range imp.Members {
		rows = append(rows, fmt.Sprintf("%d of %s", m.Rows, m.Mapping))
	}
	if imp.Rows == 0 || len(rows) == 0 {
		return ""
	}
	return ": " + strings.Join(rows, ", ")
}

func slotsLeft(m connector.MappingImports) string {
	if m.SlotsLeft == nil {
		return ""
	}
	return fmt.Sprintf("%d of %d", *m.SlotsLeft, m.SlotsPerDay)
}

// number is empty for what is not known yet.
func number[N int | int64](n N) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(int64(n), 10)
}

// aligned prints cells in columns, a dash for an empty one.
func aligned(lines [][]string) string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, cells := range lines {
		for i, cell := range cells {
			if cell == "" {
				cells[i] = "-"
			}
		}
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t")) // a Builder takes everything
	}
	_ = table.Flush()
	return strings.TrimRight(b.String(), "\n")
}
