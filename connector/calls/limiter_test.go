package calls

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"
)

// simulation drives a limiter against a service with more demand than it can
// take, in simulated time and without a goroutine.
type simulation struct {
	limiter *limiter
	now     time.Time
	rnd     *rand.Rand
	calls   flights
	free    []time.Time // when each server of a queueing service is next free
}

// service is how a simulated service treats the call that comes in now, and the
// most calls per second that any fixed limit up to highest gets answered.
type service struct {
	call func(s *simulation) (latency time.Duration, answered, overload bool)
	best float64
}

const highest = 64

// jitter is added to every latency, a random part of it up to this share.
const jitter = 0.1

// flights are the simulated calls under way, the next to end first.
type flights []sample

func (f flights) Len() int           { return len(f) }
func (f flights) Less(i, j int) bool { return f[i].ended.Before(f[j].ended) }
func (f flights) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *flights) Push(x any)        { *f = append(*f, x.(sample)) }
func (f *flights) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}

var epoch = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

func simulate(start, limit int, seed uint64) *simulation {
	return &simulation{limiter: newLimiter(start, limit), now: epoch, rnd: rand.New(rand.NewPCG(seed, 0))}
}

// run simulates settling and then measuring for some time, and returns the calls
// answered per second of the latter.
func (s *simulation) run(svc service, settling, measuring time.Duration) float64 {
	s.free = nil
	from := s.now.Add(settling)
	end := from.Add(measuring)
	answered := 0
	for {
		for len(s.calls) < s.limiter.limit {
			latency, ok, overload := svc.call(s)
			latency += time.Duration(s.rnd.Float64() * jitter * float64(latency))
			heap.Push(&s.calls, sample{started: s.now, ended: s.now.Add(latency), answered: ok, overload: overload})
		}
		if s.calls[0].ended.After(end) {
			s.now = end
			return float64(answered) / max(measuring.Seconds(), 1e-9)
		}
		inFlight := len(s.calls)
		c := heap.Pop(&s.calls).(sample)
		c.inFlight = inFlight
		s.now = c.ended
		if c.answered && s.now.After(from) {
			answered++
		}
		s.limiter.observe(c)
	}
}

// atOnce is how many calls per second so many in flight make.
func atOnce(calls int, latency time.Duration) float64 {
	return float64(calls) / latency.Seconds() / (1 + jitter/2)
}

// steady takes as long for any number of calls.
func steady(latency time.Duration) service {
	return service{best: atOnce(highest, latency), call: func(*simulation) (time.Duration, bool, bool) {
		return latency, true, false
	}}
}

// queueing serves so many calls at a time, first come, first served.
func queueing(latency time.Duration, servers int) service {
	return service{best: float64(servers) / latency.Seconds(), call: func(s *simulation) (time.Duration, bool, bool) {
		if s.free == nil {
			s.free = make([]time.Time, servers)
		}
		first := &s.free[0]
		for i := range s.free {
			if s.free[i].Before(*first) {
				first = &s.free[i]
			}
		}
		if first.Before(s.now) {
			*first = s.now
		}
		*first = first.Add(latency)
		return first.Sub(s.now), true, false
	}}
}

// thrashing loses goodput with every call above what it can serve.
func thrashing(latency time.Duration, servers int) service {
	return service{best: atOnce(servers, latency), call: func(s *simulation) (time.Duration, bool, bool) {
		over := float64(max(len(s.calls)+1, servers)) / float64(servers)
		return time.Duration(float64(latency) * over * over), true, false
	}}
}

// refusing serves so many calls at a time and answers others at once that it is
// too much.
func refusing(latency time.Duration, servers int) service {
	return service{best: atOnce(servers, latency), call: func(s *simulation) (time.Duration, bool, bool) {
		serving := 0
		for _, c := range s.calls {
			if c.answered {
				serving++
			}
		}
		if serving >= servers {
			return time.Millisecond, false, true
		}
		return latency, true, false
	}}
}

// unlucky refuses a share of the calls however few there are.
func unlucky(latency time.Duration, share float64) service {
	return service{best: (1 - share) * atOnce(highest, latency), call: func(s *simulation) (time.Duration, bool, bool) {
		refused := s.rnd.Float64() < share
		return latency, !refused, refused
	}}
}

// starved is steady, on a machine whose processors somebody else needs three times
// a second: meanwhile everything takes five times as long.
func starved(latency, lasts time.Duration) service {
	const every, slower = 300 * time.Millisecond, 5
	share := lasts.Seconds() / every.Seconds()
	return service{best: atOnce(highest, latency) * (1 - share + share/slower), call: func(s *simulation) (time.Duration, bool, bool) {
		if s.now.Sub(s.now.Truncate(every)) >= every-lasts {
			return slower * latency, true, false
		}
		return latency, true, false
	}}
}

// TestLimiterSitsOutAHiccup: that everything took longer for a moment is no reason
// to make fewer calls.
func TestLimiterSitsOutAHiccup(t *testing.T) {
	for seed := range uint64(5) {
		s := simulate(8, highest, seed)
		svc := starved(5*time.Millisecond, 40*time.Millisecond)
		if got := s.run(svc, 5*time.Second, 15*time.Second); got < 0.93*svc.best {
			t.Errorf("seed %d: got %.0f calls/s with a limit of %d, want at least 93 %% of %.0f", seed, got, s.limiter.limit, svc.best)
		}
	}
}

// TestLimiterSettlesNearBestFixed: ten seconds after every change of the
// service, in both directions, at least 90 % of what the best fixed number of
// calls in flight gets done.
func TestLimiterSettlesNearBestFixed(t *testing.T) {
	const ms = time.Millisecond
	for name, phases := range map[string][]service{
		"slower and back":     {steady(5 * ms), steady(500 * ms), steady(5 * ms)},
		"queue appears":       {steady(20 * ms), queueing(20*ms, 8), steady(20 * ms)},
		"slower with a queue": {queueing(5*ms, 12), queueing(500*ms, 24), queueing(5*ms, 12)},
		"thrashing":           {thrashing(5*ms, 16), thrashing(200*ms, 16), thrashing(5*ms, 16)},
		"thrashing appears":   {steady(20 * ms), thrashing(20*ms, 8), steady(20 * ms)},
		"random refusals":     {unlucky(20*ms, 0.2), unlucky(100*ms, 0.2), steady(20 * ms)},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(2) {
				s := simulate(8, highest, seed)
				for i, svc := range phases {
					got := s.run(svc, 10*time.Second, 6*time.Second)
					if got < 0.9*svc.best {
						t.Errorf("seed %d, phase %d: got %.0f calls/s with a limit of %d, want at least 90 %% of %.0f",
							seed, i, got, s.limiter.limit, svc.best)
					}
				}
			}
		})
	}
}

// TestLimiterLeavesRoomToTheService: where more calls bring no more answers,
// fewer are made: refusals stay rare and a queue short.
func TestLimiterLeavesRoomToTheService(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		before, svc service
		most        int
	}{
		"refusing above 40":      {steady(20 * ms), refusing(20*ms, 40), 48},
		"refusing more and more": {refusing(20*ms, 64), refusing(20*ms, 40), 48},
		"refusing nearly all":    {refusing(20*ms, 64), refusing(20*ms, 12), 24},
		"16 at a time":           {steady(20 * ms), queueing(20*ms, 16), 40},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(2) {
				s := simulate(8, highest, seed)
				s.run(c.before, 3*time.Second, 0)
				got := s.run(c.svc, 10*time.Second, 5*time.Second)
				if s.limiter.limit > c.most {
					t.Errorf("seed %d: limit: got %d, want at most %d", seed, s.limiter.limit, c.most)
				}
				if got < 0.85*c.svc.best {
					t.Errorf("seed %d: got %.0f calls/s, want at least 85 %% of %.0f", seed, got, c.svc.best)
				}
			}
		})
	}
}

// TestLimiterTriesAtLittleCost: where a step in either direction is wrong and
// takes long to see, few are taken.
func TestLimiterTriesAtLittleCost(t *testing.T) {
	s := simulate(8, highest, 1)
	svc := thrashing(500*time.Millisecond, 16)
	if got := s.run(svc, 20*time.Second, 60*time.Second); got < 0.96*svc.best {
		t.Errorf("got %.1f calls/s with a limit of %d, want at least 96 %% of %.1f", got, s.limiter.limit, svc.best)
	}
}

// TestLimiterMeetsARecoverySoon: few calls at a time take as long before it as
// behind it, so that only trying more shows it.
func TestLimiterMeetsARecoverySoon(t *testing.T) {
	for seed := range uint64(20) {
		s := simulate(8, highest, seed)
		s.run(queueing(3*time.Millisecond, 5), 5*time.Second, 0)
		s.run(steady(5*time.Millisecond), 3*time.Second, 0)
		if got := s.limiter.limit; got < highest*7/8 {
			t.Errorf("seed %d: limit 3s after the service serves any number at a time: got %d, want nearly %d", seed, got, highest)
		}
	}
}

func TestLimiterReachesTheMaximumWithinHalfASecond(t *testing.T) {
	s := simulate(16, 256, 5)
	s.run(steady(20*time.Millisecond), 500*time.Millisecond, 0)
	if got := s.limiter.limit; got != 256 {
		t.Errorf("limit after 500ms at a constant 20ms: got %d, want 256", got)
	}
}

func TestLimiterStaysWithoutDemand(t *testing.T) {
	l := newLimiter(16, 256)
	now := epoch
	for range 1000 {
		start := now
		now = now.Add(5 * time.Millisecond)
		l.observe(sample{started: start, ended: now, inFlight: 3, answered: true})
	}
	if l.limit != 16 {
		t.Errorf("limit after 1,000 calls with 3 in flight: got %d, want 16", l.limit)
	}
}

// TestLimiterStaysDuringAnOutage: failed calls say nothing about how many there
// should be.
func TestLimiterStaysDuringAnOutage(t *testing.T) {
	s := simulate(8, highest, 1)
	down := service{call: func(*simulation) (time.Duration, bool, bool) { return time.Millisecond, false, false }}
	s.run(down, 5*time.Second, 0)
	if got := s.limiter.limit; got != 8 {
		t.Errorf("limit after 5s without an answer: got %d, want 8", got)
	}
}

// TestLimiterTakesNoFewRefusalsForMany: a share of refusals that fewer calls do
// not cure must not wear the limit down while it is small and chance is large.
func TestLimiterTakesNoFewRefusalsForMany(t *testing.T) {
	for seed := range uint64(20) {
		for _, svc := range []service{unlucky(20*time.Millisecond, 0.3), unlucky(100*time.Millisecond, 0.3)} {
			s := simulate(8, highest, seed)
			if got := s.run(svc, 15*time.Second, 5*time.Second); got < 0.8*svc.best {
				t.Errorf("seed %d: got %.0f calls/s with a limit of %d, want at least 80 %% of %.0f",
					seed, got, s.limiter.limit, svc.best)
			}
		}
	}
}

func TestLimiterStaysWithinItsBounds(t *testing.T) {
	for seed := range uint64(10) {
		s := simulate(1, 8, seed)
		for range 20 {
			latency := time.Duration(1+s.rnd.IntN(100)) * time.Millisecond
			s.run(unlucky(latency, s.rnd.Float64()), time.Second, 0)
			if got := s.limiter.limit; got < 1 || got > 8 {
				t.Fatalf("seed %d: limit: got %d, want 1 to 8", seed, got)
			}
		}
	}
}

// slowlyRefusing takes as long to say that it is too much as to serve.
func slowlyRefusing(latency time.Duration, servers int) service {
	svc := refusing(latency, servers)
	quick := svc.call
	svc.call = func(s *simulation) (time.Duration, bool, bool) {
		_, answered, overload := quick(s)
		return latency, answered, overload
	}
	return svc
}

// TestLimiterComesDownFromAFlood: where nearly all calls are refused, the few
// answers of a window vary by chance. That must not be taken for what a step down
// costs, or the flood goes on.
func TestLimiterComesDownFromAFlood(t *testing.T) {
	for seed := range uint64(8) {
		s := simulate(16, 256, seed)
		s.run(steady(20*time.Millisecond), 3*time.Second, 0)
		if got := s.limiter.limit; got != 256 {
			t.Fatalf("seed %d: limit before: got %d, want 256", seed, got)
		}
		s.run(slowlyRefusing(20*time.Millisecond, 12), 3*time.Second, 0)
		if got := s.limiter.limit; got > 24 {
			t.Errorf("seed %d: limit 3s after 12 at a time is all there is: got %d, want at most 24", seed, got)
		}
	}
}
