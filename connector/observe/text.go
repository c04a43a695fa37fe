package observe

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/words"
)

// ImportsText has a line for each mapping, and below them what a person has to look at.
func ImportsText(list []MappingImports, now time.Time) string {
	if len(list) == 0 {
		return "This process has no batch lane."
	}
	table := words.Table{{"MAPPING", "STEP", "FOR", "MODE", "EXECUTION", "PART", "TRY", "ROWS", "BYTES", "OPEN ROWS", "GOES OUT", "SLOTS LEFT", "FILE"}}
	var notes []string
	for i := range list {
		m := &list[i]
		step, since := m.step(now)
		line := []string{m.Mapping, step, since, "", "", "", "", "", "", "", "", m.slotsLeft(), ""}
		if imp := m.Import; imp != nil {
			line[3], line[4], line[5], line[6] = imp.Mode, imp.Execution, part(imp), words.Number(imp.Attempt)
			line[7], line[8], line[12] = words.Number(imp.Rows), words.Number(imp.Bytes), imp.File
		}
		if m.Open != nil {
			line[9], line[10] = words.Number(m.Open.Rows), dueIn(m.Open.Due, now)
		}
		table.Add(line...)
		for _, note := range m.notes(now) {
			if !slices.Contains(notes, note) { // of what all mappings wait for there is one
				notes = append(notes, note)
			}
		}
	}
	if len(notes) == 0 {
		return table.String()
	}
	return table.String() + "\n\n" + strings.Join(notes, "\n")
}

// notes are what a person has to look at.
func (m *MappingImports) notes(now time.Time) (notes []string) {
	switch {
	case strings.HasPrefix(m.Halted, "mapping "+m.Mapping+" is halted "): // which says so itself
		notes = append(notes, m.Halted)
	case m.Halted != "":
		notes = append(notes, m.Mapping+" is halted: "+m.Halted)
	}
	if m.Paused != nil {
		notes = append(notes, m.Mapping+" is paused"+m.Paused.text())
	}
	for _, w := range m.Waits {
		notes = append(notes, m.waitText(w, now))
	}
	for _, file := range m.Kept {
		notes = append(notes, m.Mapping+" keeps a file in the spool: "+file)
	}
	return notes
}

// waitText is what the mapping waits for; what is no mapping's own is the lane's.
func (m *MappingImports) waitText(w Wait, now time.Time) string {
	who := m.Mapping
	if w.Mapping == "" {
		who = "the batch lane"
	}
	text := who + " waits: " + w.Why
	if !w.Until.IsZero() {
		text += " (until " + w.Until.Local().Format(time.TimeOnly) + ", in " + max(w.Until.Sub(now), 0).Round(time.Second).String() + ")"
	}
	return text
}

// Text has a line for each thing that is known.
func (m *MappingImports) Text(now time.Time) string {
	step, since := m.step(now)
	if since != "" {
		step += ", for " + since
	}
	table := words.Table{{"mapping", m.Mapping}, {"table", m.Table}}
	if m.Bundle != "" {
		table.Add("bundle", m.Bundle)
	}
	table.Add("step", step)
	if m.Owner != "" {
		table.Add("owner", m.Owner)
	}
	waitsFor := ""
	if imp := m.Import; imp != nil {
		table = append(table, []string{"file", imp.File}, []string{"mode", imp.Mode}, []string{"etl", imp.ETL},
			[]string{"execution", imp.Execution}, []string{"part", part(imp)}, []string{"try", words.Number(imp.Attempt)},
			[]string{"rows", words.Number(imp.Rows) + ofMembers(imp)}, []string{"bytes", words.Number(imp.Bytes)})
		if waitsFor = imp.WaitsFor; waitsFor != "" {
			table.Add("waits for", waitsFor)
		}
	}
	for _, w := range m.Waits {
		if waitsFor == "" || !strings.HasSuffix(w.Why, waitsFor) {
			table.Add("waits", m.waitText(w, now))
		}
	}
	if m.Open != nil {
		open := fmt.Sprintf("%s, %s, for %s", words.Counted(m.Open.Rows, "row"), words.Counted(m.Open.Bytes, "byte"), words.Ago(m.Open.Since, now))
		if m.Open.Full > 0 {
			open += fmt.Sprintf(", with %d before it that wait, each as large as a file may be", m.Open.Full)
		}
		table.Add("open file", open)
		if !m.Open.Due.IsZero() {
			table.Add("goes out", dueIn(m.Open.Due, now)+", or once it is full")
		}
	}
	table.Add("slots left", m.slotsLeft())
	table.Add("halted", m.Halted)
	if m.Paused != nil {
		table.Add("paused", "yes"+m.Paused.text())
	}
	for _, file := range m.Kept {
		table.Add("kept file", file)
	}
	return table.String()
}

// Text is what the service said about the import.
func (l *LastMessage) Text(now time.Time) string {
	said := l.Said
	if said == nil {
		return "The service has said nothing about an import that went wrong, as far as this process heard."
	}
	about := said.File
	if said.Execution != "" {
		about += ", execution " + said.Execution
	}
	return fmt.Sprintf("The service said about %s, %s ago:\n%s", about, words.Ago(said.At, now), words.OneLine(said.Words))
}

// AskOwner is what to do where another member has what this one is asked for.
func AskOwner(owner string) string {
	if owner == "" {
		return "ask the other members: /status of each shows its partitions, and feedsink imports list its tables with files"
	}
	return "ask member " + owner
}

// dueIn is when a file goes out; "" if that is not known.
func dueIn(due, now time.Time) string {
	switch left := due.Sub(now).Round(time.Second); {
	case due.IsZero():
		return ""
	case left <= 0:
		return "now"
	default:
		return "in " + left.String()
	}
}

// step is where the mapping's import stands, and for how long; "not here" if
// another member has the table, or none yet.
func (m *MappingImports) step(now time.Time) (step, since string) {
	switch {
	case m.Import != nil:
		return string(m.Import.Step), words.Ago(m.Import.Since, now)
	case !m.Owned:
		return "not here", ""
	case m.Halted != "":
		return string(contract.Halting), ""
	case m.Open != nil:
		return "collecting", words.Ago(m.Open.Since, now)
	}
	return "idle", ""
}

func part(imp *contract.ImportStatus) string {
	if imp.Parts == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", imp.Part, imp.Parts)
}

// ofMembers tells a bundle's rows apart, where they are known.
func ofMembers(imp *contract.ImportStatus) string {
	var rows []string
	for _, m := range imp.Members {
		rows = append(rows, fmt.Sprintf("%d of %s", m.Rows, m.Mapping))
	}
	if imp.Rows == 0 || len(rows) == 0 {
		return ""
	}
	return ": " + strings.Join(rows, ", ")
}

func (m *MappingImports) slotsLeft() string {
	if m.SlotsLeft == nil {
		return ""
	}
	return fmt.Sprintf("%d of %d", *m.SlotsLeft, m.SlotsPerDay)
}

// Text is what goes on, in one line.
func (r *Released) Text() string {
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

// Text has a line for each lane that is paused.
func (p *Paused) Text() string {
	if len(p.Paused) == 0 {
		return p.Mapping + " goes on"
	}
	var lines []string
	for _, lane := range p.Paused {
		lines = append(lines, fmt.Sprintf("%s is paused in the %s lane%s", p.Mapping, lane.Lane, lane.text()))
		if p.Bundle != "" && lane.Lane == "batch" {
			lines = append(lines, "so the files of bundle "+p.Bundle+" wait, those of its other mappings too")
		}
	}
	return strings.Join(lines, "\n")
}

// text is until when a lane is paused, and why.
func (p *PauseStatus) text() (text string) {
	if !p.Until.IsZero() {
		text = " until " + p.Until.Format(time.RFC3339)
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}

// Text is what becomes of the file, in one line.
func (r *Rolled) Text() string {
	whose := "the open file of " + r.Mapping
	if r.Bundle != "" {
		whose = "the open files of bundle " + r.Bundle
	}
	switch {
	case r.Nothing:
		return whose + ": nothing is left to send, calls have brought all of its rows"
	case r.After != "":
		return whose + ": goes next, once " + r.After + " has ended and the table has a slot for it"
	case len(r.Files) == 0:
		return whose + ": goes out as soon as it can; feedsink imports list shows it"
	}
	return whose + ": goes out now as " + strings.Join(r.Files, ", then ")
}
