package calls

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// of matches the origins of a partition.
func of(partition int) func(Origin) bool {
	return func(o Origin) bool { return o.(*origin).partition == partition }
}

// from submits an upsert read from a partition.
func (s *stage) from(partition int, key, value string) *origin {
	o := &origin{partition: partition}
	s.Submit(Item{Mapping: "customers", Write: write(schemas.Upsert, key, value), Origin: o})
	return o
}

func TestDropForgetsWhatWaitsAndHearsOutWhatIsInFlight(t *testing.T) {
	service := &script{}
	cfg := config()
	cfg.Concurrency = Concurrency{Start: 1, Max: 1}
	run(t, cfg, service, func(_ *testing.T, s *stage) {
		flying := s.from(1, "a", "1")
		pass(time.Millisecond)
		waiting := s.from(1, "b", "1")
		behind := s.from(1, "a", "2")
		kept := s.from(2, "c", "1")

		s.drop(of(1))
		s.want("in flight, when Drop returns", flying.String(), "applied")
		pass(time.Second)
		s.want("waiting", waiting.String(), "")
		s.want("behind the one in flight", behind.String(), "")
		s.want("of another partition", kept.String(), "applied")
		s.want("calls", service.calls(""), "upsert 1, upsert 1")
		s.wantPending(0)
	})
}

// TestDroppedWriteIsNotTriedAgain: the partition's next owner writes the key, and
// an old value must not come after.
func TestDroppedWriteIsNotTriedAgain(t *testing.T) {
	for name, at := range map[string]time.Duration{"in flight": 5 * time.Millisecond, "backing off": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			service := outage(errUnavailable, time.Second)
			run(t, config(), service, func(_ *testing.T, s *stage) {
				o := s.from(1, "k", "1")
				pass(at)
				s.drop(of(1))
				s.wantPending(0)
				pass(time.Second)
				s.want("calls", service.calls("k"), "upsert 1")
				fresh := s.from(2, "k", "2")
				pass(time.Minute)
				s.want("calls", service.calls("k"), "upsert 1, upsert 2")
				s.want("dropped", o.String(), "")
				s.want("fresh", fresh.String(), "applied")
			})
		})
	}
}

// slow is a service whose attempts take a further request after 20 ms.
type slow struct{ further, ended atomic.Int32 }

func (s *slow) Call(_ context.Context, _ *schemas.Write, try Try) error {
	time.Sleep(20 * time.Millisecond)
	defer s.ended.Add(1)
	if err := try.May(); err != nil {
		return err
	}
	s.further.Add(1)
	return nil
}

func TestAttemptSendsNothingMoreBeforeTheServicesTime(t *testing.T) {
	cfg, service := config(), &slow{}
	cfg.Service = &Service{}
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, heard: &audience{}}
		defer s.beginWith(cfg, service)()
		o := s.from(1, "k", "1")
		pass(10 * time.Millisecond)
		cfg.Service.mu.Lock()
		cfg.Service.asked(&verdict{status: http.StatusTooManyRequests, retryAfter: 20 * time.Second}, time.Now())
		cfg.Service.mu.Unlock()
		pass(19 * time.Second)
		if further, ended := service.further.Load(), service.ended.Load(); further != 0 || ended != 1 {
			t.Errorf("before that: got %d further requests of %d attempts, want none of 1", further, ended)
		}
		pass(time.Minute)
		if further := service.further.Load(); further != 1 || o.String() != "applied" {
			t.Errorf("behind it: got %d further requests, and its origin heard %q", further, o)
		}
	})
}

// TestAttemptOfAFormerOwnerSendsNothingMore: it would come behind the next owner's.
func TestAttemptOfAFormerOwnerSendsNothingMore(t *testing.T) {
	for name, c := range map[string]struct {
		drop    int // the partition that is dropped while the attempt is under way; 0: none
		leased  bool
		further int32
	}{
		"goes on":                     {0, true, 1},
		"its partition is given back": {1, true, 0},
		"another partition is":        {2, true, 1},
		"its lease has run out":       {0, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var leased atomic.Bool
			leased.Store(true)
			cfg, service := config(), &slow{}
			cfg.MayCall = leased.Load
			synctest.Test(t, func(t *testing.T) {
				s := &stage{t: t, heard: &audience{}}
				defer s.beginWith(cfg, service)()
				o := s.from(1, "k", "1")
				pass(10 * time.Millisecond)
				leased.Store(c.leased)
				s.drop(of(c.drop))
				pass(time.Minute)
				if further, ended := service.further.Load(), service.ended.Load(); further != c.further || ended != 1 {
					t.Errorf("got %d further requests of %d attempts, want %d of 1", further, ended, c.further)
				}
				if applied := o.String() == "applied"; applied != (c.further > 0) {
					t.Errorf("its origin heard %q", o)
				}
			})
		})
	}
}

func TestDropFreesTheKeyBehindABackOff(t *testing.T) {
	service := &script{answer: failsOnce(fault{status: 500, after: time.Hour})}
	run(t, config(), service, func(_ *testing.T, s *stage) {
		s.from(1, "k", "1")
		pass(20 * time.Millisecond)
		other := s.from(2, "k", "2")
		s.drop(of(1))
		pass(time.Second)
		s.want("the write behind", other.String(), "applied")
	})
}

func TestMergedCallStaysForItsOtherOrigins(t *testing.T) {
	service := outage(errUnavailable, 15*time.Millisecond)
	cfg := config()
	cfg.Concurrency = Concurrency{Start: 1, Max: 1}
	for name, at := range map[string]time.Duration{"waiting": 5 * time.Millisecond, "in flight": 15 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			run(t, cfg, service, func(_ *testing.T, s *stage) {
				s.from(3, "first", "1")
				dropped, kept := s.from(1, "k", "1"), s.from(2, "k", "2")
				pass(at)
				s.drop(of(1))
				pass(time.Minute)
				s.want("dropped", dropped.String(), "")
				s.want("kept", kept.String(), "applied")
				s.wantPending(0)
			})
		})
	}
}

func TestDropSaysWhatItCouldNotWaitFor(t *testing.T) {
	service := &script{}
	run(t, config(), service, func(t *testing.T, s *stage) {
		s.from(1, "k", "1")
		pass(time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		err := s.Drop(ctx, of(1))
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(fmt.Sprint(err), "in flight: 1") {
			t.Errorf("got %v, want the deadline and one call in flight", err)
		}
	})
}

func TestEndOfRunNeitherConfirmsNorRejects(t *testing.T) {
	service := &script{}
	run(t, config(), service, func(t *testing.T, s *stage) {
		o := s.put(schemas.Upsert, "k", "1")
		pass(5 * time.Millisecond)
		s.end()
		synctest.Wait()
		s.want("cut off", o.String(), "")
		if got := s.attempts(); len(got) != 1 || got[0].Outcome != Abandoned {
			t.Errorf("attempts: got %+v, want one, abandoned", got)
		}
	})
}

// TestAKeyThatIsLetGoOfIsAnotherLanes has a lane let go of keys whose memory another one
// takes. That it looks at what the other has by then, the race detector tells.
func TestAKeyThatIsLetGoOfIsAnotherLanes(t *testing.T) {
	l := New(config(), nil, nil, rand.New(rand.NewPCG(1, 2)))
	all := &revocation{match: func(Origin) bool { return true }}
	id := keyID{table: l.known(schemas.Table{Name: "customers"}), name: "k"}
	var work sync.WaitGroup
	done := make(chan struct{})
	work.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				newEntry(id, nil)
			}
		}
	})
	for range 20_000 {
		l.keys[id] = &entry{id: id, table: id.table}
		l.dropFrom(l.keys[id], all)
	}
	close(done)
	work.Wait()
	if len(l.keys) > 0 {
		t.Errorf("keys: got %d, want none", len(l.keys))
	}
}
