package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/plan"
)

func newPlan() *cobra.Command {
	var sample ops.Sample
	var show bool
	cmd := &cobra.Command{
		Use:   "plan -c FILE",
		Short: "Read a sample of the topics and show what would go out; send and commit nothing",
		Long: "plan reads the last records of the configured topics, outside of any consumer group, and shows what a sink would\n" +
			"make of them: calls, rows, files and imports, whether the day's imports and service.rate suffice if every day were\n" +
			"as the sample, which records would be dead letters, and why, and which paths no record has.\n" +
			"Neither ETLs nor the service's API key need be there yet. --show prints requests and lines of CSV: customers' data.\n\n" +
			"Calls that say what the last one of their key has said are counted: what `unchanged: skip` saves or, where it could be\n" +
			"set and that is a tenth of them at least, would save. A sink forgets keys that it has no room for, and at a restart: it saves less.\n\n" +
			"It also compares the lanes immediate, batch and auto for all of a mapping's records: calls, imports, slots and how\n" +
			"old rows get, and recommends one. For that it plays the sample once, minute by minute: it begins with nothing waiting,\n" +
			"ends when all rows have landed, an import takes two minutes and none fails, service.rate is spread evenly and divided\n" +
			"by weights among the mappings that make calls (without it no call waits), writes of a key within a second are one row\n" +
			"and no more rows wait than there are keys. Read as long a span as you can: a snapshot in it decides.",
		Example: "  feedsink plan -c feedsink.yaml\n" +
			"  feedsink plan -c feedsink.yaml --since 24h --limit 1000000 -o json\n" +
			"  feedsink plan -c feedsink.yaml --limit 1000 --show",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if sample.Limit < 1 || sample.Since < 0 {
				return usagef("--limit must be above 0, and --since not below it")
			}
			cfg, err := loadForPlan(cmd)
			if err != nil {
				return err
			}
			if show {
				sample.Show = 2
			}
			bar := newReading(cmd)
			sample.Progress = bar.at
			report, err := ops.Plan(cmd.Context(), cfg, sample)
			bar.end()
			if err != nil {
				return err
			}
			report.BeforeRun = beforeRun(configFile(cmd))
			return printResult(cmd, report, planText(configFile(cmd), report))
		},
	}
	configFlag(cmd)
	outputFlag(cmd)
	cmd.Flags().Int64Var(&sample.Limit, "limit", 100_000, "how many records to read, the last ones of all partitions")
	cmd.Flags().DurationVar(&sample.Since, "since", 0, "only records of this last span of time, such as 24h")
	cmd.Flags().BoolVar(&show, "show", false, "also print some of the requests and lines of CSV")
	return cmd
}

// loadForPlan reads a configuration whose secrets of the service, of the admin server and
// of receipts may be missing, too: neither server is asked, and no receipt is written. What
// is missing is part of the report.
func loadForPlan(cmd *cobra.Command) (*config.Config, error) {
	cfg, err := loadUnfinished(cmd)
	problems, ok := errors.AsType[*config.Problems](err)
	if !ok || slices.ContainsFunc(problems.List, func(p config.Problem) bool {
		return !strings.HasPrefix(p.Path, "service.") && !strings.HasPrefix(p.Path, "admin.") && p.Path != "receipts.keyFile"
	}) {
		return cfg, err
	}
	cfg, err = config.LoadForSamples(configFile(cmd), os.LookupEnv)
	return cfg, asUsage(err)
}

// beforeRun is what a sink would refuse to start with, apart from ETLs that have
// still to be created.
func beforeRun(file string) []config.Problem {
	_, err := loadConfig(file)
	problems, ok := errors.AsType[*config.Problems](err)
	if !ok {
		return nil
	}
	return slices.DeleteFunc(problems.List, func(p config.Problem) bool {
		return strings.HasSuffix(p.Path, ".etl") && p.Message == "missing"
	})
}

func planText(file string, r plan.Report) string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if len(r.BeforeRun) > 0 {
		p("before a sink starts with this configuration:")
		for _, problem := range r.BeforeRun {
			p("  %s", problem.In(file))
		}
		p("")
	}
	for _, t := range r.Topics {
		p("topic %s: %d of %s read%s", t.Name, t.Sampled, counted(t.Stored, "record"), spanText(t))
		if t.Skipped > 0 {
			p("  skipped        %d, which no mapping takes", t.Skipped)
		}
	}
	for _, m := range r.Mappings {
		bundle := ""
		if m.Bundle != "" {
			bundle = ", by files of the bundle " + m.Bundle + ", whose day is told"
		}
		p("\nmapping %s: %s for table %s%s", m.Name, counted(m.Records, "record"), m.Table, bundle)
		if m.Calls != nil {
			callsText(p, m.Calls)
		}
		if m.Files != nil {
			filesText(p, m.Files)
		}
		for _, n := range m.NoEffect {
			p("  no effect      %s", n)
		}
		if text := plan.NotFoundText(m.NotFound); text != "" {
			p("  not found      %s", text)
		}
		if m.Skipped > 0 {
			p("  skipped        %d", m.Skipped)
		}
		if m.DeadLetters > 0 {
			p("  dead letters   %d", m.DeadLetters)
		}
		if m.Lanes != nil {
			lanesText(p, m.Lanes)
		}
	}
	if len(r.DeadLetters) == 0 {
		p("\nno record would be a dead letter")
		return strings.TrimRight(b.String(), "\n")
	}
	p("\ndead letters:")
	for _, g := range r.DeadLetters {
		mapping := ""
		if g.Mapping != "" {
			mapping = g.Mapping + ", "
		}
		p("  %6d  %s%s: %s (%s)", g.Count, mapping, g.Code, g.Message, strings.Join(g.Where, ", "))
	}
	return strings.TrimRight(b.String(), "\n")
}

func spanText(t plan.Topic) string {
	if t.Sampled == 0 {
		return ""
	}
	return fmt.Sprintf(", %s to %s", t.First.UTC().Format(time.RFC3339), t.Last.UTC().Format(time.RFC3339))
}

const tooShort = "the sample spans less than a minute, which says nothing of a day"

func callsText(p func(string, ...any), c *plan.Calls) {
	p("  calls          %d for %s (%s)", c.Calls, counted(c.Writes, "write"), counts(c.ByOp))
	if c.PerDay > 0 {
		p("    a day        about %d, at most %d in a minute", c.PerDay, c.PeakMinute)
	} else {
		p("    a day        %s", tooShort)
	}
	forgotten := ""
	if c.Forgotten > 0 {
		forgotten = fmt.Sprintf("; less, if memory.unchanged is not made larger: it may have no room for %s", counted(c.Forgotten, "key"))
	}
	switch {
	case c.Unchanged > 0:
		p("    unchanged    %d of %s not made: they would say what the last one said%s", c.Unchanged, counted(c.Calls+c.Unchanged, "call"), forgotten)
	case c.CouldSkip*10 >= c.Calls && c.CouldSkip > 0:
		p("    unchanged    %d of %s say what the last one said: `unchanged: skip` would save them%s", c.CouldSkip, counted(c.Calls, "call"), forgotten)
	}
	switch {
	case c.RateTooLow:
		p("    rate         TOO LOW: %s came in a span for which service.rate allows %d; they would wait", counted(c.PeakRate, "call"), c.RateLimit)
	case c.RateLimit > 0:
		p("    rate         suffices: at most %s came in a span for which service.rate allows %d", counted(c.PeakRate, "call"), c.RateLimit)
	}
	for _, r := range c.Requests {
		p("    %s %s", r.Method, r.Path)
		if r.Body != "" {
			p("      %s", r.Body)
		}
	}
}

func filesText(p func(string, ...any), f *plan.Files) {
	p("  file           %s for %s (%s), %s uncompressed", counted(f.Rows, "row"), counted(f.Writes, "write"), counts(f.ByOp), counted(f.Bytes, "byte"))
	switch d := f.Day; {
	case d == nil:
		p("    a day        %s", tooShort)
	case d.Behind:
		p("    a day        up to %s in %s by %s: %s", counted(d.Rows, "row"), counted(d.Files, "file"), d.Limit, counted(d.Imports, "import"))
		p("    slots        do not suffice: %d a day, each for a file of maxFile.rows at most; more rows come than go", d.Slots)
	case d.TooMany:
		p("    a day        up to %s in %s by %s: %s", counted(d.Rows, "row"), counted(d.Files, "file"), d.Limit, counted(d.Imports, "import"))
		p("    slots        %d a day: files grow and go out about every %s", d.Slots, d.Every)
	default:
		p("    a day        up to %s in %s by %s: %s, about every %s", counted(d.Rows, "row"), counted(d.Files, "file"), d.Limit, counted(d.Imports, "import"), d.Every)
		p("    slots        suffice: %d a day, besides the reserve", d.Slots)
	}
	for _, c := range f.CSV {
		p("    %s:", c.Op)
		for _, line := range c.Lines {
			p("      %s", line)
		}
	}
}

func lanesText(p func(string, ...any), l *plan.Lanes) {
	p("  lanes          if all of these records took one:")
	for _, c := range l.Choices {
		cost := "no calls"
		if c.Calls > 0 {
			cost = fmt.Sprintf("%s, at most %d a day", counted(c.Calls, "call"), c.CallsDay)
		}
		if c.Imports > 0 {
			cost += fmt.Sprintf("; %s for %s, at most %s a day", counted(c.Imports, "import"), counted(c.ByFile, "row"), counted(c.SlotsDay, "slot"))
		}
		p("    %-12s %s", c.Lane, cost)
		left := ""
		if c.Left > 0 {
			left = fmt.Sprintf("; %s after a year not there yet", counted(c.Left, "row"))
		}
		p("                 99 %% there within %s, the oldest within %s; %.1f hours of stale rows%s", plan.Span(c.P99), plan.Span(c.Oldest), c.RowHours, left)
	}
	for _, out := range l.LeftOut {
		p("    %-12s cannot: %s", out.Lane, out.Reason)
	}
	if l.Recommended != "" {
		p("    recommended  %s: %s", l.Recommended, l.Reason)
	}
}

func counts(byOp map[string]int64) string {
	var parts []string
	for _, op := range slices.Sorted(maps.Keys(byOp)) {
		parts = append(parts, fmt.Sprintf("%d %s", byOp[op], op))
	}
	return strings.Join(parts, ", ")
}
