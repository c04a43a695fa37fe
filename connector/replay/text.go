package replay

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/words"
)

// outcomes has a line for each number of dead letters.
type outcomes struct{ words.Table }

func (o *outcomes) add(n int, what string) { o.Add(strconv.Itoa(n), what) }

// any adds a line if the number is above 0, in the words for one or for several.
func (o *outcomes) any(n int, one, many string) {
	if n > 0 {
		o.add(n, words.Plural(n, one, many))
	}
}

// done is the line about letters that had ended before.
func (o *outcomes) done(n int) {
	o.any(n, "other was replayed or discarded before", "others were replayed or discarded before")
}

// Text is the report for a terminal.
func (r *DiscardReport) Text() string {
	var table outcomes
	what := words.Plural(r.Discarded, "dead letter discarded", "dead letters discarded")
	if r.DryRun {
		what = words.Plural(r.Discarded, "dead letter would be discarded", "dead letters would be discarded")
	}
	table.add(r.Discarded, what)
	const tried = "left: a replay that did not end may have sent them, and an older value may be in the table; replay them, or give --tried"
	table.any(r.Tried, tried, tried)
	table.done(r.Done)
	return table.String()
}

// ProgressText is how far the run is, in one line.
func (r *Report) ProgressText() string {
	return fmt.Sprintf("%s: %d applied, %d superseded, %d failed again, %d left",
		words.Counted(r.Selected, "letter"), r.Applied, r.Superseded, words.Sum(r.Refused), words.Sum(r.Left))
}

// Text has a line for each outcome, and below them why dead letters were not applied.
func (r *Report) Text() string {
	refused, left := words.Sum(r.Refused), words.Sum(r.Left)
	said := [...]string{
		"applied", "superseded by newer records", words.Plural(refused, "failed again, posted as a new letter", "failed again, posted as new letters"),
		words.Plural(left, "left as it is", "left as they are"),
	}
	if r.DryRun {
		said = [...]string{
			"would be applied, if the service agrees", words.Plural(r.Superseded, "is superseded by newer records", "are superseded by newer records"),
			"would fail again", words.Plural(left, "would be left as it is", "would be left as they are"),
		}
	}
	var table outcomes
	table.add(r.Selected, words.Plural(r.Selected, "open dead letter selected", "open dead letters selected"))
	table.add(r.Applied, said[0])
	table.add(r.Superseded, said[1])
	table.add(refused, said[2]+words.ByWord(r.Refused))
	table.add(left, said[3]+words.ByWord(r.Left))
	const unfinished = "not come to an end; run again to go on"
	table.any(r.Selected-r.Applied-r.Superseded-refused-left, unfinished, unfinished)
	table.done(r.Done)
	const interrupted = " may have been sent by a run that did not end, and an older value may stand over a newer one; replay them, too"
	table.any(r.Interrupted, "other"+interrupted, "others"+interrupted)
	table.any(r.Foreign, deadletter.ForeignOne, deadletter.ForeignMany)
	notes := words.Few(r.Notes, func(n Note) []string {
		return []string{fmt.Sprintf("%s (letter %d:%d) %s, %s: %s", n.Record, n.Partition, n.Offset, n.Outcome, n.Why, words.OneLine(n.Message))}
	})
	if len(notes) > 0 {
		notes = append([]string{""}, notes...)
	}
	return strings.Join(append([]string{table.String()}, notes...), "\n")
}

// ProgressText is how far the run is, in one line.
func (r *BackfillReport) ProgressText() string {
	refused := fmt.Sprintf("%d refused", words.Sum(r.Refused))
	if r.Untold > 0 {
		refused += fmt.Sprintf(" (unknown of %d)", r.Untold)
	}
	return fmt.Sprintf("%d sent, %d newer, %s, %d left", r.Sent, r.Newer, refused, words.Sum(r.Left))
}

// Text is the report for a terminal.
func (r *BackfillReport) Text() string {
	about := ""
	if r.About {
		about = "about "
	}
	table := words.Table{
		{"mapping", r.Mapping + ", table " + r.Table},
		{"span", "records since " + r.Since.UTC().Format(time.RFC3339) + r.untilText()},
	}
	table.Count("records", r.Records, "")
	table.Add("keys", about+strconv.FormatInt(r.Keys, 10))
	table.CountAny("dead letters", r.DeadLetters, ", which never came to the table and count as not there")
	table.CountAny("without a key", r.NoKey, ", which would become further rows and are not sent again")
	if r.DryRun {
		r.planned(&table, about)
	} else {
		table.Count("sent", r.Sent, " by "+r.By)
	}
	if r.DryRun || r.By == ByCalls || r.Newer > 0 {
		table.Count("newer", r.Newer, " replaced by newer records since, which the sink sends")
	}
	table.CountAny("refused", words.Sum(r.Refused), words.ByWord(r.Refused))
	if r.Untold > 0 {
		table.Add("in error", fmt.Sprintf("unknown of %s: the service does not say", words.Counted(r.Untold, "row")))
	}
	table.CountAny("left", words.Sum(r.Left), words.ByWord(r.Left))
	lines := slices.Concat([]string{table.String()}, r.Gone, r.Former)
	return strings.Join(append(lines, words.Few(r.Notes, func(n BackfillNote) []string {
		return []string{fmt.Sprintf("the key of %s: %s: %s", n.Record, n.Why, words.OneLine(n.Message))}
	})...), "\n")
}

// OfFiles leaves out of a dry run's report what calls would leave: the backfill goes by file.
func (r *BackfillReport) OfFiles() {
	clear(r.Left)
	r.Notes = slices.DeleteFunc(r.Notes, func(n BackfillNote) bool { return n.Why != NeedsCall })
}

// planned is what each way would take, and which one it would be.
func (r *BackfillReport) planned(table *words.Table, about string) {
	if r.Callable {
		table.Add("calls", fmt.Sprintf("%s%d, which take %s at the rate", about, r.Calls, minutes(r.Minutes)))
	} else {
		table.Add("calls", "none: a call replaces a profile whole, which --as-calls allows")
	}
	switch f := r.Files; {
	case f == nil:
		table.Add("files", "none: all routes of the mapping lead to calls")
	case f.Why != "":
		table.Add("files", "not counted: "+f.Why)
	default:
		text := fmt.Sprintf("%s in %s; %d of today's are left for it", words.Counted(f.Rows, "row"), words.Counted(f.Imports, "import"), f.Left)
		if f.Unsaid > 0 {
			text += fmt.Sprintf("; %s can be said by calls only", words.Counted(f.Unsaid, "key"))
		}
		table.Add("files", text)
	}
	text := "calls, beside live traffic"
	if r.By == ByFile {
		text = "file: live traffic of the table waits while one is loaded"
	}
	table.Add("goes by", fmt.Sprintf("%s (%s)", text, r.Why))
}

func (r *BackfillReport) untilText() string {
	if r.Until.IsZero() {
		return ", up to what the sink had confirmed"
	}
	return " until " + r.Until.UTC().Format(time.RFC3339)
}

func minutes(n float64) string {
	if n < 1 {
		return "less than a minute"
	}
	return strings.TrimSuffix(time.Duration(n*float64(time.Minute)).Round(time.Minute).String(), "0s")
}
