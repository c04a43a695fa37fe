package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// hotRun is what one sink made of the events of hot keys.
type hotRun struct {
	share     float64 // calls for an event
	rate      float64 // events a second
	keys      int     // that there are
	wrong     int     // of them
	backwards int     // writes
}

// hotKeys sends 90 % of the events to 1 % of the keys of a service that takes 20
// ms: what waits for its turn is merged, and every key ends in its last state.
func hotKeys(ctx context.Context, b *bench, o options) []finding {
	const topic, keys = "bench-hot-keys", 10_000
	n := 200_000
	if o.quick {
		n = 50_000
	}
	last, e := map[string]int64{}, hot(n, keys)
	next := e.next
	e.next = func(i int) (key, value []byte) {
		key, value = next(i)
		last[string(key)] = int64(i)
		return key, value
	}
	b.fill(ctx, topic, e)
	var every []hotRun // what is wrong is wrong, whatever the host took
	runs, counted := repeat(b, repetitions(o.quick), func(int) hotRun {
		every = append(every, b.hotRun(ctx, topic, n, last))
		return every[len(every)-1]
	})
	return append(hotFindings(runs, every), counted.finding())
}

// hotRun brings all events to a service, at which the keys are to end in the
// state last.
func (b *bench) hotRun(ctx context.Context, topic string, n int, last map[string]int64) hotRun {
	config := sinkConfig{Topic: topic, Start: 256, Highest: 256}
	sink := b.sink(ctx, b.serve(20*time.Millisecond, true), config, schemas.Immediate)
	began, _ := sink.reach(ctx, 1, sink.service.done)
	ended, _ := sink.reach(ctx, int64(n), sink.done)
	got := sink.service.rows
	got.mu.Lock()
	defer got.mu.Unlock()
	return hotRun{
		share: float64(sink.service.done(ctx)) / float64(n), rate: float64(n) / ended.Sub(began).Seconds(),
		keys: len(last), wrong: wrongKeys(got.points, last), backwards: got.backwards,
	}
}

// wrongKeys counts the keys that are not as wanted, missing, or not wanted at all.
func wrongKeys(got, want map[string]int64) (wrong int) {
	for key, number := range want {
		if there, ok := got[key]; !ok || there != number {
			wrong++
		}
	}
	for key := range got {
		if _, wanted := want[key]; !wanted {
			wrong++
		}
	}
	return wrong
}

// hotFindings are medians of what may vary, and of every run that was made sums of
// what must not be at all.
func hotFindings(runs, every []hotRun) []finding {
	var all hotRun
	for _, r := range every {
		all.keys, all.wrong, all.backwards = all.keys+r.keys, all.wrong+r.wrong, all.backwards+r.backwards
	}
	share := over(runs, func(r hotRun) float64 { return r.share })
	rate := over(runs, func(r hotRun) float64 { return r.rate })
	return []finding{
		check(share.median() <= 0.1, "calls for an event", "≤ 0.1", "%s", share.text(3, "")),
		check(all.wrong == 0, "keys in a wrong final state, of all repetitions", "0", "%d of %d", all.wrong, all.keys),
		check(all.backwards == 0, "writes that came after a newer one of their key, of all repetitions", "0", "%d", all.backwards),
		note("events a second", "%s", rate.text(0, "")),
	}
}

// Of the latency: how long the service takes, how many calls the sink may have in
// flight, and what the 99th of a hundred events is to take, in milliseconds.
const (
	latencyService  = 5 * time.Millisecond
	latencyInFlight = 256
	latencyGoal     = 15
)

// delays are of one side in one repetition, from Produce to the service's answer, in
// milliseconds.
type delays struct{ p50, p99, longest float64 }

// latency produces 500 events a second to a service that takes 5 ms, and asks how
// long each took from Produce to the service's answer, which confirms it: of the
// sink, and of a loop that makes a call for each record. Those of the first two seconds
// are not counted: they wait for the group to form.
func latency(ctx context.Context, b *bench, o options) []finding {
	const perSecond = 500
	seconds := 15
	if o.quick {
		seconds = 5
	}
	pairs, counted := repeat(b, repetitions(o.quick), func(i int) pair[delays] {
		return alternate(b, i, func(floor bool) delays {
			return b.delays(ctx, fmt.Sprintf("bench-latency-%d-floor-%v", i+1, floor), floor, perSecond, 2*perSecond, seconds*perSecond)
		})
	})
	return append(latencyFindings(pairs), counted.finding())
}

func latencyFindings(pairs []pair[delays]) []finding {
	of := func(figure func(p pair[delays]) float64) spread { return over(pairs, figure) }
	p99 := of(func(p pair[delays]) float64 { return p.sink.p99 })
	ms := func(what string, s spread) finding { return note(what, "%s", s.text(1, " ms")) }
	return []finding{
		ms("p50 from produce to confirmed", of(func(p pair[delays]) float64 { return p.sink.p50 })),
		check(p99.median() <= latencyGoal, "p99 from produce to confirmed", fmt.Sprintf("≤ %d ms", latencyGoal), "%s", p99.text(1, " ms")),
		ms("longest", of(func(p pair[delays]) float64 { return p.sink.longest })),
		ms("p50 of the floor, a bare consumer and a call for each record", of(func(p pair[delays]) float64 { return p.floor.p50 })),
		ms("p99 of the floor", of(func(p pair[delays]) float64 { return p.floor.p99 })),
		note("p99, sink to floor", "%s", of(func(p pair[delays]) float64 { return p.sink.p99 / p.floor.p99 }).text(2, "")),
	}
}

// delays has the events of a new topic brought to a service that remembers: so many
// a second, the first that are not counted and those that are.
func (b *bench) delays(ctx context.Context, topic string, floor bool, perSecond, warm, counted int) delays {
	b.fill(ctx, topic, events{})
	service := b.serve(latencyService, true)
	var f sink
	if floor {
		c := b.start(ctx, "loop", settings{Broker: b.broker, Topic: topic, Service: service.address, Workers: latencyInFlight})
		f = sink{c, service, c.done}
	} else {
		f = b.sink(ctx, service, sinkConfig{Topic: topic, Start: 16, Highest: latencyInFlight}, schemas.Immediate)
	}
	var sent []time.Time // when each was handed to the client
	for _, n := range []int{warm, counted} {
		first := len(sent)
		try(b.produce(ctx, topic, events{n: n, perSecond: perSecond, next: func(i int) (key, value []byte) {
			key, value = numbered(first+i, first+i)
			sent = append(sent, time.Now())
			return key, value
		}}))
		f.reach(ctx, int64(len(sent)), f.done)
	}
	service.rows.mu.Lock()
	defer service.rows.mu.Unlock()
	answers := service.rows.answers
	return must(newDelays(sent[warm:], answers[min(warm, len(answers)):]))
}

// newDelays takes the moments of the answers, zero and those missing at the end for
// events that had none: then there is nothing to be said of the others.
func newDelays(sent, answers []time.Time) (delays, error) {
	var took []float64
	for i, at := range answers {
		if !at.IsZero() {
			took = append(took, at.Sub(sent[i]).Seconds()*1e3)
		}
	}
	if len(took) < len(sent) {
		return delays{}, fmt.Errorf("only %d of %d events were answered", len(took), len(sent))
	}
	slices.Sort(took)
	at := func(share float64) float64 { return took[int(share*float64(len(took)-1))] }
	return delays{p50: at(0.5), p99: at(0.99), longest: at(1)}, nil
}

// Of the service that becomes slow and recovers: how long it takes in each phase,
// how long both sides have to find their pace, how long they are then measured, and
// how many calls they may have in flight.
const (
	fast          = 5 * time.Millisecond
	slow          = 500 * time.Millisecond
	settle        = 10 * time.Second
	observe       = 8 * time.Second
	slowDownCalls = 32
)

var slowDownPhases = []time.Duration{fast, slow, fast}

// slowDownEvents are those of the topic, from the start of which each repetition's
// sink reads. They must last for the two fast phases, in which most calls in flight
// make 230,400 calls, and for what the sink does before the first.
const slowDownEvents = 300_000

// flow is what a service gets: calls per second, and how many it has at once.
type flow struct{ rate, atOnce float64 }

// slowDown lets a service go from 5 ms to 500 ms and back. In each phase the sink
// is to reach, ten seconds after the change, 90 % of what a bare loop makes with as many
// calls in flight as the sink may have: of a service that takes as long however many it
// has, no smaller number makes more.
func slowDown(ctx context.Context, b *bench, o options) []finding {
	const topic = "bench-slow-down"
	b.fill(ctx, topic, distinct(slowDownEvents))
	pairs, counted := repeat(b, repetitions(o.quick), func(i int) pair[[]flow] {
		return alternate(b, i, func(floor bool) []flow {
			service := b.serve(fast, false)
			if floor {
				b.start(ctx, "calls", settings{Service: service.address, Workers: slowDownCalls, Calls: 1 << 40})
				return service.phases(ctx)
			}
			sink := b.sink(ctx, service, sinkConfig{Topic: topic, Start: 16, Highest: slowDownCalls}, schemas.Immediate)
			sink.reach(ctx, 1, sink.done) // the group has formed
			flows := service.phases(ctx)
			if service.calls.Load() >= slowDownEvents {
				try(fmt.Errorf("the topic's %d events did not last for the last phase", slowDownEvents))
			}
			return flows
		})
	})
	return append(slowDownFindings(pairs), counted.finding())
}

// phases are what the service gets in each of them, once both have settled.
func (s *service) phases(ctx context.Context) (flows []flow) {
	for _, latency := range slowDownPhases {
		s.latency.Store(int64(latency))
		pause(ctx, settle)
		began, calls, took := time.Now(), s.calls.Load(), s.took.Load()
		pause(ctx, observe)
		seconds := time.Since(began).Seconds()
		flows = append(flows, flow{
			rate:   float64(s.calls.Load()-calls) / seconds,
			atOnce: time.Duration(s.took.Load()-took).Seconds() / seconds,
		})
	}
	return flows
}

// pause waits, unless the bench is ended meanwhile.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
		try(ctx.Err())
	}
}

// slowDownFindings are the shares, and how many calls the service had at once: the
// sink decides that number, what comes out of it is also the machine's.
func slowDownFindings(pairs []pair[[]flow]) (found []finding) {
	for i, latency := range slowDownPhases {
		of := func(figure func(sink, floor flow) float64) spread {
			return over(pairs, func(p pair[[]flow]) float64 { return figure(p.sink[i], p.floor[i]) })
		}
		name := fmt.Sprintf("phase %d, %v: ", i+1, latency)
		share := of(func(sink, floor flow) float64 { return sink.rate / floor.rate })
		found = append(found,
			check(share.median() >= 0.9, fmt.Sprintf("%scalls/s to a bare loop's with %d in flight", name, slowDownCalls), "≥ 0.9",
				"%s, %.0f of %.0f", share.text(2, ""), of(func(sink, _ flow) float64 { return sink.rate }).median(),
				of(func(_, floor flow) float64 { return floor.rate }).median()),
			note(name+"calls at once in the service, of the sink and of the loop", "%s, %s",
				of(func(sink, _ flow) float64 { return sink.atOnce }).text(1, ""),
				of(func(_, floor flow) float64 { return floor.atOnce }).text(1, "")))
	}
	return found
}
