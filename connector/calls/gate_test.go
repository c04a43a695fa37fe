package calls

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// outage is a service that fails in its way until a time.
func outage(err error, until time.Duration) *script {
	return &script{answer: func(now sent) error {
		if now.at < until {
			return err
		}
		return nil
	}}
}

func TestBreakerOpensProbesAndCloses(t *testing.T) {
	service := outage(errUnavailable, 20*time.Second)
	run(t, config(), service, func(t *testing.T, s *stage) {
		s.puts(50)
		pass(20 * time.Millisecond)
		if !s.Paused(customers) || s.Breaker(customers) != Open {
			t.Fatalf("after 16 failures: got paused %v, breaker %v, want true, open", s.Paused(customers), s.Breaker(customers))
		}
		calls := service.count()
		pass(14 * time.Second)
		if got := service.count(); got != calls {
			t.Errorf("calls while open: got %d, want none", got-calls)
		}
		pass(2 * time.Second) // 15s after it opened: one probe, which fails
		if got := service.count(); got != calls+1 {
			t.Errorf("calls when half-open: got %d, want the probe alone", got-calls)
		}
		if !s.Paused(customers) {
			t.Error("after the failed probe: got not paused, want paused")
		}
		pass(15 * time.Second) // the next probe succeeds
		s.wantPending(0)
		if s.Paused(customers) || s.Breaker(customers) != Closed {
			t.Errorf("at the end: got paused %v, breaker %v, want false, closed", s.Paused(customers), s.Breaker(customers))
		}
		s.want("reported", s.turns(),
			"open (503), half-open (<nil>), open (503), half-open (<nil>), closed (<nil>)")
	})
}

// TestHalfOpenBreakerWithoutWorkLetsConsumptionGoOn: else nothing would ever
// come to probe with.
func TestHalfOpenBreakerWithoutWorkLetsConsumptionGoOn(t *testing.T) {
	service := outage(errUnavailable, 10*time.Second)
	run(t, config(), service, func(t *testing.T, s *stage) {
		s.puts(10)
		pass(time.Second)
		s.drop(func(Origin) bool { return true })
		if !s.Paused(customers) {
			t.Error("open: got not paused, want paused")
		}
		pass(15 * time.Second)
		if s.Paused(customers) {
			t.Error("half-open and idle: got paused, want not")
		}
		o := s.put(schemas.Upsert, "new", "1")
		pass(time.Second)
		s.want("probe", o.String(), "applied")
		if got := s.Breaker(customers); got != Closed {
			t.Errorf("breaker: got %v, want closed", got)
		}
	})
}

func TestBreakerIgnoresWhatIsNotTheServicesHealth(t *testing.T) {
	for name, err := range map[string]error{
		"refused writes":    errConflict,
		"not found":         errNotFound,
		"a refused login":   fault{status: 401},
		"too many requests": fault{status: 429, overload: true},
	} {
		t.Run(name, func(t *testing.T) {
			service := outage(err, time.Second)
			run(t, config(), service, func(_ *testing.T, s *stage) {
				for i := range 50 {
					s.put(schemas.Patch, fmt.Sprint(i), "1")
				}
				pass(time.Second)
				s.want("breaker", s.turns(), "")
			})
		})
	}
}

// TestBreakerCountsAnswersThatAreNotTheServices: a gateway's 404 is transient, the
// service's own is not.
func TestBreakerCountsAnswersThatAreNotTheServices(t *testing.T) {
	for _, status := range []int{200, 404, 405, 407, 421, 426} {
		service := outage(fault{status: status}, time.Hour)
		run(t, config(), service, func(_ *testing.T, s *stage) {
			for i := range 50 {
				s.put(schemas.Delete, fmt.Sprint(i), "")
			}
			pass(time.Second)
			s.want("breaker", s.turns()[:min(len(s.turns()), len("open"))], "open")
			s.wantPending(50)
		})
	}
}

// TestQuotaIsWaitedForTogether: a service that takes so many calls per second
// and refuses the rest is not asked on and on.
func TestQuotaIsWaitedForTogether(t *testing.T) {
	perSecond := map[int]int{}
	service := &script{answer: func(now sent) error {
		second := int(now.at / time.Second)
		perSecond[second]++
		if perSecond[second] > 20 {
			return fault{status: 429, overload: true, after: time.Second}
		}
		return nil
	}}
	cfg := config()
	cfg.Concurrency = Concurrency{Start: 1, Max: 1}
	run(t, cfg, service, func(t *testing.T, s *stage) {
		s.puts(400)
		pass(30 * time.Second)
		s.wantPending(0)
		if got := service.count(); got > 440 {
			t.Errorf("calls for 400 writes: got %d, want at most 440", got)
		}
	})
}

func TestRateSpreadsCallsEvenly(t *testing.T) {
	service := &script{}
	cfg := config()
	cfg.Rate = Rate{Calls: 600, Per: time.Minute}
	run(t, cfg, service, func(t *testing.T, s *stage) {
		s.puts(1000)
		for i := 1; i <= 10; i++ {
			pass(time.Second)
			if got := service.count(); got < 10*i || got > 10*i+1 {
				t.Errorf("calls in %ds: got %d, want %d", i, got, 10*i)
			}
		}
		if s.Paused(customers) {
			t.Error("got paused, want not: the rate is no reason to stop reading")
		}
	})
}

// TestCallsOfOneAttemptCountForTheRate: what an attempt spends beyond its first call
// is missing behind it.
func TestCallsOfOneAttemptCountForTheRate(t *testing.T) {
	service := &script{}
	cfg := config()
	cfg.Rate = Rate{Calls: 600, Per: time.Minute}
	run(t, cfg, service, func(t *testing.T, s *stage) {
		s.puts(100)
		for range 5 {
			s.Spend()
		}
		pass(time.Second)
		if got := service.count(); got < 5 || got > 6 {
			t.Errorf("calls in a second: got %d, want 5", got)
		}
	})
}

// TestRateFollowsTheShare: a lane that shares the rate makes its part of the
// calls, more once its part has grown, and none while it has none.
func TestRateFollowsTheShare(t *testing.T) {
	service := &script{}
	var part atomic.Int64 // in percent
	cfg := config()
	cfg.Rate = Rate{Calls: 600, Per: time.Minute}
	cfg.Share = func() float64 { return float64(part.Load()) / 100 }
	run(t, cfg, service, func(t *testing.T, s *stage) {
		s.puts(1000)
		made := 0
		for _, c := range []struct{ percent, calls int64 }{{0, 0}, {25, 25}, {1, 1}, {100, 100}, {50, 50}, {0, 0}} {
			part.Store(c.percent)
			pass(10 * time.Second)
			got := int64(service.count() - made)
			made += int(got)
			if got < c.calls-3 || got > c.calls+1 {
				t.Errorf("calls in 10s with %d %% of 600 a minute: got %d, want %d", c.percent, got, c.calls)
			}
		}
	})
}

// TestShareOfARateOfCenturiesIsWaitedFor: a wait that no Duration holds is a long one.
func TestShareOfARateOfCenturiesIsWaitedFor(t *testing.T) {
	service := &script{}
	cfg := config()
	cfg.Rate = Rate{Calls: 1, Per: 876_000 * time.Hour}
	cfg.Share = func() float64 { return 0.1 }
	run(t, cfg, service, func(t *testing.T, s *stage) {
		s.puts(10)
		pass(time.Hour)
		if got := service.count(); got > 1 {
			t.Errorf("calls in an hour: got %d, want one at most", got)
		}
	})
}

// TestLanesUseWhatOthersLeaveOfTheRate: nine tenths of 600 calls a minute are one lane's and
// a tenth the other's, and either gets all while the other has nothing to call.
func TestLanesUseWhatOthersLeaveOfTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := &Service{}
		var away atomic.Bool // the small one's part may be another member's by now
		begin := func(share float64) *stage {
			cfg := config()
			cfg.Rate, cfg.Share, cfg.Service = Rate{Calls: 600, Per: time.Minute}, func() float64 { return share }, service
			cfg.MayCall = func() bool { return share > 0.5 || !away.Load() }
			s := &stage{t: t, service: &script{}, heard: &audience{}}
			s.begin(cfg)
			return s
		}
		large, small := begin(0.9), begin(0.1)
		defer large.end()
		defer small.end()
		calls := 0
		put := func(s *stage, n int) {
			for range n {
				calls++
				s.put(schemas.Upsert, fmt.Sprint(calls), "1")
			}
		}
		in := func(d time.Duration) (ofLarge, ofSmall int) {
			l, s := large.service.count(), small.service.count()
			pass(d)
			return large.service.count() - l, small.service.count() - s
		}
		want := func(when string, l, s, wantL, wantS int) {
			if l < wantL-4 || l > wantL+2 || s < wantS-4 || s > wantS+2 {
				t.Errorf("%s: got %d and %d calls, want %d and %d", when, l, s, wantL, wantS)
			}
		}
		put(small, 500)
		l, s := in(20 * time.Second)
		want("the small one alone", l, s, 0, 200)
		put(large, 500)
		l, s = in(20 * time.Second)
		want("both", l, s, 180, 20)
		l, s = in(60 * time.Second)
		want("until both are done", l, s, 320, 280)
		put(large, 300)
		l, s = in(20 * time.Second)
		want("the large one alone", l, s, 200, 0)
		away.Store(true)
		l, s = in(10 * time.Second)
		want("the large one without the other's part", l, s, 90, 0)
	})
}

func TestConcurrencyStaysWithinTheLimit(t *testing.T) {
	service := &script{}
	cfg := config()
	cfg.Concurrency = Concurrency{Start: 4, Max: 32}
	run(t, cfg, service, func(t *testing.T, s *stage) {
		s.puts(5000)
		pass(5 * time.Millisecond)
		if got := s.InFlight(); got != 4 {
			t.Errorf("in flight at first: got %d, want 4", got)
		}
		pass(500 * time.Millisecond)
		if got, limit := s.InFlight(), s.Limit(); got != 32 || limit != 32 {
			t.Errorf("in flight after half a second: got %d of %d, want 32", got, limit)
		}
	})
}

// TestCallsInFlightComeDownWithTheLimit: within one round of calls, although
// there are more workers.
func TestCallsInFlightComeDownWithTheLimit(t *testing.T) {
	const capacity = 8
	service := &script{}
	service.answer = func(sent) error {
		flying := 1 // the one that ends
		for _, busy := range service.inFlight {
			if busy {
				flying++
			}
		}
		if flying > capacity {
			return fault{status: 429, overload: true}
		}
		return nil
	}
	cfg := config()
	cfg.Concurrency = Concurrency{Start: 32, Max: 64}
	run(t, cfg, service, func(t *testing.T, s *stage) {
		s.puts(20000)
		above := 0
		for range 5000 {
			pass(time.Millisecond)
			if above++; s.InFlight() <= s.Limit() {
				above = 0
			}
			if above > 11 {
				t.Fatalf("for a round of calls: got %d in flight, want at most the limit of %d", s.InFlight(), s.Limit())
			}
		}
		if got := s.Limit(); got > 2*capacity {
			t.Errorf("limit: got %d, want near %d", got, capacity)
		}
	})
}

func TestNoCallStartsWhileTheWritesMayBeAnotherOwners(t *testing.T) {
	service := &script{}
	var mine atomic.Bool
	mine.Store(true)
	c := config()
	c.MayCall = mine.Load
	run(t, c, service, func(t *testing.T, s *stage) {
		first := s.put(schemas.Upsert, "1", "1")
		pass(time.Second)
		s.want("while leased", first.String(), "applied")
		mine.Store(false)
		second := s.put(schemas.Upsert, "1", "2")
		dropped := s.put(schemas.Upsert, "2", "1")
		pass(time.Minute)
		if got := service.count(); got != 1 {
			t.Errorf("calls without a lease: got %d, want none", got-1)
		}
		if s.Paused(customers) {
			t.Error("got paused, want not: the breaker has nothing to do with it")
		}
		s.drop(func(o Origin) bool { return o == dropped })
		mine.Store(true)
		pass(time.Second)
		s.want("with a lease again", second.String(), "applied")
		if got := service.count(); got != 2 {
			t.Errorf("calls in all: got %d, want 2", got)
		}
	})
}
