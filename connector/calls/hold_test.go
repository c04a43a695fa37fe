package calls

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// into submits an upsert of a table's key.
func (s *stage) into(table, key, value string) *origin {
	o, w := &origin{}, write(schemas.Upsert, key, value)
	w.Table.Name = table
	s.Submit(Item{Mapping: table, Write: w, Origin: o})
	return o
}

// ended is how long it took until the write was applied, in seconds at most.
func (o *origin) ended(within time.Duration) time.Duration {
	begun := time.Now()
	for o.String() == "" && time.Since(begun) < within {
		pass(100 * time.Millisecond)
	}
	return time.Since(begun)
}

// TestFailingTableHoldsUpOnlyItself: whatever 400 keys of one table are answered,
// another table's key waits no more than two seconds longer than alone.
func TestFailingTableHoldsUpOnlyItself(t *testing.T) {
	for _, status := range []int{401, 403, 500} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			service := &script{answer: func(now sent) error {
				if now.Table.Name == "failing" {
					return fault{status: status, unknown: status == 500}
				}
				return nil
			}}
			run(t, config(), service, func(t *testing.T, s *stage) {
				for i := range 400 {
					s.into("failing", fmt.Sprint("p", i), "1")
				}
				for _, after := range []time.Duration{0, 5 * time.Second, time.Hour} {
					pass(after)
					if s.Paused(schemas.Table{Name: "sound"}) {
						t.Errorf("after %v: the sound table takes no more writes", after)
					}
					o := s.into("sound", fmt.Sprint("g", after), "1")
					if waited := o.ended(time.Hour); waited > 2*time.Second || o.String() != "applied" {
						t.Errorf("after %v: another table's key waited %v and ended %q, want it applied within 2s", after, waited, o)
					}
				}
				if !s.Paused(schemas.Table{Name: "failing"}) {
					t.Error("the failing table: got not paused, want paused")
				}
				if got := service.count(); got > 1000 {
					t.Errorf("calls in an hour: got %d, want the failing table to be left alone most of the time", got)
				}
			})
		})
	}
}

// TestRefusedTableIsTriedAgainByOneCallAtATime: an access right that is missing is
// no reason to try every key, and none to open the breaker.
func TestRefusedTableIsTriedAgainByOneCallAtATime(t *testing.T) {
	service := outage(fault{status: 403}, time.Minute)
	run(t, config(), service, func(t *testing.T, s *stage) {
		s.puts(400)
		pass(59 * time.Second)
		if got := service.count(); got > 16+10 {
			t.Errorf("calls in a minute of 403: got %d, want the first 16 and some tries of one", got)
		}
		s.want("breaker", s.turns(), "")
		if got := s.Waits(); len(got) != 1 || got[0].Status != 403 || got[0].Table.Name != "customers" || !got[0].Until.After(time.Now()) {
			t.Errorf("waits: got %+v, want the table's until its next try", got)
		}
		pass(31 * time.Second)
		s.wantPending(0)
		if got := s.Waits(); len(got) != 0 {
			t.Errorf("waits in the end: got %+v, want none", got)
		}
	})
}

// TestFailingKeyDoesNotStopItsTable: keys that go on failing while others of their
// table are answered fail by themselves.
func TestFailingKeyDoesNotStopItsTable(t *testing.T) {
	for _, failing := range []int{5, 40, 400} {
		t.Run(fmt.Sprint(failing), func(t *testing.T) {
			service := &script{answer: func(now sent) error {
				if now.Key[0] == 'p' {
					return errUnavailable
				}
				return nil
			}}
			run(t, config(), service, func(t *testing.T, s *stage) {
				s.put(schemas.Upsert, "first", "1")
				pass(time.Second)
				for i := range failing {
					s.put(schemas.Upsert, fmt.Sprint("p", i), "1")
				}
				pass(3 * time.Hour) // each of them has been tried by now
				for n := range 100 {
					if s.Paused(customers) {
						pass(15 * time.Second)
					}
					if s.Paused(customers) {
						t.Fatalf("good key %d: its table takes no more writes", n)
					}
					o := s.put(schemas.Upsert, fmt.Sprint("g", n), "1")
					if waited := o.ended(time.Hour); n > 0 && waited > 2*time.Second || waited > 16*time.Second {
						t.Errorf("good key %d waited %v, want at most 2s", n, waited)
					}
					pass(30 * time.Second)
				}
			})
		})
	}
}

// TestRetryAfterHoldsEveryCall: the service names a time, and means no single key.
func TestRetryAfterHoldsEveryCall(t *testing.T) {
	for _, status := range []int{429, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			answer := func(now sent) error {
				if now.at < 30*time.Second {
					return fault{status: status, overload: true, after: 30*time.Second - now.at}
				}
				if now.at < 40*time.Second {
					return fault{status: status, overload: true, after: 5 * time.Second}
				}
				return nil
			}
			service := &script{answer: answer}
			cfg := config()
			cfg.Service = &Service{}
			run(t, cfg, service, func(t *testing.T, s *stage) {
				second := &stage{t: t, service: &script{answer: answer}, heard: &audience{}}
				defer second.begin(cfg)()
				for i := range 700 {
					s.into("one", fmt.Sprint(i), "1")
					s.into("two", fmt.Sprint(i), "1")
				}
				pass(time.Second)
				for i := range 100 {
					second.into("one", fmt.Sprint(i), "1")
				}
				pass(28 * time.Second)
				if got := service.count(); got > 16 {
					t.Errorf("calls before the service's time: got %d, want those in flight at its first answer", got)
				}
				if got := second.service.count(); got != 0 {
					t.Errorf("calls of the other lane: got %d, want none", got)
				}
				waits := second.Waits()
				if len(waits) != 1 || waits[0].Status != status || waits[0].Table.Name != "" || waits[0].Until.Before(start().Add(30*time.Second)) {
					t.Errorf("waits: got %+v, want until 30s because of %d", waits, status)
				}
				before := service.count() + second.service.count()
				pass(11 * time.Second) // 40s
				if got := service.count() + second.service.count() - before; got < 1 || got > 3 {
					t.Errorf("calls after the service's time, while it goes on saying no: got %d, want one each 5s", got)
				}
				pass(time.Minute)
				s.wantPending(0)
				second.wantPending(0)
				if got := s.Waits(); len(got) != 0 {
					t.Errorf("waits in the end: got %+v, want none", got)
				}
				s.want("breaker", s.turns(), "")
			})
		})
	}
}

// TestProbeDoesNotEndATimeNamedMeanwhile: two calls are in flight when the service
// names a time. It ends, a probe starts, and then the second call's answer names
// another time.
func TestProbeDoesNotEndATimeNamedMeanwhile(t *testing.T) {
	for name, probed := range map[string]error{"applied": nil, "429 without a time": fault{status: 429, overload: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, lane := &Service{}, New(config(), nil, nil, rand.New(rand.NewPCG(1, 1)))
				lane.service = s
				throttled := verdict{status: 429, retryAfter: 20 * time.Second}
				lane.hear(&throttled, false, time.Now())
				time.Sleep(20 * time.Second)
				if probe, _ := s.admit(time.Now()); !probe {
					t.Fatal("got no probe once the time has passed, want one")
				}
				lane.hear(&throttled, false, time.Now()) // of a call that began before all of this
				v := verdict{outcome: Applied, answered: true}
				if probed != nil {
					v = verdict{outcome: Retried, status: 429, err: probed}
				}
				time.Sleep(time.Second)
				lane.hear(&v, true, time.Now())
				if _, wait := s.admit(time.Now()); wait != 19*time.Second {
					t.Errorf("wait after the probe: got %v, want the 19s that are left", wait)
				}
			})
		})
	}
}
