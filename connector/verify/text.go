package verify

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/feedsink/feedsink/connector/words"
)

// Text is the report for a terminal.
func (r *Report) Text() string {
	table := words.Table{{"mapping", r.Mapping + ", table " + r.Table}}
	if len(r.Writers) > 0 {
		table.Add("also written by", "mapping "+strings.Join(r.Writers, ", ")+": what differs may be theirs")
	}
	if r.Known != nil {
		return append(table, r.Known.lines()...).String()
	}
	table.Count("records", r.Records, ", confirmed by the sink")
	table.CountAny("dead letters", r.DeadLetters, ", which never came to the table and count as not there")
	table.CountAny("without a key", r.NoKey, ", whose rows cannot be told")
	about := ""
	if r.About {
		about = "about "
	}
	table.Add("keys", about+strconv.FormatInt(r.Keys, 10))
	table.CountAny("left out", r.Newer, " with a newer record, not confirmed before or come meanwhile")
	table.CountAny("not read", words.Sum(r.Unread), words.ByWord(r.Unread)+": the service does not show them")
	table.Add("equal", r.equalText())
	table.CountAny(Missing, r.Missing, "")
	table.CountAny(NotDeleted, r.NotDeleted, "")
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		table.Count("differ in "+name, r.Fields[name], "")
	}
	if r.Repair != nil {
		table.Add("repair", r.repairText())
	}
	return strings.Join(slices.Concat([]string{table.String()}, r.Gone, r.Former, words.Few(r.Differences, Difference.lines)), "\n")
}

// equalText is the result in one line.
func (r *Report) equalText() string {
	text := fmt.Sprintf("%d of %d", r.Compared-r.Different, r.Compared)
	switch {
	case r.All && r.Different == 0:
		return text + ": the table says what the topic says"
	case r.All:
		return fmt.Sprintf("%s: %d differ", text, r.Different)
	case r.Compared == 0:
		return text + ": nothing is known"
	}
	if r.Different > 0 {
		text += fmt.Sprintf(", %d differ", r.Different)
	}
	return text + fmt.Sprintf(": at most %s of all keys differ (95 %% confidence)", percent(r.AtMost))
}

// percent writes a share above 0 with two digits, rounded up: it is a bound.
func percent(share float64) string {
	digits := 1 - int(math.Floor(math.Log10(100*share)))
	unit := math.Pow10(-digits)
	text := strconv.FormatFloat(math.Ceil(100*share/unit)*unit, 'f', max(digits, 1), 64)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".") + " %"
}

func (d Difference) lines() []string {
	line := "the key of " + d.Record + ": " + d.Why
	if len(d.Fields) > 0 {
		line += " in " + strings.Join(d.Fields, ", ")
	}
	if d.Key == "" {
		return []string{line}
	}
	lines := []string{line, "  key   " + words.OneLine(d.Key)}
	for _, name := range d.Fields {
		lines = append(lines, fmt.Sprintf("  %s: should be %s, is %s", name, d.Want[name], cmp.Or(string(d.Have[name]), "not there")))
	}
	return lines
}

func (r *Report) repairText() string {
	parts := []string{fmt.Sprintf("%d sent again", r.Repair.Sent)}
	for _, of := range []struct {
		n    int64
		what string
	}{
		{r.Repair.Newer, "newer since, which the sink sends"},
		{words.Sum(r.Repair.Refused), "refused" + words.ByWord(r.Repair.Refused)},
		{words.Sum(r.Repair.Left), "left" + words.ByWord(r.Repair.Left)},
		{max(r.Different-maxRepair, 0), "not tried: run again, or backfill the whole table"},
	} {
		if of.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", of.n, of.what))
		}
	}
	return strings.Join(parts, "; ")
}

func (k *Known) lines() (table words.Table) {
	table.Add("compared", "nothing: the interface has no operation that reads a profile. This is what is known:")
	table.Count("dead letters", words.Sum(k.DeadLetters), words.ByWord(k.DeadLetters)+", open: they are not in the table")
	for _, lane := range slices.Sorted(maps.Keys(k.Unconfirmed)) {
		table.Add("not confirmed", fmt.Sprintf("%d by the %s lane: on their way", k.Unconfirmed[lane], lane))
	}
	for _, i := range k.Imports {
		text := fmt.Sprintf("%s %s, %s", i.File, i.Status, words.Counted(i.Rows, "row"))
		if i.InError != nil {
			text += fmt.Sprintf(", %d in error", *i.InError)
		}
		table.Add("import", text)
	}
	table.Add("unknown", "whether the confirmed records are still in the table as they were written, and what others have changed")
	return table
}
