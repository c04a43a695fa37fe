package calls

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// told is what the lane waits for, in words.
func (s *stage) told() (out string) {
	for _, w := range s.Waits() {
		out += fmt.Sprintf("%s %d", w.Table.Name, w.Status)
		if w.Again != nil {
			out += fmt.Sprintf(" %d of %s at try %d: %v", w.Again.Keys, w.Again.Mapping, w.Again.Tries, w.Again.Err)
		}
		if !w.Until.IsZero() {
			out += " in " + time.Until(w.Until).Round(time.Second).String()
		}
		out += "; "
	}
	return out
}

// TestKeysThatFailOverAndOverAreTold: while others of the table are answered, no breaker
// opens, and nothing else tells of them.
func TestKeysThatFailOverAndOverAreTold(t *testing.T) {
	for _, status := range []int{403, 405, 429, 500} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			service := &script{answer: func(now sent) error {
				if now.Key[0] == 'x' && now.at < time.Minute {
					return fault{status: status}
				}
				return nil
			}}
			run(t, config(), service, func(_ *testing.T, s *stage) {
				others := func(seconds int) {
					for range seconds {
						s.put(schemas.Upsert, "other", "1")
						pass(time.Second)
					}
				}
				s.put(schemas.Upsert, "x1", "1")
				others(9)
				s.want("after 9s", s.told(), "")
				s.put(schemas.Upsert, "x2", "1")
				others(4)
				s.want("after 13s", s.told(), fmt.Sprintf("customers 0 1 of customers at try 7: %d; ", status))
				others(20)
				s.want("after 33s", s.told(), fmt.Sprintf("customers 0 2 of customers at try 8: %d; ", status))
				others(60)
				s.want("once they are answered", s.told(), "")
				s.wantPending(0)
			})
		})
	}
}

// hasty is an origin whose write comes before what it is for.
type hasty struct{ *origin }

func (hasty) Premature() bool { return true }
func (hasty) Arrived() bool   { return true }

// TestPrematureAnswersAreNoFailures: what such a key waits for is on its way.
func TestPrematureAnswersAreNoFailures(t *testing.T) {
	run(t, config(), &script{answer: func(sent) error { return errNotFound }}, func(_ *testing.T, s *stage) {
		s.Submit(Item{Mapping: "customers", Write: write(schemas.Patch, "k", "1"), Origin: hasty{&origin{}}})
		pass(time.Minute)
		s.wantPending(1)
		s.want("while it waits", s.told(), "")
	})
}

// awaiting is hasty, and knows whether what its write is for has arrived.
type awaiting struct {
	hasty
	arrived *atomic.Bool
}

func (a awaiting) Arrived() bool { return a.arrived.Load() }

// TestPrematureWritesTakeNoCallsFromWhatTheyWaitFor, be it of a route of less weight: its calls come
// first, and theirs soon once it has arrived.
func TestPrematureWritesTakeNoCallsFromWhatTheyWaitFor(t *testing.T) {
	var arrived atomic.Bool
	service := &script{answer: func(now sent) error {
		if arrived.Load() || now.Op != schemas.Patch {
			return nil
		}
		return errNotFound
	}}
	cfg := config()
	cfg.Rate = Rate{Calls: 10, Per: time.Minute}
	run(t, cfg, service, func(t *testing.T, s *stage) {
		const patches, upserts = 30, 100
		for i := range patches {
			s.Submit(Item{Mapping: "customers", Write: write(schemas.Patch, fmt.Sprint("p", i), "1"), Weight: 10, Origin: awaiting{hasty{&origin{}}, &arrived}})
		}
		pass(10 * time.Minute) // while nothing else waits, all the calls are theirs
		if n := service.count(); n < 90 {
			t.Errorf("alone: got %d calls, want about 100", n)
		}
		for i := range upserts {
			s.Submit(Item{Mapping: "customers", Route: 1, Write: write(schemas.Upsert, fmt.Sprint("u", i), "1"), Weight: 0.1, Origin: &origin{}})
		}
		pass(12 * time.Minute)
		s.wantPending(patches)
		arrived.Store(true)
		pass(config().Retry.Max + (patches+1)*time.Minute/10)
		s.wantPending(0)
	})
}

// TestPatchOfNothingEndsWithTheNewerWriteThatLeavesNothingOfIt: the row that it is for may wait no
// more, in whose place the newer write has come.
func TestPatchOfNothingEndsWithTheNewerWriteThatLeavesNothingOfIt(t *testing.T) {
	for _, c := range []struct {
		newer    schemas.Op
		answer   error
		calls    string // the last one
		patchEnd string
	}{
		{schemas.Upsert, nil, "upsert 2", "applied"},
		{schemas.Delete, nil, "delete 2", "applied"},
		{schemas.Upsert, errConflict, "upsert 2", "rejected: 409"},
		{schemas.Patch, nil, "patch 1", ""},
	} {
		service := &script{answer: func(now sent) error {
			if now.Op == schemas.Patch {
				return errNotFound
			}
			return c.answer
		}}
		run(t, config(), service, func(t *testing.T, s *stage) {
			patch := hasty{&origin{}}
			s.Submit(Item{Mapping: "customers", Write: write(schemas.Patch, "k", "1"), Origin: patch})
			pass(time.Millisecond)
			s.put(c.newer, "k", "2")
			pass(time.Minute)
			if got := service.calls("k"); !strings.HasSuffix(got, c.calls) || patch.String() != c.patchEnd {
				t.Errorf("a newer %s that ends with %v: got calls %q, patch %q, want %q, %q", c.newer, c.answer, got, patch, c.calls, c.patchEnd)
			}
		})
	}
}

func TestKeysThatWereDroppedAreToldOfNoMore(t *testing.T) {
	cfg := config()
	cfg.Breaker.Failures = 1000
	run(t, cfg, outage(errUnavailable, time.Hour), func(_ *testing.T, s *stage) {
		s.put(schemas.Upsert, "k", "1")
		s.put(schemas.Upsert, "l", "1")
		pass(20 * time.Second)
		s.want("while they fail", s.told(), "customers 0 2 of customers at try 8: 503; ")
		s.drop(func(Origin) bool { return true })
		pass(time.Minute)
		s.want("dropped", s.told(), "")
	})
}

// TestSmallPartOfARateIsTold while calls wait for it: nothing else says why none is made.
func TestSmallPartOfARateIsTold(t *testing.T) {
	service := &script{}
	cfg := config()
	cfg.Rate = Rate{Calls: 10, Per: time.Minute}
	cfg.Share = func() float64 { return 0.01 }
	run(t, cfg, service, func(t *testing.T, s *stage) {
		s.puts(3)
		pass(time.Minute)
		if waits := s.Waits(); len(waits) != 1 || waits[0].Every.Round(time.Second) != 10*time.Minute {
			t.Errorf("while calls wait: got %+v, want that there is one every 10m", waits)
		}
		pass(20 * time.Minute)
		s.wantPending(0)
		if waits := s.Waits(); len(waits) != 0 {
			t.Errorf("once they are made: got %+v, want nothing", waits)
		}
	})
}

// TestNoWaitUntilATimeThatHasPassed: then calls are tried one by one, or none is left.
func TestNoWaitUntilATimeThatHasPassed(t *testing.T) {
	for name, c := range map[string]struct {
		err           error
		during, after string
	}{
		"Retry-After":     {fault{status: 429, after: 5 * time.Second}, " 429 in 4s; ", ""},
		"breaker":         {errUnavailable, "customers 0 in 4s; ", "customers 0; "},
		"a refused login": {fault{status: 401}, "customers 401 in 3s; ", "customers 401; "},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config()
			cfg.Breaker = Breaker{Failures: 1, OpenFor: 5 * time.Second}
			cfg.Retry.Initial = 5 * time.Second
			run(t, cfg, outage(c.err, time.Hour), func(t *testing.T, s *stage) {
				s.put(schemas.Upsert, "k", "1")
				pass(time.Second)
				s.want("during it", s.told(), c.during)
				for range 100 {
					for _, w := range s.Waits() {
						if !w.Until.IsZero() && !w.Until.After(time.Now()) {
							t.Fatalf("got %+v, want a time to come or none", w)
						}
					}
					time.Sleep(101 * time.Millisecond) // virtual; amid calls too
				}
				s.drop(func(Origin) bool { return true })
				pass(time.Minute)
				s.want("after it", s.told(), c.after)
			})
		})
	}
}
