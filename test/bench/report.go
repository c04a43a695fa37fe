package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
)

// pair is one repetition: the two that ran side by side.
type pair struct{ floor, sink sample }

// goal is what a line is to reach; a zero says nothing.
type goal struct {
	Ratio    float64 `json:"ratio,omitempty"`    // of the rates, at least
	CPURatio float64 `json:"cpuRatio,omitempty"` // of the CPU per event, at most
	Rate     float64 `json:"rate,omitempty"`     // per second, at least
	CPU      float64 `json:"cpu,omitempty"`      // CPU-seconds per million, at most
	RSS      float64 `json:"rss,omitempty"`      // bytes, at most
}

// describe is the goal as the table shows it, with a mark where r misses it.
func (g goal) describe(r *result) string {
	var parts []string
	part := func(text string, met bool) {
		if !met {
			text += " (missed)"
		}
		parts = append(parts, text)
	}
	if g.Ratio > 0 {
		part(fmt.Sprintf("≥ %.4g", g.Ratio), r.Ratio >= g.Ratio)
	}
	if g.Rate > 0 {
		part(fmt.Sprintf("≥ %.0f/s", g.Rate), r.Sink.Rate >= g.Rate)
	}
	if g.CPURatio > 0 {
		part(fmt.Sprintf("CPU ≤ %.4g", g.CPURatio), r.CPURatio <= g.CPURatio)
	}
	if g.CPU > 0 {
		part(fmt.Sprintf("CPU ≤ %.4g s", g.CPU), r.Sink.CPU <= g.CPU)
	}
	if g.RSS > 0 {
		part(fmt.Sprintf("RSS ≤ %.0f MB", g.RSS/1e6), float64(r.Sink.RSS) <= g.RSS)
	}
	return strings.Join(parts, ", ")
}

// figures are the medians of one side.
type figures struct {
	Rate float64 `json:"rate"` // per second
	CPU  float64 `json:"cpu"`  // CPU-seconds per million
	RSS  int64   `json:"rss"`  // peak, in bytes, of the repetitions that count

	Allocs float64 `json:"allocs"` // per event or call
}

// result is a line with its figures.
type result struct {
	Name     string     `json:"name"`
	Unit     string     `json:"unit"`
	FloorIs  string     `json:"floorIs"`
	Sink     figures    `json:"sink"`
	Floor    figures    `json:"floor"`
	Ratio    float64    `json:"ratio"`  // median of the repetitions' ratios
	Spread   [2]float64 `json:"spread"` // the lowest and the highest of them
	CPURatio float64    `json:"cpuRatio"`
	Goal     goal       `json:"goal"`
	Counted  counted    `json:"repetitions"`
}

func newResult(l line, pairs []pair, c counted) result {
	r := result{Name: l.name, Unit: l.unit, FloorIs: l.floor, Goal: l.goal, Counted: c}
	var sinks, floors []sample
	var ratios, cpuRatios []float64
	for _, p := range pairs {
		sinks, floors = append(sinks, p.sink), append(floors, p.floor)
		ratios = append(ratios, p.sink.rate/p.floor.rate)
		cpuRatios = append(cpuRatios, p.sink.cpu/p.floor.cpu)
	}
	r.Sink, r.Floor = newFigures(sinks), newFigures(floors)
	r.Ratio, r.CPURatio = median(ratios), median(cpuRatios)
	r.Spread = [2]float64{slices.Min(ratios), slices.Max(ratios)}
	return r
}

func newFigures(samples []sample) (f figures) {
	var rates, cpus, allocs []float64
	for _, s := range samples {
		rates, cpus, allocs = append(rates, s.rate), append(cpus, s.cpu), append(allocs, s.allocs)
		f.RSS = max(f.RSS, s.rss)
	}
	f.Rate, f.CPU, f.Allocs = median(rates), median(cpus), median(allocs)
	return f
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// report is everything that is printed.
type report struct {
	Machine string   `json:"machine"`
	Commit  string   `json:"commit"`
	Quick   bool     `json:"quick"`
	Lines   []result `json:"lines,omitempty"`
	// Scenarios are in the order they were run.
	Scenarios []outcome `json:"scenarios,omitempty"`

	// What the host took of the processors, as a share: while the lines were
	// measured, and from the beginning to the end. nil: the system does not tell.
	LinesStolen *float64 `json:"linesStolen,omitempty"`
	Stolen      *float64 `json:"stolen,omitempty"`
}

// outcome is what a scenario found.
type outcome struct {
	Name     string    `json:"name"`
	Findings []finding `json:"findings"`
	Repeated bool      `json:"repeated"`         // the figures are medians of all repetitions
	Stolen   *float64  `json:"stolen,omitempty"` // by the host meanwhile
}

func (r *report) write(to io.Writer, format string) error {
	if format == "json" {
		out := json.NewEncoder(to)
		out.SetIndent("", "  ")
		return out.Encode(r)
	}
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, row := range r.lineRows() {
		_, _ = fmt.Fprintln(table, strings.Join(row, "\t")) // kept until Flush
	}
	for _, o := range r.Scenarios {
		_, _ = fmt.Fprintf(table, "\n%s\n", o.Name)
		for _, f := range o.Findings {
			_, _ = fmt.Fprintf(table, "  %s\t%s\t%s\n", f.What, f.Got, f.verdict())
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	once := slices.ContainsFunc(r.Scenarios, func(o outcome) bool { return !o.Repeated })
	_, err := fmt.Fprintf(to, "\n%s\n", r.origin(!once, r.Stolen))
	return err
}

// verdict is the goal, with a mark if it is missed.
func (f finding) verdict() string {
	if f.Met {
		return f.Goal
	}
	return f.Goal + " (missed)"
}

// lineRows are the table of the lines, with its head; none without lines.
func (r *report) lineRows() [][]string {
	if len(r.Lines) == 0 {
		return nil
	}
	rows := [][]string{{"what", "sink", "floor", "ratio", "spread", "goal", "CPU-s/M sink", "floor", "ratio", "RSS", "allocs", "floor", "repetitions"}}
	for i := range r.Lines {
		l := &r.Lines[i]
		rows = append(rows, []string{
			l.Name, fmt.Sprintf("%.0f %s/s", l.Sink.Rate, l.Unit), fmt.Sprintf("%.0f/s", l.Floor.Rate),
			fmt.Sprintf("%.2f", l.Ratio), fmt.Sprintf("%.2f–%.2f", l.Spread[0], l.Spread[1]), l.Goal.describe(l),
			fmt.Sprintf("%.1f", l.Sink.CPU), fmt.Sprintf("%.1f", l.Floor.CPU), fmt.Sprintf("%.2f", l.CPURatio),
			fmt.Sprintf("%.0f MB", float64(l.Sink.RSS)/1e6), fmt.Sprintf("%.1f", l.Sink.Allocs), fmt.Sprintf("%.1f", l.Floor.Allocs), l.Counted.String(),
		})
	}
	return rows
}

// origin says where figures come from and what they are worth: whether they are
// medians, and what the host took while they were measured.
func (r *report) origin(repeated bool, stolen *float64) string {
	how := ""
	switch {
	case r.Quick:
		how = "; one short repetition: good to see that nothing broke, not to be quoted"
	case repeated:
		how = "; medians of three repetitions"
	}
	return r.Machine + hostTook(stolen) + "; commit " + r.Commit + how
}

// commit is what was built, as far as the source's repository tells.
func commit(ctx context.Context) string {
	head, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(head))
	if changed, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--", ":!"+resultsFile).Output(); err != nil || len(changed) > 0 {
		name += ", changed since"
	}
	return name
}
