package calls

import (
	"math"
	"time"
)

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
