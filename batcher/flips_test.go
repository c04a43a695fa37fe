package batcher

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/schemas"
)

// TestFinalStatesAreThoseOfTheLogHoweverRoutesChange explores both lanes while the
// routes change: each life of a process may have others, and takes them when it
// starts. What the lanes decide is decided by the rules of connector/ack.
func TestFinalStatesAreThoseOfTheLogHoweverRoutesChange(t *testing.T) {
	const seeds = 15
	for _, c := range []struct {
		name                            string
		custom, keeps, noDeletes, noIDs bool
		auto                            bool
	}{
		{name: "profiles"},
		{name: "profiles without imports for deletes", noDeletes: true},
		{name: "profiles of which patches have no id", noIDs: true},
		{name: "table records", custom: true},
		{name: "profiles, auto", auto: true},
		{name: "table records, auto", custom: true, auto: true},
		{name: "table records, operation 4 keeps, no imports for deletes", custom: true, keeps: true, noDeletes: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(seeds) {
				l := &lanes{t: t, custom: c.custom, keeps: c.keeps, auto: c.auto, called: new(atomic.Int64)}
				l.flips = &flips{noDeletes: c.noDeletes, noIDs: c.noIDs}
				synctest.Test(t, func(*testing.T) { l.exploreFlips(seed) })
				if t.Failed() {
					t.Fatalf("seed %d\n%s", seed, strings.Join(l.tale, "\n"))
				}
			}
		})
	}
}

// flips is what there is beside, where routes change. It is guarded by lanes.mu.
type flips struct {
	noDeletes bool              // no import loads deletes
	noIDs     bool              // patches and deletes have no profile's id: no call says them
	deployed  [2]*routesVersion // by lane: what its next process takes
	running   [2]*routesVersion // nil: no process that uses the lane
	clock     int64
}

// routesVersion is one version of the mapping's routes.
type routesVersion struct {
	fingerprint      uint64
	batch            func(at int64) bool
	immediate, files bool // lanes that it uses
}

var routesVersions = []*routesVersion{
	{1, func(at int64) bool { return at%2 == 0 }, true, true},
	{2, func(at int64) bool { return at%2 == 1 }, true, true},
	{3, func(at int64) bool { return at%3 == 0 }, true, true},
	{4, func(int64) bool { return false }, true, false},
	{5, func(int64) bool { return true }, false, true},
}

func (v *routesVersion) shared() bool { return v.immediate && v.files }

// Places of the lanes.
const (
	calls = 0
	filed = 1
)

// routesOfLane is what a process knows of the routes of its lane.
type routesOfLane struct {
	*routesVersion
	lane     ack.LaneRoutes
	own      ack.Routes
	onRecord bool // own is committed
	seen     bool // the other lane was looked at since
	view     ack.View
}

func (f *flips) fileable(w *schemas.Write) bool { return !f.noDeletes || w.Op != schemas.Delete }
func (f *flips) callable(w *schemas.Write) bool {
	return w.Table.Custom || w.Op == schemas.Upsert || w.ProfileID != ""
}

// laneOf is whose a record is.
func (f *flips) laneOf(v *routesVersion, w *schemas.Write, at int64) schemas.Lane {
	if v.batch(at) && f.fileable(w) || !f.callable(w) {
		return schemas.Batch
	}
	return schemas.Immediate
}

// skipped reports whether a record is written by no lane, as all versions say: else
// nothing could tell whether the table is to have it.
func (f *flips) skipped(at int64) bool { return f != nil && at%7 == 6 }

// usable reports whether a version can say all that is in the log.
func (f *flips) usable(v *routesVersion) bool {
	return (v.immediate || !f.noDeletes) && (v.files || !f.noIDs)
}

func (f *flips) flip(rnd *rand.Rand, lane int) {
	for {
		if v := routesVersions[rnd.IntN(len(routesVersions))]; f.usable(v) {
			f.deployed[lane] = v
			return
		}
	}
}

// recorded is what is on record of a lane.
func (l *lanes) recorded(lane int) ack.View {
	if lane == calls {
		c := &l.immediate
		return ack.View{Committed: c.committed, Offset: c.offset, Done: c.done, Routes: c.routes}
	}
	c := &l.batch
	return ack.View{Committed: c.committed, Offset: c.offset, Done: c.done, Routes: c.routes}
}

// resume begins an assignment with the routes of a version.
func (l *lanes) resume(lane int, v *routesVersion) (*routesOfLane, ack.Resumption) {
	r := &routesOfLane{routesVersion: v, lane: ack.LaneRoutes{
		Fingerprints: []uint64{v.fingerprint}, Batch: lane == filed, Shared: v.shared(),
	}}
	if !r.lane.Shared {
		r.lane.Alone = r.lane.Fingerprints
	}
	l.flips.clock++
	own := l.recorded(lane)
	r.view = l.recorded(1 - lane)
	var out ack.Resumption
	if own.Committed {
		ledger := ack.Ledger{Done: own.Done, Routes: own.Routes}
		out = r.lane.Resume(own.Offset, &ledger, &r.view, 10+l.flips.clock)
		r.onRecord = reflect.DeepEqual(out.Routes, own.Routes)
		r.seen = r.onRecord
	} else {
		out = r.lane.Begin(0, &r.view, 10+l.flips.clock)
	}
	r.own = out.Routes
	l.say("%v takes routes %d at %d done %v: %+v", laneName(lane), v.fingerprint, out.At, out.Done, out.Routes)
	return r, out
}

func laneName(lane int) string { return []string{"immediate", "batch"}[lane] }

// look looks at the other lane.
func (r *routesOfLane) look(l *lanes, lane int) {
	r.view, r.seen = l.recorded(1-lane), r.onRecord
}

// takes decides about a record, as connector's pipeline does. wait: not now.
func (r *routesOfLane) takes(f *flips, lane int, w *schemas.Write, at int64) (taken, wait bool) {
	if !r.lane.Shared {
		return false, false
	}
	if !r.seen {
		return false, true
	}
	switch r.own.Decide(&r.view, r.fingerprint, at) {
	case ack.Wait:
		return false, true
	case ack.Leave:
		r.own.Passed = true
	case ack.Take:
		return lane == filed || f.callable(w), false
	}
	return false, false
}

// letGo reports whether the other lane has let go of the partition.
func (l *lanes) letGo(r *routesOfLane, lane int) bool {
	if !r.onRecord || r.lane.Awaits(&r.view, l.flips.running[1-lane] != nil) {
		return false
	}
	if lane == filed || l.batch.entry == nil || l.batch.state == ack.Reconciling || l.batch.state == ack.Rebuild {
		return true
	}
	// One without an execution is waited out: any may be its.
	for i, e := range l.executions {
		if name := fmt.Sprint("e", i+1); e.status == contract.InProgress && (l.batch.entry.Execution == "" || l.batch.entry.Execution == name) {
			return false
		}
	}
	return true
}

func (l *lanes) exploreFlips(seed uint64) {
	l.begin(seed, 11)
	l.flips.flip(l.rnd, calls)
	l.flips.deployed[filed] = l.flips.deployed[calls]
	var final *routesVersion
	l.run(30, func() {
		l.flips.flip(l.rnd, calls)
		final = l.flips.deployed[calls]
		l.flips.deployed[filed] = final
	}, func() bool { return l.arrived(final) },
		func(storm, living context.Context) { l.routedLives(storm, living, calls, l.runCalls) },
		func(storm, living context.Context) { l.routedLives(storm, living, filed, l.runFiles) })
}

// arrived reports whether the lanes that are used have confirmed everything.
func (l *lanes) arrived(v *routesVersion) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := int64(len(l.log))
	return (!v.immediate || l.immediate.offset == n) && (!v.files || l.batch.offset == n && l.batch.entry == nil)
}

// routedLives runs one life of a lane after the other, each with the routes that
// are deployed when it begins. In the storm each is killed at a random time; the
// one that begins when it has passed goes on to the end.
func (l *lanes) routedLives(storm, living context.Context, lane int, life func(context.Context, *routesVersion)) {
	for living.Err() == nil {
		ctx, kill := context.WithCancel(living)
		ended := make(chan struct{})
		l.mu.Lock()
		if l.rnd.IntN(2) == 0 && storm.Err() == nil {
			l.flips.flip(l.rnd, lane)
			if l.rnd.IntN(2) == 0 { // both have them at once, or the other lane's next process has the former ones
				l.flips.deployed[1-lane] = l.flips.deployed[lane]
			}
		}
		v := l.flips.deployed[lane]
		used := lane == calls && v.immediate || lane == filed && v.files
		if used {
			l.flips.running[lane] = v
		}
		l.mu.Unlock()
		last := storm.Err() != nil
		go func() {
			defer close(ended)
			if used {
				life(ctx, v)
			} else {
				<-ctx.Done()
			}
		}()
		if last {
			<-ended
		} else {
			_ = l.linger(storm, 3*time.Minute)
		}
		kill()
		<-ended
		l.mu.Lock()
		l.flips.running[lane] = nil
		l.mu.Unlock()
	}
}

// runCalls is one life of the immediate lane's process.
func (l *lanes) runCalls(ctx context.Context, v *routesVersion) {
	var keys keyQueues
	defer keys.end()
	l.mu.Lock()
	r, begin := l.resume(calls, v)
	tracker, next := ack.New(begin.At, begin.Done), begin.At
	l.mu.Unlock()
	for ctx.Err() == nil {
		l.mu.Lock()
		var todo func()
		var key string
		if next < int64(len(l.log)) && !r.own.Hold {
			w, at := l.log[next], next
			var wait, taken bool
			mine := l.flips.laneOf(v, &w.Write, at) == schemas.Immediate
			if l.flips.skipped(at) {
				mine = false
			} else if !mine && !tracker.Done(at) {
				taken, wait = r.takes(l.flips, calls, &w.Write, at)
			}
			if (mine || taken) && !tracker.Done(at) {
				e := new(ack.Entry)
				tracker.Track(e, at)
				key = w.Key
				todo = func() { l.bring(ctx, w.Write, at, !r.lane.Shared, func() { tracker.Confirm(e) }) }
			}
			if !wait {
				next++
				tracker.Advance(next)
			}
		}
		switch l.rnd.IntN(4) {
		case 0:
			l.commitCalls(r, tracker)
		case 1:
			r.look(l, calls)
			if r.own.Hold && l.letGo(r, calls) {
				if r.lane.GoesBack(tracker.Watermark(), &r.own, &r.view) {
					l.say("immediate reads again")
					l.commitCalls(r, tracker)
					l.mu.Unlock()
					l.runCalls(ctx, v)
					return
				}
				r.lane.GoOn(&r.own, &r.view)
				l.say("immediate goes on")
			}
		}
		l.mu.Unlock()
		if todo != nil {
			keys.add(key, todo)
		}
		_ = l.linger(ctx, 2*time.Second)
	}
}

func (l *lanes) commitCalls(r *routesOfLane, tracker *ack.Tracker) {
	c := &l.immediate
	c.committed, c.offset, c.done, c.routes = true, tracker.Watermark(), append(ack.Ranges(nil), tracker.Confirmed()...), r.own
	r.onRecord = true
}
