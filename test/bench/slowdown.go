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

// flow is what a service gets: calls per second, and how many it has at once.
type flow struct{ rate, atOnce float64 }

// phase is one of a repetition.
type phase struct {
	sink  flow
	fixed []flow // of the fixed numbers of calls in flight
}

// fixedWorkers are the fixed numbers of calls in flight.
var fixedWorkers = []int{most / 4, most / 2, most}

// slowDown lets a service go from 5 ms to 500 ms and back. In each phase the sink
// is to reach, ten seconds after the change, 90 % of what the best fixed number
// of calls in flight makes.
func slowDown(ctx context.Context, f *field, quick bool) ([]finding, error) {
	const topic = "bench-slow-down"
	if err := f.fill(ctx, topic, slowDownEvents, distinct()); err != nil {
		return nil, err
	}
	runs, counted, err := repeat(repetitions(quick), func(int) ([]phase, error) { return f.slowDownOnce(ctx, topic) })
	if err != nil {
		return nil, err
	}
	_, err = f.admin.DeleteTopics(ctx, topic) // the broker keeps everything in memory
	return append(slowDownFindings(runs), note(repetitionsName, "%v", counted)), err
}

// slowDownOnce takes one sink through the phases, between two measurements of the
// fixed numbers: the machine that has become faster or slower meanwhile has done so
// to both. While the service is slow the machine is idle, and one is enough.
func (f *field) slowDownOnce(ctx context.Context, topic string) ([]phase, error) {
	fixed := map[time.Duration][]flow{}
	for _, latency := range []time.Duration{fast, slow} {
		var err error
		if fixed[latency], err = fixedFlows(ctx, latency); err != nil {
			return nil, err
		}
	}
	sink, err := f.slowDownRun(ctx, topic)
	if err != nil {
		return nil, err
	}
	after, err := fixedFlows(ctx, fast)
	if err != nil {
		return nil, err
	}
	for i, before := range fixed[fast] {
		fixed[fast][i] = flow{(before.rate + after[i].rate) / 2, (before.atOnce + after[i].atOnce) / 2}
	}
	phases := make([]phase, len(slowDownPhases))
	for i, latency := range slowDownPhases {
		phases[i] = phase{sink[i], fixed[latency]}
	}
	return phases, nil
}

// slowDownRun takes one sink through the phases.
func (f *field) slowDownRun(ctx context.Context, topic string) (phases []flow, err error) {
	file := sinkFile{start: 16, highest: most}
	err = f.play(ctx, topic, serviceSettings{Latency: fast}, file, func(ctx context.Context, service, _ *child, done commits) error {
		if _, err := done.reach(ctx, 1); err != nil { // the group has formed
			return err
		}
		for _, latency := range slowDownPhases {
			if err := service.set(ctx, int64(latency)); err != nil {
				return err
			}
			got, err := flowOf(ctx, service.address, settle, measure)
			if err != nil {
				return err
			}
			phases = append(phases, got)
		}
		all, err := awaitCalls(ctx, service.address, 0)
		if err == nil && all.Calls >= slowDownEvents {
			err = fmt.Errorf("the topic's %d events did not last for the last phase", slowDownEvents)
		}
		return err
	})
	return phases, err
}

// slowDownFindings are the shares, and how many calls the service had at once: the
// sink decides that number, what comes out of it is also the machine's. The best fixed
// number is one for all repetitions: the best of each would be the luckiest.
func slowDownFindings(runs [][]phase) (found []finding) {
	for i, latency := range slowDownPhases {
		of := func(figure func(phase) float64) spread {
			return over(runs, func(r []phase) float64 { return figure(r[i]) })
		}
		best, rate := 0, spread(nil)
		for j := range fixedWorkers {
			if r := of(func(p phase) float64 { return p.fixed[j].rate }); rate == nil || r.median() > rate.median() {
				best, rate = j, r
			}
		}
		name := fmt.Sprintf("phase %d, %v: ", i+1, latency)
		share := of(func(p phase) float64 { return p.sink.rate / p.fixed[best].rate })
		sink := of(func(p phase) float64 { return p.sink.rate })
		found = append(found,
			check(share.median() >= 0.9, name+fmt.Sprintf("calls/s to the best fixed concurrency's, %d", fixedWorkers[best]), "≥ 0.9",
				"%s, %.0f of %.0f", share.text(2, ""), sink.median(), rate.median()),
			note(name+"calls at once in the service, of the sink and of the best fixed", "%s, %s",
				of(func(p phase) float64 { return p.sink.atOnce }).text(1, ""),
				of(func(p phase) float64 { return p.fixed[best].atOnce }).text(1, "")))
	}
	return found
}

// fixedFlows are what a bare loop makes with some fixed numbers of calls in flight.
// Each number has the machine for itself.
func fixedFlows(ctx context.Context, latency time.Duration) (flows []flow, err error) {
	for _, workers := range fixedWorkers {
		made, err := fixed(ctx, latency, workers)
		if err != nil {
			return nil, fmt.Errorf("%d calls in flight at %v: %w", workers, latency, err)
		}
		flows = append(flows, made)
	}
	return flows, nil
}

// fixed is what a bare loop makes with so many workers.
func fixed(ctx context.Context, latency time.Duration, workers int) (made flow, err error) {
	service, err := start(ctx, "service", serviceSettings{Latency: latency})
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, service.stop()) }()
	c, err := start(ctx, "calls", callsSettings{service.address, workers, 1 << 40})
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	// The workers begin together, so that their answers come together too: one such
	// burst more or less must not depend on a moment, so it begins between two.
	return flowOf(ctx, service.address, time.Second+7*latency/2, 4*time.Second)
}

// flowOf is what a service gets, after a while.
func flowOf(ctx context.Context, service string, after, during time.Duration) (flow, error) {
	var tallies [2]tally
	for i, wait := range []time.Duration{after, during} {
		select {
		case <-ctx.Done():
			return flow{}, ctx.Err()
		case <-time.After(wait):
		}
		var err error
		if tallies[i], err = awaitCalls(ctx, service, 0); err != nil {
			return flow{}, err
		}
	}
	from, to := tallies[0], tallies[1]
	seconds := to.At.Sub(from.At).Seconds()
	return flow{rate: float64(to.Calls-from.Calls) / seconds, atOnce: time.Duration(to.Took-from.Took).Seconds() / seconds}, nil
}
