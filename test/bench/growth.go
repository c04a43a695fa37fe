package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// growingBacklogs are those that the sink is to be indifferent to.
func growingBacklogs(ctx context.Context, f *field, quick bool) ([]finding, error) {
	if quick {
		return growth(ctx, f, []int64{1e6, 3e6})
	}
	return growth(ctx, f, []int64{1e6, 10e6, 50e6})
}

// growth is whether a record costs more when more of them wait: CPU and memory
// at each backlog. The batch lane works each off to its end,
// the immediate lane its first calls.
func growth(ctx context.Context, f *field, backlogs []int64) (found []finding, err error) {
	const tape = 1_000_000
	if err := f.produce(ctx, endlessTopic, tape, recurring(500_000, event)); err != nil {
		return nil, err
	}
	lanes := []struct {
		lane    schemas.Lane
		measure func(ctx context.Context, backlog int64) (sample, error)
	}{
		{schemas.Batch, f.workOff},
		{schemas.Immediate, f.firstCalls},
	}
	for _, l := range lanes {
		var cpus, peaks []float64
		for _, backlog := range backlogs {
			if err := f.broker.set(ctx, backlog); err != nil {
				return nil, err
			}
			s, err := l.measure(ctx, backlog)
			if err != nil {
				return nil, fmt.Errorf("backlog of %d: %w", backlog, err)
			}
			cpus, peaks = append(cpus, s.cpu), append(peaks, float64(s.rss))
			found = append(found, note(fmt.Sprintf("%v, backlog of %d million", l.lane, backlog/1e6),
				"%.2f CPU-s per million, peak RSS %.0f MB, %.0f/s", s.cpu, float64(s.rss)/1e6, s.rate))
		}
		for _, of := range []struct {
			what   string
			values []float64
		}{{"CPU per record", cpus}, {"peak RSS", peaks}} {
			grown := of.values[len(of.values)-1]/of.values[0] - 1
			// What gets less is no failure.
			found = append(found, check(grown <= 0.1, fmt.Sprintf("%v, growth of %s from the shortest to the longest", l.lane, of.what), "≤ 10 %",
				"%+.0f %% (highest to lowest %.2f)", 100*grown, slices.Max(of.values)/slices.Min(of.values)))
		}
	}
	return found, nil
}

// growthLimit bounds one backlog.
const growthLimit = time.Hour

// workOff has the batch lane make files of the whole backlog. What is too little
// for a last file stays open.
func (f *field) workOff(ctx context.Context, backlog int64) (s sample, err error) {
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
	return window(ctx, c, commits{f.admin, group + "-" + schemas.Batch.String(), endlessTopic}, 1, until(backlog*3/4))
}

// firstCalls has the immediate lane make a number of calls, with the backlog
// behind them.
func (f *field) firstCalls(ctx context.Context, _ int64) (s sample, err error) {
	const calls = 100_000
	ctx, cancel := context.WithTimeoutCause(ctx, growthLimit, fmt.Errorf("not done within %v", growthLimit))
	defer cancel()
	err = f.play(ctx, endlessTopic, serviceSettings{}, sinkFile{start: 64, highest: 64}, func(service, sink *child, _ commits) error {
		s, err = f.calls(ctx, sink, service.address, calls)
		return err
	})
	return s, err
}
