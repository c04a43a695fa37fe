package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// finding is one figure of a scenario beside what it is to be.
type finding struct {
	What string `json:"what"`
	Got  string `json:"got"`
	Goal string `json:"goal,omitempty"` // "" for a figure that has none
	Met  bool   `json:"met"`
}

// check is a finding with a goal.
func check(met bool, what, goal, got string, args ...any) finding {
	return finding{What: what, Got: fmt.Sprintf(got, args...), Goal: goal, Met: met}
}

// note is a finding without.
func note(what, got string, args ...any) finding {
	return finding{What: what, Got: fmt.Sprintf(got, args...), Met: true}
}

// scenario is something that is not a job done twice.
type scenario struct {
	name  string
	quick bool // short enough for every change
	// repeated says that the figures are medians of all repetitions.
	repeated bool
	run      func(ctx context.Context, f *field, quick bool) ([]finding, error)
}

// scenarios are those that are always measured; growth, comparison and soak are
// asked for.
func scenarios() []scenario {
	return []scenario{
		{"hot keys", true, true, hotKeys},
		{"latency", true, true, latency},
		{"slow-down", false, true, slowDown},
	}
}

// hotKeys sends 90 % of the events to 1 % of the keys of a service that takes 20
// ms: what waits for its turn is merged, and every key ends in its last state.
func hotKeys(ctx context.Context, f *field, quick bool) ([]finding, error) {
	events, keys := 200_000, 10_000
	if quick {
		events = 50_000
	}
	const topic = "bench-hot-keys"
	last := map[string]int64{}
	next, i := hot(keys), int64(-1)
	err := f.fill(ctx, topic, events, func() ([]byte, []byte) {
		key, value := next()
		i++
		last[string(key)] = i
		return key, value
	})
	if err != nil {
		return nil, err
	}
	var every []hotRun // what is wrong is wrong, whatever the host took
	runs, counted, err := repeat(repetitions(quick), func(int) (hotRun, error) {
		r, err := f.hotRun(ctx, topic, events, last)
		every = append(every, r)
		return r, err
	})
	if err != nil {
		return nil, err
	}
	return append(hotFindings(runs, every), note(repetitionsName, "%v", counted)), nil
}

// hotRun is what one sink made of the events of hot keys.
type hotRun struct {
	share     float64 // calls for an event
	rate      float64 // events a second
	keys      int     // that there are
	wrong     int     // of them
	backwards int64   // writes
}

// hotRun brings all events to a service, at which the keys are to end in the
// state last.
func (f *field) hotRun(ctx context.Context, topic string, events int, last map[string]int64) (r hotRun, err error) {
	file := sinkFile{start: 256, highest: 256}
	err = f.play(ctx, topic, serviceSettings{20 * time.Millisecond, true}, file, func(ctx context.Context, service, _ *child, done commits) error {
		began := time.Now()
		if _, err := done.reach(ctx, int64(events)); err != nil {
			return err
		}
		r.rate = float64(events) / time.Since(began).Seconds()
		all, err := awaitCalls(ctx, service.address, 0)
		if err != nil {
			return err
		}
		r.share = float64(all.Calls) / float64(events)
		got, err := rowsOf(ctx, service.address)
		if err != nil {
			return err
		}
		r.keys, r.wrong, r.backwards = len(last), wrongKeys(got.Points, last), got.Backwards
		return nil
	})
	return r, err
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
		check(share.median() <= 0.2, "calls for an event", "≤ 0.2", "%s", share.text(3, "")),
		check(all.wrong == 0, "keys in a wrong final state, of all repetitions", "0", "%d of %d", all.wrong, all.keys),
		check(all.backwards == 0, "writes that came after a newer one of their key, of all repetitions", "0", "%d", all.backwards),
		note("events a second", "%s", rate.text(0, "")),
	}
}

// play runs a service and a sink of the immediate lane on the topic while do
// lasts, whose context ends when the sink does.
func (f *field) play(ctx context.Context, topic string, s serviceSettings, file sinkFile,
	do func(ctx context.Context, service, sink *child, done commits) error,
) (err error) {
	service, err := start(ctx, "service", s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, service.stop()) }()
	file.topic, file.service, file.mapping = topic, service.address, immediateMapping
	sink, group, err := f.startSink(ctx, file, schemas.Immediate)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sink.stop()) }()
	return during(ctx, sink, func(ctx context.Context) error {
		return do(ctx, service, sink, commits{f.admin, group + "-" + schemas.Immediate.String(), topic})
	})
}
