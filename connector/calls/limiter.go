package calls

import (
	"math"
	"time"
)

// Bounds of the limiter's judgement: how much evidence a verdict needs, how far a
// step goes, how much of a change counts. They were chosen against the services
// that the tests simulate.
const (
	windowTime  = 50 * time.Millisecond // shortest window: below it, the scheduler's jitter decides
	shareCalls  = 32                    // fewest calls that a share of refusals is taken from
	windowCalls = 4                     // fewest calls a window is judged by

	boldest  = 2.0   // steps that keep proving right double or halve the limit
	careful  = 1.125 // a step after one that proved wrong
	restless = 250 * time.Millisecond
	patient  = 2 * time.Second  // longest rest, so that a change is met within it
	rounds   = 16               // quiet after a wrong step, in latencies, so that trying costs little,
	longest  = 10 * time.Second // but no longer than this

	slower    = 2.0  // times the base latency: somewhere calls are waiting
	congested = 0.05 // share of overload answers that matters
	flooded   = 0.5  // share at which it is not in doubt

	memory = 8 // most windows that a reading is the mean of
)

// limiter finds how many calls in flight serve best, by trying. It moves the
// limit a step, compares what came out, and takes the step back if it was wrong.
//
// It compares goodput: by Little's law the calls answered per second are the
// calls in flight over their mean latency, times the share that was answered.
// So a service that merely became slow gets no fewer calls (fewer would come out
// slower still), one whose queue grew gets fewer (as many come out), and
// refusals lower the limit only if lowering it makes them fewer.
//
// It knows calls that ended, no clock, no lock and no goroutine: the owner
// passes the times and serialises the calls.
type limiter struct {
	limit, max int // calls that may be in flight now, at least 1; the most that this may be

	window   window
	before   reading    // the latest at rest: what a step is compared with
	during   reading    // of the step under way
	noise    float64    // share by which the goodput at rest differs from window to window
	doubted  bool       // the last window looked like another service's
	trial    *direction // the way of the step under way, nil if there is none
	up, down direction
	quiet    time.Time // no step without need before then

	base       time.Duration // latency without a queue, as far as known
	background float64       // share of overload answers that the last wrong step down did not cure
}

// direction is a way to go: how far the next step reaches, and when it may be
// taken.
type direction struct {
	step  float64       // factor of the next step
	rest  time.Duration // after the next wrong step
	until time.Time     // resting
}

// right makes the next step bolder.
func (d *direction) right() {
	d.step, d.rest, d.until = min(boldest, 2*d.step-1), restless, time.Time{}
}

// wrong rests before the next step, longer each time.
func (d *direction) wrong(now time.Time) {
	d.until = now.Add(d.rest)
	d.step, d.rest = careful, min(2*d.rest, patient)
}

func newLimiter(start, highest int) *limiter {
	l := &limiter{limit: start, max: highest}
	l.afresh()
	return l
}

// observe counts a call. At the end of a window, which is at least one round of
// calls, the limit may change.
func (l *limiter) observe(s sample) {
	w := &l.window
	if !w.settled {
		// The first round after a step meets the queue of the limit before it.
		if !s.started.Before(w.opened) {
			w.opened, w.settled = s.ended, true
		}
		return
	}
	if s.started.Before(w.opened) {
		return
	}
	w.add(s, l.limit)
	if w.calls < windowCalls || w.isFull() && w.calls < l.limit || w.overload > 0 && w.calls < shareCalls ||
		s.ended.Sub(w.opened) < windowTime {
		return
	}
	limit := l.limit
	l.judge(w.read(limit), s.ended)
	*w = window{opened: s.ended, settled: l.limit == limit}
}

// judge ends the step under way or takes the next.
func (l *limiter) judge(r reading, now time.Time) {
	if r.latency == 0 && r.overload == 0 {
		return // an outage, which is the breaker's
	}
	changed := l.another(r)
	if l.doubted = changed && !l.doubted; l.doubted {
		return // one window may be a hiccup: the next one decides
	}
	if r.full && !changed {
		var enough bool
		if r, enough = l.averaged(r); !enough {
			return
		}
	}
	tried := l.trial
	l.trial, l.during = nil, reading{}
	if r.latency > 0 && (l.base == 0 || r.latency < l.base) {
		l.base = r.latency
	}
	switch {
	case changed:
		l.afresh()
	case tried == nil:
	case !r.full: // the demand went away: nothing was learned
		l.set(l.before.limit)
		return
	case tried == &l.up && !l.gained(r), tried == &l.down && !l.kept(r):
		if tried == &l.down { // neither the latency nor the refusals are of our making
			l.base = max(r.latency, l.base)
			// Where most calls are refused, that is never taken for the way it is.
			l.background = min(max(r.overload, l.before.overload), flooded)
		}
		tried.wrong(now)
		l.quiet = now.Add(min(r.latency*rounds, longest))
		l.set(l.before.limit)
		return
	default:
		tried.right()
	}
	l.before = r
	l.next(r, now)
}

// averaged is the mean of the windows at rest, or of the step under way as soon as
// these are enough to tell from noise what it did. Refusals speak for themselves
// and must not go on meanwhile.
func (l *limiter) averaged(r reading) (mean reading, enough bool) {
	if r.overload > 0 || l.before.overload > 0 {
		return r, true
	}
	if l.trial != nil {
		l.during = l.during.with(r)
		return l.during, l.during.windows >= l.wanted(r.limit)
	}
	if l.before.limit == r.limit && l.before.goodput > 0 {
		l.noise += (math.Abs(r.goodput/l.before.goodput-1) - l.noise) / memory
	}
	return l.before.with(r), true
}

// wanted is how many windows tell a step to a limit from noise.
func (l *limiter) wanted(limit int) int {
	step := math.Abs(float64(limit)/float64(l.before.limit) - 1)
	if step == 0 {
		return 1
	}
	deviations := 2 * l.noise / step
	return int(math.Ceil(min(deviations*deviations, memory)))
}

// another reports that the service became another one: its latency changed by
// more than a step of ours explains.
func (l *limiter) another(r reading) bool {
	if l.before.latency == 0 || r.latency == 0 {
		return false
	}
	change := r.latency.Seconds() / l.before.latency.Seconds()
	ours := float64(r.limit) / float64(l.before.limit)
	ours *= ours // a service in trouble does worse than queue
	return change > slower*max(ours, 1) || change < min(ours, 1)/slower
}

// afresh forgets which steps were wrong.
func (l *limiter) afresh() {
	l.up = direction{step: boldest, rest: restless}
	l.down = l.up
	l.quiet, l.background = time.Time{}, 0
}

// next takes a step down if calls are refused or waiting. Else, now and then and
// if there is demand, it tries a step up, or one down to see whether it costs
// anything; not where noise does more than the step: half of such steps would
// seem to cost nothing, and the limit be lost bit by bit.
func (l *limiter) next(r reading, now time.Time) {
	mayUp := l.limit < l.max && now.After(l.up.until)
	mayDown := r.limit > 1 && now.After(l.down.until)
	refused := r.overload > l.background+congested+r.rnd()
	queued := r.full && r.latency.Seconds() > l.base.Seconds()*slower
	switch {
	case mayDown && (refused || queued):
		l.stepDown(r.limit, l.down.step)
	case !r.full:
	case mayUp && l.up.step > careful: // on the way
		l.stepUp()
	case now.Before(l.quiet):
	case mayUp:
		l.stepUp()
	case mayDown && l.noise < careful-1:
		l.stepDown(r.limit, careful)
	}
}

func (l *limiter) stepUp() {
	l.trial = &l.up
	l.set(max(l.limit+1, int(float64(l.limit)*l.up.step)))
}

func (l *limiter) stepDown(from int, step float64) {
	l.trial = &l.down
	l.set(min(from-1, int(float64(from)/step)))
}

// gained reports whether a step up paid: a tenth of what it would bring if the
// service did not notice it, and no more refusals than before.
func (l *limiter) gained(r reading) bool {
	grown := float64(r.limit)/float64(l.before.limit) - 1
	return r.goodput >= l.before.goodput*(1+grown/10) &&
		r.overload <= l.before.overload+congested+r.rnd()
}

// kept reports whether a step down cost nothing to speak of. Where most calls
// were refused it may cost more, if not all that it would without a cure, and what
// noise makes of so few answers is no cost: so many refusals are not to go on in
// doubt.
func (l *limiter) kept(r reading) bool {
	shrunk := 1 - float64(r.limit)/float64(l.before.limit)
	allowed := shrunk / 10
	if l.before.overload > flooded {
		allowed = shrunk*0.9 + math.Sqrt(1/max(r.answered, 1)+1/max(l.before.answered, 1))
	}
	return r.goodput >= l.before.goodput*(1-allowed)
}

func (l *limiter) set(limit int) { l.limit = min(max(limit, 1), l.max) }

// sample is one call that ended.
type sample struct {
	started, ended time.Time
	inFlight       int  // calls in flight when it ended, itself included
	answered       bool // the service dealt with it, whatever it said
	overload       bool // the service, or time, said it was too much
}

// reading is what one window showed, or the mean of several.
type reading struct {
	limit    int
	goodput  float64       // answered calls per second
	latency  time.Duration // of the calls answered, 0 if none was
	overload float64       // share of calls
	calls    float64
	answered float64
	full     bool // the limit, not the demand, bounded the calls in flight
	windows  int  // whose mean it is
}

// with is the mean of it and of one more window, if both were bounded by the same
// limit; else the window alone. Neither has refusals.
func (r reading) with(one reading) reading {
	if !r.full || r.limit != one.limit {
		return one
	}
	n := float64(min(r.windows, memory-1))
	mean := func(was, is float64) float64 { return (was*n + is) / (n + 1) }
	one.goodput = mean(r.goodput, one.goodput)
	one.latency = time.Duration(mean(float64(r.latency), float64(one.latency)))
	one.windows = int(n) + 1
	return one
}

// rnd is by how much the share of overload may be off: two standard
// deviations.
func (r reading) rnd() float64 { return 2 * math.Sqrt(r.overload*(1-r.overload)/r.calls) }

// window adds up the calls that started since it was opened.
type window struct {
	opened   time.Time
	settled  bool // calls started under the limit before have ended
	calls    int
	answered int
	overload int
	full     int // calls that ended with every permit in use
	inFlight int
	peak     int
	latency  time.Duration // of all calls together
	served   time.Duration // of the calls answered together
}

func (w *window) add(s sample, limit int) {
	w.calls++
	w.inFlight += s.inFlight
	w.peak = max(w.peak, s.inFlight)
	w.latency += s.ended.Sub(s.started)
	if s.answered {
		w.answered++
		w.served += s.ended.Sub(s.started)
	}
	if s.overload {
		w.overload++
	}
	if s.inFlight >= limit {
		w.full++
	}
}

func (w *window) read(limit int) reading {
	calls := float64(w.calls)
	r := reading{
		limit:    limit,
		overload: float64(w.overload) / calls,
		calls:    calls,
		answered: float64(w.answered),
		full:     w.isFull(),
		windows:  1,
	}
	if !r.full {
		r.limit = min(limit, w.peak)
	}
	if w.answered > 0 {
		r.goodput = float64(w.answered) / calls * float64(w.inFlight) / max(w.latency, 1).Seconds()
		r.latency = max(w.served/time.Duration(w.answered), 1)
	}
	return r
}

func (w *window) isFull() bool { return w.full*2 >= w.calls }
