package calls

import (
	"math/rand/v2"
	"testing"
	"time"
)

// shared is a service that has its processors together with the sink and with
// others: more calls at once bring less and less, and how fast all of it is
// changes by chance every 70 ms, by a third to either side.
func shared(fastest float64, half int, seed uint64) service {
	const every = 70 * time.Millisecond
	rnd := rand.New(rand.NewPCG(seed, 2))
	var until time.Time
	speed := 1.0
	best := fastest * highest / float64(highest+half) / (1 + jitter/2)
	return service{best: best, call: func(s *simulation) (time.Duration, bool, bool) {
		if s.now.After(until) {
			until, speed = s.now.Add(every), 1+(rnd.Float64()*2-1)/3
		}
		seconds := float64(len(s.calls)+1+half) / fastest / speed
		return time.Duration(seconds * float64(time.Second)), true, false
	}}
}

// TestLimiterIsNotLedByChance: where windows differ by chance more than by a step,
// the limit must not wander to where calls are lost.
func TestLimiterIsNotLedByChance(t *testing.T) {
	const seeds = 20
	mean := 0.0
	for seed := range uint64(seeds) {
		s := simulate(16, highest, seed)
		svc := shared(6000, 5, seed)
		share := s.run(svc, 5*time.Second, 20*time.Second) / svc.best
		if share < 0.78 {
			t.Errorf("seed %d: got %.2f of the most with a limit of %d, want at least 0.78", seed, share, s.limiter.limit)
		}
		mean += share / seeds
	}
	if mean < 0.94 {
		t.Errorf("on average: got %.3f of the most, want at least 0.94", mean)
	}
	t.Logf("on average %.3f of the most", mean)
}
