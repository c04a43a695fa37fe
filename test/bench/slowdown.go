package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Of the service that becomes slow and recovers: how long it takes in each phase,
// how long the sink has to find its number of calls in flight, how long it is then
// measured, and how many calls it may have in flight.
const (
	fast    = 5 * time.Millisecond
	slow    = 500 * time.Millisecond
	settle  = 10 * time.Second
	measure = 8 * time.Second
	most    = 32
)

var slowDownPhases = []time.Duration{fast, slow, fast}

// slowDownEvents are those of the topic, from the start of which each repetition's
// sink reads. They must last for the two fast phases, in which most calls in flight
// make 230,400 calls, and for what the sink does before the first.
const slowDownEvents = 300_000

// phase is one of a repetition, in calls per second.
type phase struct {
	sink float64
	best float64 // of the fixed numbers of calls in flight
}

// slowDown lets a service go from 5 ms to 500 ms and back. In each phase the sink
// is to reach, ten seconds after the change, 90 % of what the best fixed number
// of calls in flight made just before.
func slowDown(ctx context.Context, f *field, quick bool) ([]finding, error) {
	const topic = "bench-slow-down"
	if err := f.fill(ctx, topic, slowDownEvents, distinct()); err != nil {
		return nil, err
	}
	runs, err := repeat(repetitions(quick), func(int) ([]phase, error) {
		best, err := bestFixed(ctx)
		if err != nil {
			return nil, err
		}
		return f.slowDownRun(ctx, topic, best)
	})
	if err != nil {
		return nil, err
	}
	_, err = f.admin.DeleteTopics(ctx, topic) // the broker keeps everything in memory
	return slowDownFindings(runs), err
}

// slowDownRun takes one sink through the phases.
func (f *field) slowDownRun(ctx context.Context, topic string, best map[time.Duration]float64) (phases []phase, err error) {
	file := sinkFile{start: 16, highest: most}
	err = f.play(ctx, topic, serviceSettings{Latency: fast}, file, func(ctx context.Context, service, _ *child, done commits) error {
		if _, err := done.reach(ctx, 1); err != nil { // the group has formed
			return err
		}
		for _, latency := range slowDownPhases {
			if err := service.set(ctx, int64(latency)); err != nil {
				return err
			}
			rate, err := rateOf(ctx, service.address, settle, measure)
			if err != nil {
				return err
			}
			phases = append(phases, phase{sink: rate, best: best[latency]})
		}
		all, err := awaitCalls(ctx, service.address, 0)
		if err == nil && all.Calls >= slowDownEvents {
			err = fmt.Errorf("the topic's %d events did not last for the last phase", slowDownEvents)
		}
		return err
	})
	return phases, err
}

func slowDownFindings(runs [][]phase) (found []finding) {
	for i, latency := range slowDownPhases {
		share := over(runs, func(r []phase) float64 { return r[i].sink / r[i].best })
		sink := over(runs, func(r []phase) float64 { return r[i].sink })
		best := over(runs, func(r []phase) float64 { return r[i].best })
		found = append(found, check(share.median() >= 0.9, fmt.Sprintf("phase %d, %v: calls/s to the best fixed concurrency's", i+1, latency), "≥ 0.9",
			"%s, %.0f of %.0f", share.text(2, ""), sink.median(), best.median()))
	}
	return found
}

// bestFixed is what a bare loop makes with the best of some fixed numbers of calls
// in flight, in calls per second at each latency. Each number has the machine for
// itself.
func bestFixed(ctx context.Context) (map[time.Duration]float64, error) {
	best := map[time.Duration]float64{}
	for _, latency := range []time.Duration{fast, slow} {
		for _, workers := range []int{most / 4, most / 2, most} {
			rate, err := fixed(ctx, latency, workers)
			if err != nil {
				return nil, fmt.Errorf("%d calls in flight at %v: %w", workers, latency, err)
			}
			best[latency] = max(best[latency], rate)
		}
	}
	return best, nil
}

// fixed is what a bare loop makes with so many workers, calls per second.
func fixed(ctx context.Context, latency time.Duration, workers int) (rate float64, err error) {
	service, err := start(ctx, "service", serviceSettings{Latency: latency})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, service.stop()) }()
	c, err := start(ctx, "calls", callsSettings{service.address, workers, 1 << 40})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	// The workers begin together, so that their answers come together too: one such
	// burst more or less must not depend on a moment, so it begins between two.
	return rateOf(ctx, service.address, time.Second+7*latency/2, 4*time.Second)
}

// rateOf is how many calls per second a service gets, after a while.
func rateOf(ctx context.Context, service string, after, during time.Duration) (float64, error) {
	var tallies [2]tally
	for i, wait := range []time.Duration{after, during} {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(wait):
		}
		var err error
		if tallies[i], err = awaitCalls(ctx, service, 0); err != nil {
			return 0, err
		}
	}
	return float64(tallies[1].Calls-tallies[0].Calls) / tallies[1].At.Sub(tallies[0].At).Seconds(), nil
}
