package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/connector/words"
)

// Text is the report for a terminal; file is the configuration's.
func (r *Report) Text(file string) string {
	var text words.Lines
	if len(r.BeforeRun) > 0 {
		text.Add("before a sink starts with this configuration:")
		for _, problem := range r.BeforeRun {
			text.Add("  %s", problem.In(file))
		}
		text.Add("")
	}
	for _, t := range r.Topics {
		text.Add("topic %s: %d of %s read%s", t.Name, t.Sampled, words.Counted(t.Stored, "record"), t.spanText())
		if t.Skipped > 0 {
			text.Add("  skipped        %d, which no mapping takes", t.Skipped)
		}
	}
	for _, m := range r.Mappings {
		bundle := ""
		if m.Bundle != "" {
			bundle = ", by files of the bundle " + m.Bundle + ", whose day is told"
		}
		text.Add("\nmapping %s: %s for table %s%s", m.Name, words.Counted(m.Records, "record"), m.Table, bundle)
		if m.Calls != nil {
			m.Calls.add(&text)
		}
		if m.Files != nil {
			m.Files.add(&text)
		}
		for _, n := range m.NoEffect {
			text.Add("  no effect      %s", n)
		}
		if missing := NotFoundText(m.NotFound); missing != "" {
			text.Add("  not found      %s", missing)
		}
		if m.OtherKeys != "" {
			text.Add("  other keys     %s", m.OtherKeys)
		}
		if m.Skipped > 0 {
			text.Add("  skipped        %d", m.Skipped)
		}
		if m.DeadLetters > 0 {
			text.Add("  dead letters   %d", m.DeadLetters)
		}
		if m.Lanes != nil {
			m.Lanes.add(&text)
		}
	}
	if len(r.DeadLetters) == 0 {
		text.Add("\nno record would be a dead letter")
		return text.Text()
	}
	text.Add("\ndead letters:")
	for _, g := range r.DeadLetters {
		mapping := ""
		if g.Mapping != "" {
			mapping = g.Mapping + ", "
		}
		text.Add("  %6d  %s%s: %s (%s)", g.Count, mapping, g.Code, g.Message, strings.Join(g.Where, ", "))
	}
	return text.Text()
}

func (t *Topic) spanText() string {
	if t.Sampled == 0 {
		return ""
	}
	return fmt.Sprintf(", %s to %s", t.First.UTC().Format(time.RFC3339), t.Last.UTC().Format(time.RFC3339))
}

const tooShort = "the sample spans less than a minute, which says nothing of a day"

func (c *Calls) add(text *words.Lines) {
	text.Add("  calls          %d for %s (%s)", c.Calls, words.Counted(c.Writes, "write"), opsText(c.ByOp))
	if c.PerDay > 0 {
		text.Add("    a day        about %d, at most %d in a minute", c.PerDay, c.PeakMinute)
	} else {
		text.Add("    a day        %s", tooShort)
	}
	forgotten := ""
	if c.Forgotten > 0 {
		forgotten = fmt.Sprintf("; less, if memory.unchanged is not made larger: it may have no room for %s", words.Counted(c.Forgotten, "key"))
	}
	switch {
	case c.Unchanged > 0:
		text.Add("    unchanged    %d of %s not made: they would say what the last one said%s", c.Unchanged, words.Counted(c.Calls+c.Unchanged, "call"), forgotten)
	case c.CouldSkip*10 >= c.Calls && c.CouldSkip > 0:
		text.Add("    unchanged    %d of %s say what the last one said: `unchanged: skip` would save them%s", c.CouldSkip, words.Counted(c.Calls, "call"), forgotten)
	}
	others := ""
	if c.PeakRateAll > c.PeakRate {
		others = ", with those of other mappings,"
	}
	switch {
	case c.RateTooLow:
		text.Add("    rate         TOO LOW: %s%s came in a span for which service.rate allows %d; they would wait", words.Counted(c.PeakRateAll, "call"), others, c.RateLimit)
	case c.RateLimit > 0:
		text.Add("    rate         suffices: at most %s%s came in a span for which service.rate allows %d", words.Counted(c.PeakRateAll, "call"), others, c.RateLimit)
	}
	for _, r := range c.Requests {
		text.Add("    %s %s", r.Method, r.Path)
		if r.Body != "" {
			text.Add("      %s", r.Body)
		}
	}
}

func (f *Files) add(text *words.Lines) {
	text.Add("  file           %s for %s (%s), %s uncompressed", words.Counted(f.Rows, "row"), words.Counted(f.Writes, "write"), opsText(f.ByOp), words.Counted(f.Bytes, "byte"))
	if f.Day == nil {
		text.Add("    a day        %s", tooShort)
	} else {
		f.Day.add(text)
	}
	for _, c := range f.CSV {
		text.Add("    %s:", c.Op)
		for _, line := range c.Lines {
			text.Add("      %s", line)
		}
	}
}

func (d *Day) add(text *words.Lines) {
	aDay := fmt.Sprintf("up to %s in %s by %s: %s", words.Counted(d.Rows, "row"), words.Counted(d.Files, "file"), d.Limit, words.Counted(d.Imports, "import"))
	if !d.TooMany {
		aDay += fmt.Sprintf(", about every %s", d.Every)
	}
	if d.AtMost {
		aDay += "; fewer, if calls carry rows before"
	}
	text.Add("    a day        %s", aDay)
	switch {
	case d.Behind:
		text.Add("    slots        do not suffice: %d a day, each for a file of maxFile.rows at most; more rows come than go", d.Slots)
	case d.TooMany:
		text.Add("    slots        %d a day: files grow and go out about every %s", d.Slots, d.Every)
	default:
		text.Add("    slots        suffice: %d a day, besides the reserve", d.Slots)
	}
}

func (l *Lanes) add(text *words.Lines) {
	since := ""
	if !l.Since.IsZero() {
		since = " since " + l.Since.UTC().Format(time.RFC3339) + ", of all partitions,"
	}
	text.Add("  lanes          if all of these records%s took one:", since)
	for _, c := range l.Choices {
		cost := "no calls"
		if c.Calls > 0 {
			cost = fmt.Sprintf("%s, at most %d a day", words.Counted(c.Calls, "call"), c.CallsDay)
		}
		if c.Imports > 0 {
			cost += fmt.Sprintf("; %s for %s, at most %s a day", words.Counted(c.Imports, "import"), words.Counted(c.ByFile, "row"), words.Counted(c.SlotsDay, "slot"))
		}
		text.Add("    %-12s %s", c.Lane, cost)
		left := ""
		if c.Left > 0 {
			left = fmt.Sprintf("; %s after a year not there yet", words.Counted(c.Left, "row"))
		}
		text.Add("                 99 %% there within %s, the oldest within %s; %.1f hours of stale rows%s", Span(c.P99), Span(c.Oldest), c.RowHours, left)
	}
	for _, out := range l.LeftOut {
		text.Add("    %-12s cannot: %s", out.Lane, out.Reason)
	}
	if l.Recommended != "" {
		text.Add("    recommended  %s: %s", l.Recommended, l.Reason)
	}
}

func opsText(byOp map[string]int64) string {
	var parts []string
	for _, op := range slices.Sorted(maps.Keys(byOp)) {
		parts = append(parts, fmt.Sprintf("%d %s", byOp[op], op))
	}
	return strings.Join(parts, ", ")
}
