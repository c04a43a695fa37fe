package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// growingBacklogs are those that the sink is to be indifferent to.
func growingBacklogs(ctx context.Context, f *field, quick bool) ([]finding, error) {
	if quick {
		return growth(ctx, f, []int64{1e6, 3e6}, repetitions(true))
	}
	// With one and the same backlog everywhere, single trips differed by -2 to 24 %:
	// processors that others share have slow spells about as long as a few calls take.
	trips := series{9, 12, readTicks}
	return growth(ctx, f, []int64{1e6, 10e6, 50e6}, trips)
}

// growth is whether a record costs more when more of them wait: CPU and memory
// at each backlog. The batch lane works records off while the backlog is filled
// up again behind it, so that each backlog has as much time to show what it
// takes; the immediate lane makes its first calls, a few seconds each, which are
// repeated. The backlogs are measured there and back, and what is compared are means:
// a machine that gets slower meanwhile does not look like growth.
func growth(ctx context.Context, f *field, backlogs []int64, short series) (found []finding, err error) {
	const tape = 1_000_000
	if err := f.produce(ctx, endlessTopic, tape, recurring(500_000, event)); err != nil {
		return nil, err
	}
	lanes := []struct {
		lane    schemas.Lane
		series  series
		measure func(ctx context.Context, backlog int64) (sample, error)
	}{
		{schemas.Batch, repetitions(true), func(ctx context.Context, backlog int64) (sample, error) {
			// Even a short one until the sink's memory is where it stays.
			return f.workOff(ctx, backlog, max(backlog*3/4, backlogs[len(backlogs)-1]/5))
		}},
		{schemas.Immediate, short, f.firstCalls},
	}
	for _, l := range lanes {
		trips, counted, err := repeat(l.series, func(int) ([]cost, error) { return f.thereAndBack(ctx, backlogs, l.measure) })
		if err != nil {
			return nil, err
		}
		found = append(found, grown(l.lane, backlogs, trips)...)
		found = append(found, note(fmt.Sprintf("%v, %s", l.lane, repetitionsName), "%v", counted))
	}
	return found, nil
}

// cost is what a record costs at one backlog: means of there and back.
type cost struct{ cpu, rss, rate float64 }

// thereAndBack measures each backlog but the last twice.
func (f *field) thereAndBack(ctx context.Context, backlogs []int64, measure func(context.Context, int64) (sample, error)) ([]cost, error) {
	samples := make([][]sample, len(backlogs))
	last := len(backlogs) - 1
	for step := range 2*last + 1 {
		i := min(step, 2*last-step)
		if err := f.broker.set(ctx, backlogs[i]); err != nil {
			return nil, err
		}
		s, err := measure(ctx, backlogs[i])
		if err != nil {
			return nil, fmt.Errorf("backlog of %d: %w", backlogs[i], err)
		}
		samples[i] = append(samples[i], s)
	}
	costs := make([]cost, len(backlogs))
	for i, of := range samples {
		n := float64(len(of))
		for _, s := range of {
			costs[i].cpu += s.cpu / n
			costs[i].rss += float64(s.rss) / n
			costs[i].rate += s.rate / n
		}
	}
	return costs, nil
}

// grown takes, of each trip there and back, what a record cost at each backlog.
func grown(lane schemas.Lane, backlogs []int64, trips [][]cost) (found []finding) {
	cpu, rss := func(c cost) float64 { return c.cpu }, func(c cost) float64 { return c.rss }
	of := func(i int, figure func(cost) float64) spread {
		return over(trips, func(trip []cost) float64 { return figure(trip[i]) })
	}
	for i, backlog := range backlogs {
		found = append(found, note(fmt.Sprintf("%v, backlog of %d million", lane, backlog/1e6),
			"%s CPU-s per million, peak RSS %.0f MB, %.0f/s", of(i, cpu).text(2, ""), of(i, rss).median()/1e6,
			of(i, func(c cost) float64 { return c.rate }).median()))
	}
	for _, figure := range []struct {
		what string
		of   func(cost) float64
	}{{"CPU per record", cpu}, {"peak RSS", rss}} {
		more := over(trips, func(trip []cost) float64 { return 100 * (figure.of(trip[len(trip)-1])/figure.of(trip[0]) - 1) })
		// What gets less is no failure.
		found = append(found, check(more.median() <= 10, fmt.Sprintf("%v, growth of %s from the shortest to the longest", lane, figure.what), "≤ 10 %",
			"%s", more.text(1, " %")))
	}
	return found
}

// growthLimit bounds one backlog.
const growthLimit = time.Hour

// workOff has the batch lane make files of a backlog, which is filled up again
// until so many records have been worked off. What is too little for a last file
// stays open.
func (f *field) workOff(ctx context.Context, backlog, records int64) (s sample, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, growthLimit, fmt.Errorf("not done within %v", growthLimit))
	defer cancel()
	service, err := start(ctx, "service", serviceSettings{})
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, service.stop()) }()
	job := batchJob{format: schemas.FormatJSON, rows: 100_000}
	c, group, err := f.startSink(ctx, sinkFile{topic: endlessTopic, service: service.address, start: 1, highest: 1, mapping: job.mapping()}, schemas.Batch)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	progress := &refilled{commits{f.admin, group + "-" + schemas.Batch.String(), endlessTopic}, f.broker, backlog, backlog}
	return window(ctx, c, progress, 1, until(records))
}

// refilled is a topic that seems to get as much again as has been worked off.
type refilled struct {
	commits
	broker          *child
	backlog, length int64
}

func (r *refilled) reach(ctx context.Context, n int64) (mark, error) {
	return poll(ctx, n, func() (int64, error) {
		done, err := committed(ctx, r.admin, r.group, r.topic)
		if err == nil && done < n && done >= r.length-r.backlog/4 {
			r.length = done + r.backlog
			err = r.broker.set(ctx, r.length)
		}
		return done, err
	})
}

// firstCalls has the immediate lane make a number of calls, with the backlog
// behind them.
func (f *field) firstCalls(ctx context.Context, _ int64) (s sample, err error) {
	const calls = 100_000
	ctx, cancel := context.WithTimeoutCause(ctx, growthLimit, fmt.Errorf("not done within %v", growthLimit))
	defer cancel()
	file := sinkFile{start: 64, highest: 64}
	err = f.play(ctx, endlessTopic, serviceSettings{}, file, func(ctx context.Context, service, sink *child, _ commits) error {
		s, err = f.calls(ctx, sink, service.address, calls)
		return err
	})
	return s, err
}
