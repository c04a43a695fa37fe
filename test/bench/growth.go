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
// at each backlog. The batch lane works records off while the backlog is filled
// up again behind it, so that each backlog has as much time to show what it
// takes; the immediate lane makes its first calls. The backlogs are measured there
// and back, and what is compared are means: a machine that gets slower meanwhile
// does not look like growth.
func growth(ctx context.Context, f *field, backlogs []int64) (found []finding, err error) {
	const tape = 1_000_000
	if err := f.produce(ctx, endlessTopic, tape, recurring(500_000, event)); err != nil {
		return nil, err
	}
	lanes := []struct {
		lane    schemas.Lane
		measure func(ctx context.Context, backlog int64) (sample, error)
	}{
		{schemas.Batch, func(ctx context.Context, backlog int64) (sample, error) {
			// Even a short one until the sink's memory is where it stays.
			return f.workOff(ctx, backlog, max(backlog*3/4, backlogs[len(backlogs)-1]/5))
		}},
		{schemas.Immediate, f.firstCalls},
	}
	for _, l := range lanes {
		samples := map[int64][]sample{}
		for _, backlog := range thereAndBack(backlogs) {
			if err := f.broker.set(ctx, backlog); err != nil {
				return nil, err
			}
			s, err := l.measure(ctx, backlog)
			if err != nil {
				return nil, fmt.Errorf("backlog of %d: %w", backlog, err)
			}
			samples[backlog] = append(samples[backlog], s)
		}
		found = append(found, grown(l.lane, backlogs, samples)...)
	}
	return found, nil
}

func thereAndBack(backlogs []int64) []int64 {
	back := slices.Clone(backlogs[:len(backlogs)-1])
	slices.Reverse(back)
	return slices.Concat(backlogs, back)
}

func grown(lane schemas.Lane, backlogs []int64, samples map[int64][]sample) (found []finding) {
	var cpus, peaks []float64
	for _, backlog := range backlogs {
		var cpu, peak, rate float64
		for _, s := range samples[backlog] {
			n := float64(len(samples[backlog]))
			cpu, peak, rate = cpu+s.cpu/n, peak+float64(s.rss)/n, rate+s.rate/n
		}
		cpus, peaks = append(cpus, cpu), append(peaks, peak)
		found = append(found, note(fmt.Sprintf("%v, backlog of %d million", lane, backlog/1e6),
			"%.2f CPU-s per million, peak RSS %.0f MB, %.0f/s", cpu, peak/1e6, rate))
	}
	for _, of := range []struct {
		what   string
		values []float64
	}{{"CPU per record", cpus}, {"peak RSS", peaks}} {
		more := of.values[len(of.values)-1]/of.values[0] - 1
		// What gets less is no failure.
		found = append(found, check(more <= 0.1, fmt.Sprintf("%v, growth of %s from the shortest to the longest", lane, of.what), "≤ 10 %",
			"%+.0f %% (highest to lowest %.2f)", 100*more, slices.Max(of.values)/slices.Min(of.values)))
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
