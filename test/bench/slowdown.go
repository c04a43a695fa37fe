package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Of the service that becomes slow and recovers: how long the sink has to find
// its number of calls in flight, and how long it is then measured.
const (
	settle  = 10 * time.Second
	measure = 10 * time.Second
)

// slowDown lets a service go from 5 ms to 500 ms and back. In each phase the sink
// is to reach, ten seconds after the change, 90 % of what the best fixed number
// of calls in flight makes.
func slowDown(ctx context.Context, f *field, _ bool) (found []finding, err error) {
	const most, topic = 32, "bench-slow-down"
	if err := f.fill(ctx, topic, 300_000, distinct()); err != nil {
		return nil, err
	}
	best := map[time.Duration]float64{}
	fast, slow := 5*time.Millisecond, 500*time.Millisecond
	for _, latency := range []time.Duration{fast, slow} {
		for _, workers := range []int{most / 4, most / 2, most} {
			rate, err := fixed(ctx, latency, workers)
			if err != nil {
				return nil, err
			}
			best[latency] = max(best[latency], rate)
		}
	}
	err = f.play(ctx, topic, serviceSettings{Latency: fast}, sinkFile{start: 16, highest: most}, func(service, _ *child, done commits) error {
		if _, err := done.reach(ctx, 1); err != nil { // the group has formed
			return err
		}
		for i, latency := range []time.Duration{fast, slow, fast} {
			if err := service.set(ctx, int64(latency)); err != nil {
				return err
			}
			rate, err := rateOf(ctx, service.address, settle, measure)
			if err != nil {
				return err
			}
			share := rate / best[latency]
			found = append(found, check(share >= 0.9, fmt.Sprintf("phase %d, %v: calls/s to the best fixed concurrency's", i+1, latency), "≥ 0.9",
				"%.2f (%.0f of %.0f)", share, rate, best[latency]))
		}
		return nil
	})
	return found, err
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
	return rateOf(ctx, service.address, 3*latency+time.Second, 4*time.Second)
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
