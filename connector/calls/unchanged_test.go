package calls

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// handle is one assignment of a partition.
type handle int

func (handle) Confirm(Outcome) {}
func (handle) Reject(error)    {}

// read is the origin of a record of a partition.
type read struct {
	origin
	of handle
}

func (r *read) Lasting() Origin { return r.of }

func dropped(h handle) func(Origin) bool {
	return func(o Origin) bool {
		if r, ok := o.(*read); ok {
			return r.of == h
		}
		return o == h
	}
}

// remembering is a lane's configuration under which what is applied is remembered.
func remembering() Config {
	cfg := config()
	cfg.RepeatAfter = 90 * time.Second
	cfg.Remember = Remember{Bytes: 1 << 20, Settled: 2 * time.Minute}
	return cfg
}

const unchangedFor = time.Hour

// say submits a write of the mapping customers that need not be sent if it says nothing
// new, and lets its calls end.
func (s *stage) say(h handle, op schemas.Op, values ...string) *read {
	r := s.hurry(h, op, values...)
	pass(time.Second)
	return r
}

func (s *stage) hurry(h handle, op schemas.Op, values ...string) *read {
	r := &read{of: h}
	s.Submit(Item{Mapping: "customers", Write: write(op, "k", values...), Origin: r, Unchanged: unchangedFor})
	return r
}

// settle has the lane know the partition for long enough.
func (s *stage) settle(h handle) {
	s.Submit(Item{Mapping: "customers", Write: write(schemas.Upsert, "other", "1"), Origin: &read{of: h}, Unchanged: unchangedFor})
	pass(3 * time.Minute)
}

func TestWriteThatSaysNothingNewIsConfirmedWithoutACall(t *testing.T) {
	for name, op := range map[string]schemas.Op{"upsert": schemas.Upsert, "patch": schemas.Patch, "merge": schemas.Merge, "delete": schemas.Delete} {
		t.Run(name, func(t *testing.T) {
			service := &script{}
			run(t, remembering(), service, func(_ *testing.T, s *stage) {
				s.settle(1)
				first := s.say(1, op, "a")
				again := s.hurry(1, op, "a") // it does not even wait
				s.want("the first", first.String(), "applied")
				s.want("again", again.String(), "unchanged")
				s.want("calls", service.calls("k"), name+" a")
				s.wantPending(0)
				s.want("another value", s.say(1, op, "b").String(), "applied")
				s.want("the first value", s.say(1, op, "a").String(), "applied")
				s.want("calls in the end", service.calls("k"), fmt.Sprintf("%[1]s a, %[1]s b, %[1]s a", name))
			})
		})
	}
}

// TestWhatMayHaveChangedARowForgetsWhatWasSaid: each act comes between two writes that say the same, the second
// of which has to be sent.
func TestWhatMayHaveChangedARowForgetsWhatWasSaid(t *testing.T) {
	var late atomicOnce
	for name, act := range map[string]func(s *stage){
		"another value":          func(s *stage) { s.say(1, schemas.Upsert, "b") },
		"another op":             func(s *stage) { s.say(1, schemas.Patch, "a") },
		"more values":            func(s *stage) { s.say(1, schemas.Upsert, "a", "b") },
		"a delete":               func(s *stage) { s.say(1, schemas.Delete) },
		"a create":               func(s *stage) { s.say(1, schemas.Create, "a") },
		"a refused write":        func(s *stage) { s.say(1, schemas.Upsert, "refused") },
		"a write of no answer":   func(s *stage) { s.say(1, schemas.Upsert, "unanswered") },
		"a write on its way":     func(s *stage) { s.hurry(1, schemas.Upsert, "b"); pass(time.Millisecond) },
		"its time":               func(*stage) { pass(unchangedFor) },
		"another partition's":    func(s *stage) { s.settle(2); s.say(2, schemas.Upsert, "a") },
		"a halt":                 func(s *stage) { s.Halt("customers"); s.Resume("customers") },
		"a dead letter of its":   func(s *stage) { w := write(schemas.Upsert, "k"); s.Forget(&w, &read{of: 1}) },
		"one that names no key":  func(s *stage) { s.Forget(&schemas.Write{}, &read{of: 1}) },
		"its partition given up": func(s *stage) { _ = s.Drop(s.t.Context(), dropped(1)) },
		"the same, without leave": func(s *stage) {
			s.Submit(Item{Mapping: "customers", Write: write(schemas.Upsert, "k", "c"), Origin: &origin{}, Unchanged: unchangedFor})
			pass(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			late = atomicOnce{}
			service := &script{answer: func(c sent) error {
				switch {
				case len(c.Cells) == 0:
				case c.Cells[0].Value.Text() == "refused":
					return errConflict
				case c.Cells[0].Value.Text() == "unanswered" && late.first():
					return errUnavailable
				}
				return nil
			}}
			run(t, remembering(), service, func(t *testing.T, s *stage) {
				s.settle(1)
				s.say(1, schemas.Upsert, "a")
				s.want("before", s.say(1, schemas.Upsert, "a").String(), "unchanged")
				act(s)
				calls := service.count()
				s.want("after", s.say(1, schemas.Upsert, "a").String(), "applied")
				if service.count() == calls {
					t.Errorf("%s: the write was not sent", name)
				}
			})
		})
	}
}

// atomicOnce tells the first caller from others.
type atomicOnce struct{ asked sync.Mutex }

func (o *atomicOnce) first() bool { return o.asked.TryLock() }

// TestWhatIsNotSureIsNotRemembered: what is said first is not remembered, so that it is
// sent again.
func TestWhatIsNotSureIsNotRemembered(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(nth int) error
		act    func(s *stage)
	}{
		"tried again after no answer": {
			func(nth int) error { return []error{nil, errUnavailable, nil}[min(nth-1, 2)] },
			func(s *stage) { s.say(1, schemas.Upsert, "a") },
		},
		"behind a call that may land": {
			func(nth int) error { return []error{nil, errUnavailable, nil}[min(nth-1, 2)] },
			func(s *stage) { s.say(1, schemas.Upsert, "b"); s.say(1, schemas.Upsert, "a") },
		},
		"a newer write waits": {nil, func(s *stage) { s.hurry(1, schemas.Upsert, "a"); pass(time.Millisecond); s.say(1, schemas.Upsert, "b") }},
		"its partition goes meanwhile": {nil, func(s *stage) {
			s.hurry(1, schemas.Upsert, "a")
			pass(time.Millisecond)
			_ = s.Drop(s.t.Context(), dropped(1))
			s.settle(1)
		}},
		"halted meanwhile": {nil, func(s *stage) {
			s.hurry(1, schemas.Upsert, "a")
			pass(time.Millisecond)
			s.Halt("customers")
			pass(time.Second)
			s.Resume("customers")
			s.settle(1)
		}},
		"a dead letter meanwhile": {nil, func(s *stage) {
			s.hurry(1, schemas.Upsert, "a")
			pass(time.Millisecond)
			w := write(schemas.Upsert, "k")
			s.Forget(&w, &read{of: 1})
			pass(time.Second)
		}},
		"a dead letter of its partition meanwhile": {nil, func(s *stage) {
			s.hurry(1, schemas.Upsert, "a")
			pass(time.Millisecond)
			s.Forget(&schemas.Write{}, &read{of: 1})
			s.settle(1)
		}},
		"its partition is new": {nil, func(s *stage) { s.say(7, schemas.Upsert, "a") }},
	} {
		t.Run(name, func(t *testing.T) {
			service := &script{}
			if c.answer != nil {
				service.answer = func(s sent) error { return c.answer(s.nth) }
			}
			run(t, remembering(), service, func(_ *testing.T, s *stage) {
				s.settle(1)
				c.act(s)
				h := handle(1)
				if name == "its partition is new" {
					h = 7
				}
				s.want("after", s.say(h, schemas.Upsert, "a").String(), "applied")
			})
		})
	}
}

// TestCreateIsAlwaysSent: whether it succeeds depends on what is there.
func TestCreateIsAlwaysSent(t *testing.T) {
	service := &script{}
	run(t, remembering(), service, func(_ *testing.T, s *stage) {
		s.settle(1)
		s.want("first", s.say(1, schemas.Create, "a").String(), "applied")
		s.want("again", s.say(1, schemas.Create, "a").String(), "applied")
	})
}

// TestWhatMayHaveLandedLateIsSent: a call may have landed on top of what was said last, and nothing was
// sent since.
func TestWhatMayHaveLandedLateIsSent(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		act    func(s *stage)
	}{
		"a newer write was given up": {
			func(cfg *Config) { cfg.Retry.GiveUpAfter = time.Nanosecond },
			func(s *stage) {
				s.hurry(1, schemas.Upsert, "a")
				pass(time.Millisecond)
				s.say(1, schemas.Upsert, "unanswered")
			},
		},
		"an older write, and its key is not repeated": {
			func(cfg *Config) { cfg.Repeats = func(schemas.Table) bool { return false } },
			func(s *stage) { s.say(1, schemas.Upsert, "unanswered"); s.say(1, schemas.Upsert, "a") },
		},
		"its own first try, and no key is": {
			func(cfg *Config) { cfg.RepeatAfter = 0 },
			func(s *stage) { s.say(1, schemas.Upsert, "unanswered"); s.hurry(1, schemas.Upsert, "unanswered") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			unanswered := 0
			service := &script{answer: func(c sent) error {
				if c.Cells[0].Value.Text() == "unanswered" && unanswered == 0 {
					unanswered++
					return errUnavailable
				}
				return nil
			}}
			cfg := remembering()
			c.change(&cfg)
			run(t, cfg, service, func(_ *testing.T, s *stage) {
				s.settle(1)
				c.act(s)
				if cfg.RepeatAfter == 0 {
					pass(time.Second)
					s.want("calls", service.calls("k"), "upsert unanswered, upsert unanswered?, upsert unanswered")
					return
				}
				pass(2 * cfg.RepeatAfter)
				s.want("after", s.say(1, schemas.Upsert, "a").String(), "applied")
			})
		})
	}
}

// TestDeleteOfNothingIsNotRemembered: a 404 is trusted to confirm, and not to skip.
func TestDeleteOfNothingIsNotRemembered(t *testing.T) {
	service := &script{answer: func(c sent) error {
		if c.Op == schemas.Delete {
			return errNotFound
		}
		return nil
	}}
	run(t, remembering(), service, func(_ *testing.T, s *stage) {
		s.settle(1)
		s.want("first", s.say(1, schemas.Delete).String(), "absent")
		s.want("again", s.say(1, schemas.Delete).String(), "absent")
	})
}

func TestHaltedMappingSkipsNothing(t *testing.T) {
	service := &script{}
	run(t, remembering(), service, func(_ *testing.T, s *stage) {
		s.settle(1)
		s.say(1, schemas.Upsert, "a")
		s.Halt("customers")
		halted := s.say(1, schemas.Upsert, "a")
		s.want("while halted", halted.String(), "")
		s.Resume("customers")
		pass(time.Second)
		s.want("resumed", halted.String(), "applied")
	})
}

// TestNothingIsRememberedWhileTooManyCallsMayLand: a key whose late call is not on record is
// like all others.
func TestNothingIsRememberedWhileTooManyCallsMayLand(t *testing.T) {
	service := &script{answer: func(c sent) error {
		if !c.retried && c.Key[0] == 'x' {
			return errUnavailable
		}
		return nil
	}}
	cfg := remembering()
	cfg.Breaker.Failures = 1 << 20
	run(t, cfg, service, func(t *testing.T, s *stage) {
		s.settle(1)
		for i := range maxRepeats + 1 {
			s.Submit(Item{Mapping: "customers", Write: write(schemas.Upsert, fmt.Sprint("x", i), "1"), Origin: &read{of: 1}, Unchanged: unchangedFor})
		}
		pass(30 * time.Second)
		if s.heard.notRepeated == 0 {
			t.Fatal("all keys are on record: the test shows nothing")
		}
		s.say(1, schemas.Upsert, "a")
		s.want("soon", s.say(1, schemas.Upsert, "a").String(), "applied")
		pass(cfg.RepeatAfter)
		s.say(1, schemas.Upsert, "a")
		s.want("later", s.say(1, schemas.Upsert, "a").String(), "unchanged")
	})
}

func TestNothingIsSkippedUnlessItemsSaySo(t *testing.T) {
	service := &script{}
	run(t, config(), service, func(_ *testing.T, s *stage) {
		s.settle(1)
		s.say(1, schemas.Upsert, "a")
		s.want("no memory for it", s.say(1, schemas.Upsert, "a").String(), "applied")
	})
	run(t, remembering(), &script{}, func(_ *testing.T, s *stage) {
		for range 2 {
			r := &read{of: 1}
			s.Submit(Item{Mapping: "customers", Write: write(schemas.Upsert, "k", "a"), Origin: r})
			pass(3 * time.Minute)
			s.want("not asked for", r.String(), "applied")
		}
	})
}

// repetitive is a service that fails at random, and a random source of events that repeat
// themselves.
type repetitive struct {
	erratic
	// whole: events say all of a row, and some calls land late. What a part of a row that was sent
	// meanwhile finds, nobody can say.
	whole bool
	late  sync.WaitGroup
}

func (e *repetitive) Call(ctx context.Context, w *schemas.Write, try Try) error {
	e.mu.Lock()
	vanishes, after := e.whole && e.rnd.IntN(20) == 0, time.Duration(e.rnd.IntN(60))*time.Second
	e.mu.Unlock()
	if !vanishes {
		return e.erratic.Call(ctx, w, try)
	}
	own := copied(*w)
	e.late.Go(func() {
		time.Sleep(after) // virtual
		e.mu.Lock()
		defer e.mu.Unlock()
		_ = e.write(&own, true)
	})
	time.Sleep(time.Second) // virtual
	return errors.New("no answer in time")
}

// next is an event of a key: often the one before it once more.
func (e *repetitive) next(before map[string]schemas.Write) schemas.Write {
	n := e.rnd.IntN(3)
	w := e.random(n)
	if e.whole && w.Op != schemas.Delete {
		w.Op, w.Cells = schemas.Upsert, nil
		for _, name := range []string{"a", "b", "c"} {
			w.Cells = append(w.Cells, schemas.Cell{Place: &schemas.Place{Section: schemas.Properties, Name: name}, Value: schemas.StringValue(fmt.Sprint(n))})
		}
	}
	if old, ok := before[w.Key]; ok && e.rnd.IntN(10) < 6 {
		return old
	}
	return w
}

// TestRowsEndAlikeWithAndWithoutWhatSaysNothingNew is the promise of Item.Unchanged against
// the naive model, in which each event is applied: whatever fails, lands late, is refused, deleted
// or read by another member meanwhile, the rows are the same.
func TestRowsEndAlikeWithAndWithoutWhatSaysNothingNew(t *testing.T) {
	skipped := 0
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			service := &repetitive{whole: seed%4 < 2, erratic: erratic{keeps: seed%2 == 0, rnd: rnd, rows: map[string]row{}, busy: map[string]bool{}}}
			stage := &stage{t: t, heard: &audience{}}
			cfg := remembering()
			if !service.whole {
				cfg.RepeatAfter = 0 // no call lands late
			}
			end := stage.beginWith(cfg, service)
			defer end()
			model, before := map[string]row{}, map[string]schemas.Write{}
			h := handle(1)
			for range 12 {
				var made []schemas.Write
				var ends []*read
				for range 60 {
					service.mu.Lock()
					w, wait := service.next(before), time.Duration(rnd.IntN(8))*time.Second
					service.mu.Unlock()
					before[w.Key] = copied(w)
					made, ends = append(made, copied(w)), append(ends, &read{of: h})
					stage.Submit(Item{Mapping: "m", Write: copied(w), Origin: ends[len(ends)-1], Unchanged: unchangedFor})
					pass(wait)
				}
				pass(30 * time.Minute) // whatever lands late has landed, and was repaired
				for n, r := range ends {
					switch r.String() {
					case "unchanged":
						skipped++
						fallthrough
					case "applied", "absent":
						model[made[n].Key] = apply(model[made[n].Key], &made[n], service.keeps && made[n].Op == schemas.Upsert)
					case "rejected: 409", "rejected: 404":
					default:
						t.Fatalf("seed %d: an event ended %q", seed, r)
					}
				}
				service.mu.Lock()
				for key, want := range model {
					if got := service.rows[key]; !maps.Equal(got, want) || (got == nil) != (want == nil) {
						t.Errorf("seed %d, key %s: got %v, want %v", seed, key, got, want)
					}
				}
				if rnd.IntN(3) == 0 { // another member has the partition for a while
					_ = stage.Drop(t.Context(), dropped(h))
					for range 10 {
						w := service.next(before)
						if service.write(&w, false) == nil {
							model[w.Key] = apply(model[w.Key], &w, service.keeps && w.Op == schemas.Upsert)
						}
					}
					h++
				}
				service.mu.Unlock()
			}
			service.late.Wait()
		})
	}
	if skipped < 1000 {
		t.Errorf("%d events were skipped: the test shows little", skipped)
	}
	t.Logf("%d events skipped", skipped)
}
