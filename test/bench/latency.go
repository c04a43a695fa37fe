package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// Of the latency: how long the service takes, how many calls the sink may have in
// flight, and what the 99th of a hundred events is to take, in milliseconds.
const (
	latencyService  = 5 * time.Millisecond
	latencyInFlight = 256
	latencyGoal     = 15
)

// pace is how events come.
type pace struct {
	perSecond int
	warm      int // events that are not counted: they wait for the group to form
	counted   int
}

// delays are of one side in one repetition, from Produce to the service's answer, in
// milliseconds.
type delays struct{ p50, p99, longest float64 }

// delayPair is one repetition: the two that ran one after the other.
type delayPair struct{ sink, floor delays }

// latency produces 500 events a second to a service that takes 5 ms, and asks how
// long each took from Produce to the service's answer, which confirms it: of the
// sink, and of a bare consumer that makes a call for each record.
func latency(ctx context.Context, f *field, quick bool) ([]finding, error) {
	const perSecond = 500
	seconds := 15
	if quick {
		seconds = 5
	}
	even := pace{perSecond: perSecond, warm: 2 * perSecond, counted: seconds * perSecond}
	pairs, counted, err := repeat(repetitions(quick), func(i int) (p delayPair, err error) {
		side := func(name string, start follower, d *delays) func() error {
			return func() (err error) {
				*d, err = f.delays(ctx, fmt.Sprintf("bench-latency-%d-%s", i+1, name), even, start)
				return err
			}
		}
		err = alternate(i, side("floor", f.forwardFollows, &p.floor), side("sink", f.sinkFollows, &p.sink))
		return p, err
	})
	if err != nil {
		return nil, err
	}
	return append(latencyFindings(pairs), note(repetitionsName, "%v", counted)), nil
}

func latencyFindings(pairs []delayPair) []finding {
	sink := func(figure func(delays) float64) spread {
		return over(pairs, func(p delayPair) float64 { return figure(p.sink) })
	}
	floor := func(figure func(delays) float64) spread {
		return over(pairs, func(p delayPair) float64 { return figure(p.floor) })
	}
	p50 := func(d delays) float64 { return d.p50 }
	p99 := func(d delays) float64 { return d.p99 }
	ratio := over(pairs, func(p delayPair) float64 { return p.sink.p99 / p.floor.p99 })
	return []finding{
		note("p50 from produce to confirmed", "%s", sink(p50).text(1, " ms")),
		check(sink(p99).median() <= latencyGoal, "p99 from produce to confirmed", fmt.Sprintf("≤ %d ms", latencyGoal), "%s", sink(p99).text(1, " ms")),
		note("longest", "%s", sink(func(d delays) float64 { return d.longest }).text(1, " ms")),
		note("p50 of the floor, a bare consumer and a call for each record", "%s", floor(p50).text(1, " ms")),
		note("p99 of the floor", "%s", floor(p99).text(1, " ms")),
		note("p99, sink to floor", "%s", ratio.text(2, "")),
	}
}

// follower starts a process that brings each record of a topic to the service, and
// says how far it is.
type follower func(ctx context.Context, topic, service string) (*child, progress, error)

func (f *field) sinkFollows(ctx context.Context, topic, service string) (*child, progress, error) {
	c, group, err := f.startSink(ctx, sinkFile{
		topic: topic, service: service, start: 16, highest: latencyInFlight, mapping: immediateMapping,
	}, schemas.Immediate)
	return c, commits{f.admin, group + "-" + schemas.Immediate.String(), topic}, err
}

func (f *field) forwardFollows(ctx context.Context, topic, service string) (*child, progress, error) {
	c, err := start(ctx, "forward", forwardSettings{f.broker.address, topic, service})
	return c, done{c}, err
}

// delays has a follower of a new topic bring events to a service of its own.
func (f *field) delays(ctx context.Context, topic string, p pace, follow follower) (d delays, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %v", limit))
	defer cancel()
	if err := f.fill(ctx, topic, 0, nil); err != nil {
		return d, err
	}
	defer func() {
		_, gone := f.admin.DeleteTopics(ctx, topic) // the broker keeps everything in memory
		err = errors.Join(err, gone)
	}()
	service, err := start(ctx, "service", serviceSettings{latencyService, true})
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, service.stop()) }()
	c, progress, err := follow(ctx, topic, service.address)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	var sent []time.Time
	err = during(ctx, c, func(ctx context.Context) error {
		sent, err = f.produced(ctx, topic, p, progress)
		return err
	})
	if err != nil {
		return d, err
	}
	got, err := rowsOf(ctx, service.address)
	if err != nil {
		return d, err
	}
	return newDelays(sent[p.warm:], got.Answers[min(p.warm, len(got.Answers)):])
}

// produced brings all events into the topic and waits until they are done. It
// returns the moments at which they were handed to the client.
func (f *field) produced(ctx context.Context, topic string, p pace, progress progress) ([]time.Time, error) {
	sent := make([]time.Time, p.warm+p.counted)
	for _, part := range []struct{ first, end int }{{0, p.warm}, {p.warm, len(sent)}} {
		if err := f.paced(ctx, topic, p.perSecond, sent, part.first, part.end); err != nil {
			return nil, err
		}
		if _, err := progress.reach(ctx, int64(part.end)); err != nil {
			return nil, err
		}
	}
	return sent, nil
}

// newDelays takes the moments of the answers in nanoseconds, 0 and those missing at
// the end for events that had none: then there is nothing to be said of the others.
func newDelays(sent []time.Time, answers []int64) (delays, error) {
	var took []time.Duration
	for i, at := range answers {
		if at > 0 {
			took = append(took, time.Unix(0, at).Sub(sent[i]))
		}
	}
	if len(took) < len(sent) {
		return delays{}, fmt.Errorf("only %d of %d events were answered", len(took), len(sent))
	}
	slices.Sort(took)
	at := func(share float64) float64 {
		return float64(took[int(share*float64(len(took)-1))].Microseconds()) / 1e3
	}
	return delays{p50: at(0.5), p99: at(0.99), longest: at(1)}, nil
}
