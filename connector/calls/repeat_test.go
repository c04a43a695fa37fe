package calls

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// tardy is a service with rows that lets some calls go without an answer after a
// second, and applies these some time later.
type tardy struct {
	keeps bool
	late  func(c sent) (after time.Duration, ok bool) // called by one goroutine at a time

	mu     sync.Mutex
	rows   map[string]row
	sent   []sent
	landed sync.WaitGroup
}

func (s *tardy) Call(_ context.Context, w *schemas.Write, try Try) error {
	s.mu.Lock()
	c := sent{Write: copied(*w), retried: try.Retried, at: time.Since(start()), nth: len(s.sent) + 1}
	s.sent = append(s.sent, c)
	after, late := s.late(c)
	s.mu.Unlock()
	if late {
		s.landed.Go(func() {
			time.Sleep(after) // virtual
			_ = s.apply(&c.Write)
		})
		time.Sleep(time.Second) // virtual
		return errors.New("no answer in time")
	}
	time.Sleep(10 * time.Millisecond) // virtual
	return s.apply(w)
}

func (s *tardy) apply(w *schemas.Write) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows == nil {
		s.rows = map[string]row{}
	}
	there := s.rows[w.Key] != nil
	switch {
	case !there && (w.Op == schemas.Patch || w.Op == schemas.Delete):
		return errNotFound
	case there && w.Op == schemas.Create:
		return errConflict
	}
	s.rows[w.Key] = apply(s.rows[w.Key], w, s.keeps && w.Op == schemas.Upsert)
	return nil
}

func (s *tardy) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sent)
}

func (s *tardy) row(key string) row {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.rows[key])
}

// kept is how many keys the lane knows.
func (s *stage) kept() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys)
}

// lateness is longer than a call can still be under way.
const lateness = 90 * time.Second

// TestLateCallIsWrittenOver: whatever a call says that lands late, the row ends as
// the later calls of its key left it.
func TestLateCallIsWrittenOver(t *testing.T) {
	type step struct {
		op     schemas.Op
		values []string
	}
	up := func(values ...string) step { return step{schemas.Upsert, values} }
	patch := func(values ...string) step { return step{schemas.Patch, values} }
	del, create := step{op: schemas.Delete}, step{schemas.Create, []string{"c"}}
	for name, c := range map[string]struct {
		steps []step
		late  int // of the calls
		want  row
		again int // calls after the late one has landed
	}{
		"upsert, upsert":                {[]step{up("1"), up("2")}, 1, row{"a0": "2"}, 1},
		"upsert, patch":                 {[]step{up("1", "1"), patch("2")}, 1, row{"a0": "2", "a1": "1"}, 1},
		"upsert, patch, patch":          {[]step{up("1"), patch("2"), patch("3", "3")}, 1, row{"a0": "3", "a1": "3"}, 1},
		"upsert, delete":                {[]step{up("1"), del}, 1, nil, 1},
		"upsert, delete, upsert":        {[]step{up("1", "1"), del, up("2", "2")}, 1, row{"a0": "2", "a1": "2"}, 1},
		"upsert, narrower upsert":       {[]step{up("1", "1"), up("2", "2"), up("3")}, 1, row{"a0": "3"}, 2},
		"delete, create, patch":         {[]step{up("0"), del, create, patch("2")}, 2, row{"a0": "2"}, 1},
		"patch, patch":                  {[]step{up("0"), patch("1"), patch("2")}, 2, row{"a0": "2"}, 1},
		"nothing later":                 {[]step{up("0"), up("1")}, 2, row{"a0": "1"}, 0},
		"the newest is the late one":    {[]step{up("1"), up("2"), up("3")}, 3, row{"a0": "3"}, 0},
		"refused later, applied before": {[]step{up("1"), create}, 1, row{"a0": "1"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, custom := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					service := &tardy{late: func(now sent) (time.Duration, bool) { return 80 * time.Second, now.nth == c.late }}
					s := &stage{t: t, heard: &audience{}}
					cfg := config()
					cfg.RepeatAfter = lateness
					defer s.beginWith(cfg, service)()
					for _, st := range c.steps {
						w := write(st.op, "k", st.values...)
						w.Table.Custom = custom
						s.Submit(Item{Mapping: "customers", Write: w, Origin: &origin{}})
						pass(5 * time.Second)
					}
					service.landed.Wait()
					before := service.count()
					pass(5 * time.Minute)
					if got := service.row("k"); !maps.Equal(got, c.want) || (got == nil) != (c.want == nil) {
						t.Errorf("custom table %v: row in the end: got %v, want %v", custom, got, c.want)
					}
					again := c.again
					if !custom {
						again = min(again, 1)
					}
					if got := service.count() - before; got != again {
						t.Errorf("custom table %v: calls after the late one landed: got %d, want %d", custom, got, again)
					}
					if got := s.kept(); got != 0 {
						t.Errorf("keys kept in the end: got %d, want 0", got)
					}
				})
			}
		})
	}
}

// TestRowsEndInOrderThoughCallsLandLate is the promise against the naive model.
func TestRowsEndInOrderThoughCallsLandLate(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			rnd, luck := rand.New(rand.NewPCG(seed, 3)), rand.New(rand.NewPCG(seed, 4))
			service := &tardy{keeps: seed%2 == 0, late: func(sent) (time.Duration, bool) {
				return time.Second + time.Duration(luck.Int64N(int64(lateness))), luck.IntN(20) == 0
			}}
			s := &stage{t: t, heard: &audience{}}
			cfg := config()
			cfg.RepeatAfter = lateness
			defer s.beginWith(cfg, service)()
			var made []schemas.Write
			var origins []*origin
			for n := range 300 {
				w := write([]schemas.Op{schemas.Upsert, schemas.Upsert, schemas.Patch, schemas.Patch, schemas.Merge, schemas.Delete}[rnd.IntN(6)], fmt.Sprint("k", rnd.IntN(6)))
				w.Table.Custom = true
				if w.Op != schemas.Delete {
					w.Cells = write(w.Op, "", fmt.Sprint(n), fmt.Sprint(n)).Cells
					if w.Op.Partial() {
						w.Cells = w.Cells[rnd.IntN(2):]
					}
				}
				made, origins = append(made, copied(w)), append(origins, &origin{})
				s.Submit(Item{Mapping: "customers", Write: w, Origin: origins[n]})
				pass(time.Duration(rnd.Int64N(int64(4 * time.Second))))
			}
			service.mu.Lock()
			service.late = func(sent) (time.Duration, bool) { return 0, false }
			service.mu.Unlock()
			pass(time.Hour)
			want, open := map[string]row{}, map[string]bool{}
			for n, o := range origins {
				switch o.String() {
				case "applied", "absent":
					// A patch or merge may find a row that a late call had brought back: what that is
					// to hold, the order of the writes does not say until the next upsert.
					if !made[n].Op.Partial() {
						delete(open, made[n].Key)
					} else if want[made[n].Key] == nil {
						open[made[n].Key] = true
					}
					want[made[n].Key] = apply(want[made[n].Key], &made[n], service.keeps && made[n].Op == schemas.Upsert)
				case "rejected: 404":
				default:
					t.Errorf("seed %d: write %d ended %q", seed, n, o)
				}
			}
			for key := range want {
				if got := service.row(key); !open[key] && (!maps.Equal(got, want[key]) || (got == nil) != (want[key] == nil)) {
					t.Errorf("seed %d, key %s: got %v, want %v", seed, key, got, want[key])
				}
			}
		})
	}
}

// TestRepetitionIsSentAfterTheCallUnderWay, from the newest state.
func TestRepetitionIsSentAfterTheCallUnderWay(t *testing.T) {
	service := &script{answer: func(now sent) error {
		switch {
		case now.nth == 1:
			return errUnavailable
		case now.at > lateness-time.Second && now.at < lateness+10*time.Second:
			return fault{status: 500}
		}
		return nil
	}}
	cfg := config()
	cfg.RepeatAfter = lateness
	run(t, cfg, service, func(t *testing.T, s *stage) {
		s.put(schemas.Upsert, "k", "1")
		pass(time.Second)
		s.put(schemas.Upsert, "k", "2")
		pass(lateness - time.Second - time.Millisecond)
		third := s.put(schemas.Upsert, "k", "3") // fails while the repetition becomes due
		pass(time.Minute)
		s.want("newest write", third.String(), "applied")
		calls := service.calls("k")
		if !strings.HasPrefix(calls, "upsert 1, upsert 1?, upsert 2, upsert 3") || strings.Contains(calls[len("upsert 1, upsert 1?, upsert 2, upsert 3"):], "upsert 1") || !strings.HasSuffix(calls, "upsert 3") {
			t.Errorf("calls: got %q, want the newest state at the end", calls)
		}
	})
}

func TestDropForgetsWhatWouldBeRepeated(t *testing.T) {
	for name, at := range map[string]time.Duration{"waiting": 10 * time.Second, "in flight": lateness + 15*time.Millisecond, "backing off": lateness + 25*time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			service := &script{answer: func(now sent) error {
				if now.nth == 1 || now.at > lateness {
					return errUnavailable
				}
				return nil
			}}
			cfg := config()
			cfg.RepeatAfter = lateness
			run(t, cfg, service, func(t *testing.T, s *stage) {
				s.from(1, "k", "1")
				pass(time.Second)
				s.from(1, "k", "2")
				pass(at - time.Second)
				before := service.calls("k")
				s.drop(of(1))
				if got := s.InFlight(); got != 0 {
					t.Errorf("in flight when Drop returns: got %d, want 0", got)
				}
				pass(time.Hour)
				s.want("calls", service.calls("k"), before)
				if got := s.kept(); got != 0 {
					t.Errorf("keys kept in the end: got %d, want 0", got)
				}
			})
		})
	}
}

// TestRefusedRepetitionEndsNoWrite: nothing waits for it.
func TestRefusedRepetitionEndsNoWrite(t *testing.T) {
	service := &script{answer: func(now sent) error {
		switch {
		case now.nth == 1:
			return errUnavailable
		case now.at > lateness:
			return errConflict
		}
		return nil
	}}
	cfg := config()
	cfg.RepeatAfter = lateness
	run(t, cfg, service, func(t *testing.T, s *stage) {
		s.put(schemas.Upsert, "k", "1")
		pass(time.Second)
		o := s.put(schemas.Upsert, "k", "2")
		pass(2 * lateness)
		s.want("write", o.String(), "applied")
		s.want("calls", service.calls("k"), "upsert 1, upsert 1?, upsert 2, upsert 2")
		got := s.attempts()[3]
		if !got.Repeat || got.Outcome != Rejected || got.Err == nil || got.Writes != 0 {
			t.Errorf("reported: got %+v, want a refused repetition", got)
		}
		s.wantPending(0)
	})
}

func TestKeysRememberedAreBounded(t *testing.T) {
	service := &script{answer: func(now sent) error {
		if !now.retried && now.at < time.Hour {
			return errUnavailable
		}
		return nil
	}}
	cfg := config()
	cfg.RepeatAfter = lateness
	cfg.Breaker.Failures = 1 << 20
	cfg.Concurrency.Start = cfg.Concurrency.Max
	run(t, cfg, service, func(t *testing.T, s *stage) {
		for i := range maxRepeats + 100 {
			s.put(schemas.Upsert, fmt.Sprint(i), "1")
		}
		pass(20 * time.Second)
		if got := int(s.remembered.Load()); got != maxRepeats {
			t.Errorf("keys remembered: got %d, want %d", got, maxRepeats)
		}
		s.heard.mu.Lock()
		got := s.heard.notRepeated
		s.heard.mu.Unlock()
		if got != 100 {
			t.Errorf("reported as not remembered: got %d, want 100", got)
		}
		pass(10 * time.Minute)
		s.wantPending(0)
		if got := s.kept(); got != 0 {
			t.Errorf("keys kept in the end: got %d, want 0", got)
		}
	})
}
