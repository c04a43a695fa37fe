package calls

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

func TestWriteIsCalledOnceAndConfirmedOnce(t *testing.T) {
	service := &script{}
	run(t, config(), service, func(t *testing.T, s *stage) {
		o := s.put(schemas.Upsert, "k", "1")
		s.wantPending(1)
		pass(10 * time.Millisecond)
		s.want("calls", service.calls("k"), "upsert 1")
		s.want("origin", o.String(), "applied")
		s.wantPending(0)
		if got := len(s.keys); got != 0 {
			t.Errorf("idle keys kept: got %d, want 0", got)
		}
		want := Attempt{Mapping: "customers", Op: schemas.Upsert, Writes: 1, Outcome: Applied, Took: 10 * time.Millisecond}
		if got := s.attempts(); len(got) != 1 || got[0] != want {
			t.Errorf("attempts: got %+v, want %+v", got, want)
		}
	})
}

func TestWritesSubmittedBeforeRunAreMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := &script{}
		l := New(config(), service, &audience{}, rand.New(rand.NewPCG(1, 2)))
		o := &origin{}
		l.Submit(Item{Write: write(schemas.Upsert, "k", "1"), Origin: o})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Run(ctx); err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
		if got := o.String(); got != "applied" {
			t.Errorf("origin: got %q, want %q", got, "applied")
		}
	})
}

func TestRetriesAreMarkedOnceTheOutcomeIsUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"known not applied": {fault{status: 401}, "create 1, create 1, create 1"},
		"unknown":           {errUnavailable, "create 1, create 1?, create 1?"},
		"not a Failure":     {errors.New("reset"), "create 1, create 1?, create 1?"},
		"wrapped":           {fmt.Errorf("create: %w", errUnavailable), "create 1, create 1?, create 1?"},
	} {
		t.Run(name, func(t *testing.T) {
			service := &script{answer: func(now sent) error {
				if now.nth < 3 {
					return c.err
				}
				return nil
			}}
			run(t, config(), service, func(_ *testing.T, s *stage) {
				o := s.put(schemas.Create, "k", "1")
				pass(time.Minute)
				s.want("calls", service.calls("k"), c.want)
				s.want("origin", o.String(), "applied")
			})
		})
	}
}

func TestPermanentFailureRejectsAndTheKeyGoesOn(t *testing.T) {
	service := &script{answer: failsOnce(fmt.Errorf("upsert: %w", errConflict))}
	run(t, config(), service, func(_ *testing.T, s *stage) {
		bad := s.put(schemas.Upsert, "k", "1")
		pass(5 * time.Millisecond)
		good := s.put(schemas.Upsert, "k", "2")
		pass(time.Second)
		s.want("calls", service.calls("k"), "upsert 1, upsert 2")
		s.want("first", bad.String(), "rejected: upsert: 409")
		s.want("second", good.String(), "applied")
	})
}

func TestOnlyADeleteMayFindNothing(t *testing.T) {
	service := &script{answer: func(sent) error { return errNotFound }}
	run(t, config(), service, func(_ *testing.T, s *stage) {
		gone := s.put(schemas.Delete, "a")
		lost := s.put(schemas.Patch, "b", "1")
		pass(time.Second)
		s.want("delete", gone.String(), "absent")
		s.want("patch", lost.String(), "rejected: 404")
	})
}

func TestBackOffDoublesUpToMaxAndIsJittered(t *testing.T) {
	service := &script{answer: func(sent) error { return errUnavailable }}
	cfg := config()
	cfg.Breaker.Failures = 1000
	run(t, cfg, service, func(t *testing.T, s *stage) {
		s.put(schemas.Upsert, "k", "1")
		pass(5 * time.Minute)
		full := 200 * time.Millisecond
		calls := service.log()
		for i := 1; i < len(calls); i++ {
			pause := calls[i].at - calls[i-1].at - 10*time.Millisecond
			if pause < full/2 || pause > full {
				t.Errorf("pause %d: got %v, want %v to %v", i, pause, full/2, full)
			}
			full = min(2*full, 30*time.Second)
		}
		if got := len(calls); got < 15 {
			t.Errorf("calls in five minutes: got %d, want at least 15", got)
		}
	})
}

func TestNoTryBeforeRetryAfter(t *testing.T) {
	service := &script{answer: failsOnce(fault{status: 429, overload: true, after: 90 * time.Second})}
	run(t, config(), service, func(_ *testing.T, s *stage) {
		s.put(schemas.Upsert, "k", "1")
		pass(89 * time.Second)
		s.want("before", service.calls("k"), "upsert 1")
		pass(2 * time.Second)
		s.want("after", service.calls("k"), "upsert 1, upsert 1")
	})
}

func TestFailingKeysHoldUpOnlyThemselves(t *testing.T) {
	service := &script{answer: func(now sent) error {
		if now.Key[0] == 'x' {
			return errUnavailable
		}
		return nil
	}}
	cfg := config()
	cfg.Concurrency = Concurrency{Start: 2, Max: 2} // back-off must not hold a permit
	run(t, cfg, service, func(_ *testing.T, s *stage) {
		for i := range 5 {
			s.put(schemas.Upsert, fmt.Sprintf("x%d", i), "1")
		}
		var others []*origin
		for i := range 100 {
			others = append(others, s.put(schemas.Upsert, fmt.Sprintf("k%d", i), "1"))
		}
		pass(550 * time.Millisecond) // 105 calls of 10ms, two at a time, and some retries
		for i, o := range others[:90] {
			s.want(fmt.Sprintf("k%d", i), o.String(), "applied")
		}
		pass(100 * time.Millisecond)
		s.wantPending(5)
	})
}

func TestGivenUpWriteIsRejectedAfterItsTime(t *testing.T) {
	service := &script{answer: func(now sent) error {
		switch now.Key {
		case "forbidden":
			return fault{status: 403}
		case "no token":
			return fault{noToken: true}
		case "token refused":
			return fault{status: 400, noToken: true}
		}
		return errUnavailable
	}}
	cfg := config()
	cfg.Breaker.Failures = 1000
	cfg.Retry.GiveUpAfter = 5 * time.Second
	run(t, cfg, service, func(t *testing.T, s *stage) {
		o := s.put(schemas.Upsert, "k", "1")
		pass(4 * time.Second)
		s.want("early", o.String(), "")
		pass(time.Minute)
		if got := o.String(); !strings.HasPrefix(got, "rejected: given up after ") || !strings.HasSuffix(got, ": 503") {
			t.Errorf("origin: got %q, want it given up with the last answer", got)
		}
		s.wantPending(0)
	})
	for _, key := range []string{"forbidden", "no token", "token refused"} {
		run(t, cfg, service, func(_ *testing.T, s *stage) {
			o := s.put(schemas.Upsert, key, "1")
			pass(time.Hour)
			s.want("an authentication failure: "+key, o.String(), "")
			s.wantPending(1)
		})
	}
}

// TestOneFailedTokenOpensNoBreaker: all calls that wait for it fail with it, and one of them
// asked for it. Nor is it a time that the service has named. If none can be had, it opens.
func TestOneFailedTokenOpensNoBreaker(t *testing.T) {
	for name, until := range map[string]time.Duration{"once": 50 * time.Millisecond, "for good": time.Hour} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			service := &script{answer: func(now sent) error {
				if now.at >= until {
					return nil
				}
				asked++
				return fault{status: 503, noToken: true, shared: asked%50 != 1, after: 100 * time.Millisecond}
			}}
			cfg := config()
			cfg.Concurrency = Concurrency{Start: 64, Max: 64}
			run(t, cfg, service, func(t *testing.T, s *stage) {
				s.puts(50)
				pass(20 * time.Millisecond)
				table := write(schemas.Upsert, "k", "1").Table
				if w := s.Waits(); len(w) != 0 || s.Breaker(table) != Closed {
					t.Errorf("got waits %+v, breaker %v, want none, closed", w, s.Breaker(table))
				}
				pass(10 * time.Minute)
				if open := s.Breaker(table) != Closed; open != (until == time.Hour) {
					t.Errorf("got breaker %v", s.Breaker(table))
				}
			})
		})
	}
}

func TestWaitingWritesAreMergedAndShareTheirFate(t *testing.T) {
	service := &script{answer: func(now sent) error {
		if now.nth == 2 {
			return errConflict
		}
		return nil
	}}
	run(t, config(), service, func(t *testing.T, s *stage) {
		first := s.put(schemas.Upsert, "k", "1")
		pass(time.Millisecond) // in flight: nothing is merged into it
		second := s.put(schemas.Upsert, "k", "2")
		third := s.put(schemas.Patch, "k", "3")
		pass(time.Second)
		s.want("calls", service.calls("k"), "upsert 1, upsert 3")
		s.want("first", first.String(), "applied")
		s.want("second", second.String(), "rejected: 409")
		s.want("third", third.String(), "rejected: 409")
		if got := s.attempts()[1].Writes; got != 2 {
			t.Errorf("writes of the second call: got %d, want 2", got)
		}
		s.wantPending(0)
	})
}

// TestFailedWriteIsNotMergedInto: it may have been applied, so that what happens
// to the next write must not become its fate.
func TestFailedWriteIsNotMergedInto(t *testing.T) {
	service := &script{answer: func(now sent) error {
		switch now.nth {
		case 1:
			return errUnavailable
		case 3:
			return errConflict
		}
		return nil
	}}
	run(t, config(), service, func(_ *testing.T, s *stage) {
		first := s.put(schemas.Upsert, "k", "1")
		pass(20 * time.Millisecond) // backing off
		second := s.put(schemas.Upsert, "k", "2")
		pass(time.Minute)
		s.want("calls", service.calls("k"), "upsert 1, upsert 1?, upsert 2")
		s.want("first", first.String(), "applied")
		s.want("second", second.String(), "rejected: 409")
	})
}

func TestWritesOfTwoMappingsAreOrderedButNotMerged(t *testing.T) {
	service := &script{}
	run(t, config(), service, func(_ *testing.T, s *stage) {
		s.put(schemas.Upsert, "k", "1")
		pass(time.Millisecond)
		s.put(schemas.Upsert, "k", "2")
		s.Submit(Item{Mapping: "other", Write: write(schemas.Upsert, "k", "3"), Origin: &origin{}})
		pass(time.Second)
		s.want("calls", service.calls("k"), "upsert 1, upsert 2, upsert 3")
	})
}

func TestWritesWithoutAKeyWaitForNobody(t *testing.T) {
	service := &script{}
	run(t, config(), service, func(t *testing.T, s *stage) {
		for range 3 {
			s.put(schemas.Create, "", "1")
		}
		byID := write(schemas.Patch, "", "2")
		byID.ProfileID = "p1"
		s.Submit(Item{Write: byID, Origin: &origin{}})
		s.Submit(Item{Write: byID, Origin: &origin{}})
		pass(5 * time.Millisecond)
		if got := s.InFlight(); got != 4 {
			t.Errorf("in flight: got %d, want the three creates and one patch of the profile", got)
		}
		pass(time.Second)
		s.wantPending(0)
	})
}
