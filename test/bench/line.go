package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// line is one line of the table: a job that is done twice.
type line struct {
	name  string
	floor string // what it is compared with
	unit  string // what is counted
	goal  goal
	job   job
}

// job is done by the sink and by its floor, on a topic with its events.
type job interface {
	events() events
	side(ctx context.Context, b *bench, topic string, floor bool) sample
}

// goal is what a line is to reach; a zero says nothing.
type goal struct {
	ratio, rate        float64 // of the rates, and the sink's per second: at least
	cpuRatio, cpu, rss float64 // CPU-seconds per million, and bytes: at most
}

// verdict is the goal as the table has it, each part with a mark where r misses it.
func (g goal) verdict(r *result) string {
	var parts []string
	for _, p := range []struct {
		text  string
		limit float64
		met   bool
	}{
		{fmt.Sprintf("≥ %.4g", g.ratio), g.ratio, r.Ratio >= g.ratio},
		{fmt.Sprintf("≥ %.0f/s", g.rate), g.rate, r.Sink.Rate >= g.rate},
		{fmt.Sprintf("CPU ≤ %.4g", g.cpuRatio), g.cpuRatio, r.CPURatio <= g.cpuRatio},
		{fmt.Sprintf("CPU ≤ %.4g s", g.cpu), g.cpu, r.Sink.CPU <= g.cpu},
		{fmt.Sprintf("RSS ≤ %.0f MB", g.rss/1e6), g.rss, r.Sink.RSS <= g.rss},
	} {
		if p.limit > 0 {
			parts = append(parts, verdict(p.text, p.met))
		}
	}
	return strings.Join(parts, ", ")
}

// lines are all there are. A quick one is short enough for every change, and
// too short for a figure to be quoted.
func lines(quick bool) []line {
	count := func(full, short int) int {
		if quick {
			return short
		}
		return full
	}
	decode := func(format schemas.Format, lane schemas.Lane, floor string, least float64) line {
		j := &decodeJob{format, lane, count(2_000_000, 200_000)}
		return line{fmt.Sprintf("decode, route, map %s, %v", format, lane), floor, "events", goal{ratio: least}, j}
	}
	const inOrder = "one call per partition (12)"
	call := func(what, floor string, latency time.Duration, inFlight int, g goal) line {
		j := &callJob{latency, inFlight, count(100_000, 20_000), "calls", inFlight, count(100_000, 20_000)}
		if latency == 0 {
			j.calls, j.floorCalls = 2*j.calls, 2*j.floorCalls
		}
		if floor == inOrder {
			j.workers, j.floorCalls = partitions, count(4000, 1000)
		}
		g.rss = 100e6
		return line{"immediate, " + what, floor, "calls", g, j}
	}
	batch := func(what string, visits schemas.Format, keys int, g goal) line {
		// The broker hands out long stretches of one partition after another, with
		// the keys of that partition again and again: a file that needs most of all
		// keys would be most of the topic. The last file may never be complete: what is
		// measured ends before it.
		j := &batchJob{visits: visits, all: count(3_000_000, 700_000), measure: count(1_400_000, 200_000), keys: keys, rows: min(count(200_000, 40_000), keys/4)}
		return line{"batch, " + what, "consume, decode, csv, gzip 6", "events", g, j}
	}
	return []line{
		decode(schemas.FormatJSON, schemas.Immediate, "json into a struct", 0.6),
		decode(schemas.FormatJSON, schemas.Batch, "json into a struct", 0.6),
		decode(schemas.FormatJSONSchema, schemas.Immediate, "json into a struct", 0),
		decode(schemas.FormatAvro, schemas.Immediate, "twmb/avro into a struct", 0.6),
		decode(schemas.FormatAvro, schemas.Batch, "twmb/avro into a struct", 0.6),
		decode(schemas.FormatProtobuf, schemas.Immediate, "protobuf-go into a dynamic message", 0),
		call("no latency, 64 in flight", "net/http loop, 64 workers", 0, 64, goal{ratio: 0.85, cpuRatio: 1.35}),
		call("5 ms, 64 in flight", "net/http loop, 64 workers", 5*time.Millisecond, 64, goal{ratio: 0.92}),
		call("20 ms, 256 in flight", "net/http loop, 256 workers", 20*time.Millisecond, 256, goal{ratio: 0.92}),
		call("20 ms, against in order", inOrder, 20*time.Millisecond, 256, goal{ratio: 16}),
		batch("JSON, 500,000 keys", "", 500_000, goal{rate: 250_000, cpu: 5}),
		batch("JSON, 50,000 keys", "", 50_000, goal{rate: 250_000, cpu: 5}),
		batch("Avro, 500,000 keys", schemas.FormatAvro, 500_000, goal{cpu: 4}),
	}
}

// comparison are lines whose floor is a loop that a team would write by hand.
func comparison() (all []line) {
	for _, l := range []struct {
		latency        time.Duration
		workers, calls int // of the loop
	}{{5 * time.Millisecond, 1, 2000}, {5 * time.Millisecond, partitions, 10_000}, {5 * time.Millisecond, 64, 40_000}, {0, 64, 100_000}} {
		all = append(all, line{
			fmt.Sprintf("immediate, %v, against a loop of %d", l.latency, l.workers), "kgo and net/http", "calls",
			goal{},
			&callJob{l.latency, 64, 100_000, "loop", l.workers, l.calls},
		})
	}
	return all
}

// measure runs both sides of a line as often, alternating which goes first.
func (b *bench) measure(ctx context.Context, l line, s series) result {
	topic := "bench-" + strings.NewReplacer(", ", "-", " ", "-", ",", "").Replace(l.name)
	return apart(b, func() result {
		b.fill(ctx, topic, l.job.events())
		pairs, counted := repeat(b, s, func(i int) pair[sample] {
			return alternate(b, i, func(floor bool) sample { return l.job.side(ctx, b, topic, floor) })
		})
		return newResult(l, pairs, counted)
	})
}

// result is a line with its figures.
type result struct {
	Name     string     `json:"name"`
	Unit     string     `json:"unit"`
	FloorIs  string     `json:"floorIs"`
	Sink     sample     `json:"sink"`
	Floor    sample     `json:"floor"`
	Ratio    float64    `json:"ratio"`  // median of the repetitions' ratios
	Spread   [2]float64 `json:"spread"` // the lowest and the highest of them
	CPURatio float64    `json:"cpuRatio"`
	Goal     string     `json:"goal"`
	Counted  counted    `json:"repetitions"`
}

func newResult(l line, pairs []pair[sample], c counted) result {
	ratios := over(pairs, func(p pair[sample]) float64 { return p.sink.Rate / p.floor.Rate })
	r := result{
		Name: l.name, Unit: l.unit, FloorIs: l.floor, Counted: c,
		Sink:  medians(pairs, func(p pair[sample]) sample { return p.sink }),
		Floor: medians(pairs, func(p pair[sample]) sample { return p.floor }),
		Ratio: ratios.median(), Spread: [2]float64{slices.Min(ratios), slices.Max(ratios)},
		CPURatio: over(pairs, func(p pair[sample]) float64 { return p.sink.CPU / p.floor.CPU }).median(),
	}
	r.Goal = l.goal.verdict(&r)
	return r
}

// medians are of one side; of the memory it is the highest peak.
func medians[T any](all []T, side func(T) sample) sample {
	of := func(figure func(sample) float64) spread {
		return over(all, func(one T) float64 { return figure(side(one)) })
	}
	return sample{
		Rate:   of(func(s sample) float64 { return s.Rate }).median(),
		CPU:    of(func(s sample) float64 { return s.CPU }).median(),
		RSS:    slices.Max(of(func(s sample) float64 { return s.RSS })),
		Allocs: of(func(s sample) float64 { return s.Allocs }).median(),
	}
}

// row is the result as the table has it, under lineHead.
func (r *result) row() []string {
	return []string{
		r.Name, fmt.Sprintf("%.0f %s/s", r.Sink.Rate, r.Unit), fmt.Sprintf("%.0f/s", r.Floor.Rate),
		fmt.Sprintf("%.2f", r.Ratio), fmt.Sprintf("%.2f–%.2f", r.Spread[0], r.Spread[1]), r.Goal,
		fmt.Sprintf("%.1f", r.Sink.CPU), fmt.Sprintf("%.1f", r.Floor.CPU), fmt.Sprintf("%.2f", r.CPURatio),
		fmt.Sprintf("%.0f MB", r.Sink.RSS/1e6), fmt.Sprintf("%.1f", r.Sink.Allocs), fmt.Sprintf("%.1f", r.Floor.Allocs), r.Counted.String(),
	}
}

var lineHead = []string{"what", "sink", "floor", "ratio", "spread", "goal", "CPU-s/M sink", "floor", "ratio", "RSS", "allocs", "floor", "repetitions"}

// calm is the share of the processors' time that the host may take from a repetition
// that is not run again.
const calm = 0.05

// series is how often both sides of a line, and most scenarios, are run.
type series struct {
	count int // of the repetitions that count
	most  int // that are run for it
	read  func() processors
}

func repetitions(quick bool) series {
	if quick {
		return series{1, 1, readProcessors}
	}
	return series{3, 6, readProcessors}
}

// counted says which repetitions count.
type counted struct {
	Count  int     `json:"count"`
	Of     int     `json:"of"`     // that were run
	Stolen float64 `json:"stolen"` // by the host, the largest share in one that counts
}

func (c counted) String() string {
	return fmt.Sprintf("%d of %d, host took ≤ %.0f %%", c.Count, c.Of, 100*c.Stolen)
}

// finding is how a scenario says it.
func (c counted) finding() finding { return note("repetitions that count", "%v", c) }

// repeat runs repetitions until as many are calm as count, or the most were run. The
// calmest count, and are returned: what the host took decides, never what came out.
// Where the system does not tell, all are calm.
func repeat[T any](b *bench, s series, once func(i int) T) (all []T, c counted) {
	type run struct {
		result T
		stolen float64
	}
	var runs []run
	for quiet := 0; quiet < s.count && len(runs) < s.most; {
		before := s.read()
		r := run{result: apart(b, func() T { return once(len(runs)) })}
		if r.stolen = s.read().stolenSince(before); r.stolen <= calm {
			quiet++
		}
		runs = append(runs, r)
	}
	slices.SortStableFunc(runs, func(a, b run) int { return cmp.Compare(a.stolen, b.stolen) })
	for _, r := range runs[:s.count] {
		all = append(all, r.result)
	}
	return all, counted{Count: s.count, Of: len(runs), Stolen: runs[s.count-1].stolen}
}

// pair is one repetition of what is done twice: the two that ran one after the other.
type pair[T any] struct{ floor, sink T }

// alternate runs both sides of repetition i: the floor first, and in every second
// repetition the sink.
func alternate[T any](b *bench, i int, side func(floor bool) T) (p pair[T]) {
	for _, floor := range []bool{i%2 == 0, i%2 != 0} {
		result := apart(b, func() T { return side(floor) })
		if floor {
			p.floor = result
		} else {
			p.sink = result
		}
	}
	return p
}

// spread is a figure of every repetition, at least of one.
type spread []float64

// over takes a figure from each repetition.
func over[T any](all []T, figure func(T) float64) (s spread) {
	for _, one := range all {
		s = append(s, figure(one))
	}
	return s
}

func (s spread) median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

func (s spread) mean() (mean float64) {
	for _, figure := range s {
		mean += figure / float64(len(s))
	}
	return mean
}

// text is the median, with the lowest and the highest behind it if there was more
// than one: "14.1 ms (12.9–20.6)".
func (s spread) text(digits int, unit string) string {
	text := fmt.Sprintf("%.*f%s", digits, s.median(), unit)
	if len(s) > 1 {
		text += fmt.Sprintf(" (%.*f–%.*f)", digits, slices.Min(s), digits, slices.Max(s))
	}
	return text
}
