package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
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
	RSS  int64   `json:"rss"`  // peak, in bytes, of all repetitions

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
}

func newResult(l line, pairs []pair) result {
	r := result{Name: l.name, Unit: l.unit, FloorIs: l.floor, Goal: l.goal}
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
	Quick   bool     `json:"quick"`
	Lines   []result `json:"lines"`
}

func (r *report) write(to io.Writer, format string) error {
	if format == "json" {
		out := json.NewEncoder(to)
		out.SetIndent("", "  ")
		return out.Encode(r)
	}
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "what\tsink\tfloor\tratio\tspread\tgoal\tCPU-s/M sink\tfloor\tratio\tRSS\tallocs\tfloor") // kept until Flush
	for i := range r.Lines {
		l := &r.Lines[i]
		_, _ = fmt.Fprintf(table, "%s\t%.0f %s/s\t%.0f/s\t%.2f\t%.2f–%.2f\t%s\t%.1f\t%.1f\t%.2f\t%.0f MB\t%.1f\t%.1f\n",
			l.Name, l.Sink.Rate, l.Unit, l.Floor.Rate, l.Ratio, l.Spread[0], l.Spread[1], l.Goal.describe(l),
			l.Sink.CPU, l.Floor.CPU, l.CPURatio, float64(l.Sink.RSS)/1e6, l.Sink.Allocs, l.Floor.Allocs)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	how := "medians of three repetitions"
	if r.Quick {
		how = "one short repetition: good to see that nothing broke, not to be quoted"
	}
	_, err := fmt.Fprintf(to, "\n%s; %s\n", r.Machine, how)
	return err
}

// machine says where the figures come from.
func machine() string {
	return fmt.Sprintf("%d × %s, %s %s/%s, load before %s", runtime.NumCPU(), processor(), runtime.Version(), runtime.GOOS, runtime.GOARCH, load())
}

func processor() string {
	info, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "CPU of unknown kind"
	}
	defer func() { _ = info.Close() }()
	for lines := bufio.NewScanner(info); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "CPU of unknown kind"
}

// load is what else kept the machine busy in the last minute.
func load() string {
	averages, _ := os.ReadFile("/proc/loadavg") // not everywhere
	minute, _, _ := strings.Cut(string(averages), " ")
	return cmp.Or(minute, "unknown")
}
