package forget

import (
	"time"

	"github.com/feedsink/feedsink/connector/words"
)

// Text is the report for a terminal.
func (r *Report) Text() string {
	var text words.Lines
	text.Add("key      %s", words.OneLine(r.Key))
	text.Add("mapping  %s, table %s", r.Mapping, r.Table)
	text.Add("at       %s, on %s", r.At.Format(time.RFC3339), r.Host)
	if r.Spool != "" {
		text.Add("spool    %s, of this machine alone", r.Spool)
	}
	for _, note := range r.Notes {
		text.Add("note     %s", note)
	}
	table := words.Table{{"WHERE", "STATE", "HOLDS"}}
	below := make([][]string, len(r.Places))
	for i := range r.Places {
		at := &r.Places[i]
		table.Add(string(at.Kind)+" "+at.Where, string(at.State), at.Holds)
		below[i] = at.below()
	}
	text.Add("\n%s\n", table.Over(below))
	for _, failed := range r.Failed {
		text.Add("not removed: %s", words.OneLine(failed))
	}
	text.Add("%s", r.answer())
	return text.Text()
}

// below is what stands below a place's line.
func (p *Place) below() (lines []string) {
	if p.Why != "" {
		lines = append(lines, "  why    "+words.OneLine(p.Why))
	}
	if !p.Until.IsZero() {
		lines = append(lines, "  until  "+p.Until.Format(time.RFC3339)+" at least")
	}
	if p.Yes != "" {
		lines = append(lines, "  yes    "+p.Yes)
	}
	for _, do := range p.Do {
		lines = append(lines, "  do     "+do)
	}
	return lines
}

func (r *Report) answer() string {
	left := words.Counted(r.Left, "place of feedsink's has", "places of feedsink's have") + " data of the key"
	switch {
	case r.Left == 0:
		return "No place of feedsink's that was looked at has data of the key."
	case r.Yes:
		return left + "; the lines say how long, or what to do. Run forget again then."
	}
	return left + "; nothing was removed. --yes does what the lines say under yes."
}
