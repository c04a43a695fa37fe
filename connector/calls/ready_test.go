package calls

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// of submits a write of a route with a weight. The route is in the call's cell.
func (s *stage) of(route int, weight float64, op schemas.Op, key string) *origin {
	o := &origin{}
	var values []string
	if op != schemas.Delete {
		values = []string{fmt.Sprint("r", route)}
	}
	s.Submit(Item{Mapping: "customers", Route: route, Weight: weight, Write: write(op, key, values...), Origin: o})
	return o
}

// backlog submits so many upserts of a route, of distinct keys.
func (s *stage) backlog(route int, weight float64, writes int) {
	for i := range writes {
		s.of(route, weight, schemas.Upsert, fmt.Sprint("r", route, "-", i))
	}
}

// perRoute counts the calls of each route that came in from one time to another.
func (s *script) perRoute(from, to time.Duration) map[string]int {
	n := map[string]int{}
	for _, c := range s.log() {
		if c.at >= from && c.at < to {
			n[c.Cells[0].Value.Text()]++
		}
	}
	return n
}

// timed is an origin that notes when its write was confirmed.
type timed struct {
	origin
	took time.Duration
	from time.Time
}

func (o *timed) Confirm(out Outcome) { o.took = time.Since(o.from); o.origin.Confirm(out) }

// ninetyAMinute is a service that is scarce.
func ninetyAMinute() Config {
	cfg := config()
	cfg.Rate = Rate{Calls: 90, Per: time.Minute}
	return cfg
}

func TestUrgentWriteDoesNotWaitBehindABacklog(t *testing.T) {
	const spacing = time.Minute / 90
	run(t, ninetyAMinute(), &script{}, func(t *testing.T, s *stage) {
		s.backlog(1, 1, 10_000)
		var urgent []*timed
		for i := range 200 {
			pass(20 * time.Second)
			o := &timed{from: time.Now()}
			urgent = append(urgent, o)
			s.Submit(Item{Mapping: "consents", Weight: 10, Write: write(schemas.Upsert, fmt.Sprint("c", i), "r0"), Origin: o})
		}
		pass(20 * time.Second)
		var took []time.Duration
		for i, o := range urgent {
			if o.String() != "applied" {
				t.Fatalf("urgent write %d: got %q, want applied", i, o)
			}
			took = append(took, o.took)
		}
		slices.Sort(took)
		if got, want := took[len(took)*99/100], spacing+2*time.Second; got > want {
			t.Errorf("p99 from submitted to confirmed: got %v, want at most %v", got, want)
		}
	})
}

func TestRoutesShareCallsByWeight(t *testing.T) {
	weights := map[string]float64{"r1": 1, "r2": 3, "r3": 10, "r4": 0.5}
	slow := config()
	slow.Concurrency = Concurrency{Start: 1, Max: 1} // 100 calls a second
	for name, cfg := range map[string]Config{"a rate": ninetyAMinute(), "one call at a time": slow} {
		t.Run(name, func(t *testing.T) {
			service := &script{}
			run(t, cfg, service, func(t *testing.T, s *stage) {
				for route := 1; route <= len(weights); route++ {
					s.backlog(route, weights[fmt.Sprint("r", route)], 14_000)
				}
				for minute := range 3 {
					from := time.Duration(minute) * time.Minute
					pass(time.Minute)
					got := service.perRoute(from, from+time.Minute)
					all := got["r1"] + got["r2"] + got["r3"] + got["r4"]
					for route, weight := range weights {
						want := weight / 14.5
						if share := float64(got[route]) / float64(all); math.Abs(share-want) > 0.05*want+1/float64(all) {
							t.Errorf("minute %d, route %s: got %.4f of %d calls, want %.4f", minute, route, share, all, want)
						}
					}
				}
			})
		})
	}
}

// TestSharingCostsNoCalls: routes together get what one route gets alone.
func TestSharingCostsNoCalls(t *testing.T) {
	calls := func(routes int) int {
		service := &script{}
		run(t, ninetyAMinute(), service, func(_ *testing.T, s *stage) {
			for route := range routes {
				s.backlog(route, float64(1+route), 3000/routes)
			}
			pass(20 * time.Minute)
		})
		return service.count()
	}
	if alone, shared := calls(1), calls(5); float64(shared) < 0.98*float64(alone) {
		t.Errorf("calls in 20 minutes: got %d of five routes, want at least 0.98 of the %d of one", shared, alone)
	}
}

// TestIdleRouteGainsNothing: neither does a route that was idle catch up, nor does one
// that used all calls meanwhile pay for them.
func TestIdleRouteGainsNothing(t *testing.T) {
	service := &script{}
	run(t, ninetyAMinute(), service, func(t *testing.T, s *stage) {
		s.backlog(1, 1, 3000)
		s.backlog(2, 1, 1)
		pass(10 * time.Minute)
		s.backlog(2, 1, 300)
		pass(time.Minute)
		if got := service.perRoute(10*time.Minute, 11*time.Minute); got["r1"] < 44 || got["r2"] < 44 {
			t.Errorf("the minute after an idle route of equal weight has work: got %v, want 45 calls of each", got)
		}
	})
}

// TestRouteThatIsIdleBetweenItsCallsGetsNoMoreThanItsShare: one write at a time.
func TestRouteThatIsIdleBetweenItsCallsGetsNoMoreThanItsShare(t *testing.T) {
	service := &script{}
	run(t, ninetyAMinute(), service, func(t *testing.T, s *stage) {
		s.backlog(1, 9, 3000)
		var last *origin
		for i := 0; time.Since(start()) < 10*time.Minute; pass(10 * time.Millisecond) {
			if last == nil || last.String() != "" {
				last = s.of(2, 1, schemas.Upsert, fmt.Sprint("k", i))
				i++
			}
		}
		if got := service.perRoute(0, 10*time.Minute); got["r2"] > 92 || got["r2"] < 80 {
			t.Errorf("calls in 10 minutes: got %v, want a tenth of 900 for r2", got)
		}
	})
}

func TestKeyGoesWithTheMostUrgentOfItsRoutes(t *testing.T) {
	for name, c := range map[string]struct {
		op   schemas.Op // of the urgent write
		want string
	}{
		"merged":     {schemas.Upsert, "upsert r2"},
		"not merged": {schemas.Create, "upsert r1, create r2"}, // in its order
	} {
		t.Run(name, func(t *testing.T) {
			service := &script{}
			run(t, ninetyAMinute(), service, func(_ *testing.T, s *stage) {
				s.backlog(1, 1, 100)
				s.of(1, 1, schemas.Upsert, "k")
				pass(10 * time.Second)
				urgent := s.of(2, 100, c.op, "k")
				pass(2 * time.Second)
				s.want("the key's calls", service.calls("k"), c.want)
				s.want("urgent", urgent.String(), "applied")
			})
		})
	}
}

func TestKeyIsAsUrgentAsWhatItStillHolds(t *testing.T) {
	for name, dropped := range map[string]bool{"the urgent call has ended": false, "the urgent write is dropped": true} {
		t.Run(name, func(t *testing.T) {
			service := &script{}
			run(t, ninetyAMinute(), service, func(_ *testing.T, s *stage) {
				s.backlog(1, 1, 100)
				pass(time.Second)
				urgent := s.of(2, 100, schemas.Upsert, "k")
				s.of(1, 1, schemas.Create, "k")
				s.drop(func(o Origin) bool { return dropped && o == urgent })
				pass(2 * time.Minute)
				s.wantPending(0)
				last := service.log()[service.count()-1]
				s.want("behind the backlog", last.Op.String()+" of "+last.Key, "create of k")
			})
		})
	}
}

// TestUrgentRouteIsFirstAfterAnInterruption: whatever held calls up.
func TestUrgentRouteIsFirstAfterAnInterruption(t *testing.T) {
	throttled := fault{status: 429, overload: true, after: 20 * time.Second}
	for name, err := range map[string]error{"Retry-After": throttled, "an open breaker": errUnavailable} {
		t.Run(name, func(t *testing.T) {
			service := outage(err, 20*time.Second)
			cfg := ninetyAMinute()
			cfg.Breaker.Failures = 1
			run(t, cfg, service, func(t *testing.T, s *stage) {
				s.backlog(1, 1, 100)
				pass(10 * time.Second)
				s.backlog(2, 10, 5)
				pass(25 * time.Second)
				if got := service.perRoute(20*time.Second, 35*time.Second); got["r2"] < 5 {
					t.Errorf("calls after the interruption: got %v, want all 5 of the urgent route", got)
				}
			})
		})
	}
}

// TestHotKeysMergeAcrossRoutes: weights change nothing about merging.
func TestHotKeysMergeAcrossRoutes(t *testing.T) {
	service := &script{}
	run(t, ninetyAMinute(), service, func(_ *testing.T, s *stage) {
		for i := range 1000 {
			s.of(i%3, float64(1+i%3), schemas.Upsert, fmt.Sprint(i%10))
		}
		pass(time.Minute)
		s.wantPending(0)
		if got := service.count(); got > 11 {
			t.Errorf("calls for 1000 writes of 10 keys: got %d, want 10, and one for the write that was called at once", got)
		}
	})
}
