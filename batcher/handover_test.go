package batcher

import (
	"context"
	"testing"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/schemas"
)

// handOver gives the mapping away with so much time; how long did it take?
func (w *world) handOver(within time.Duration) (took time.Duration) {
	ctx, cancel := context.WithTimeout(w.t.Context(), within)
	defer cancel()
	begun := time.Now()
	w.b.HandOver(ctx, "customers", "orders")
	return time.Since(begun)
}

// leavings are how a batcher leaves its files, with 25 seconds at most; how long did it take?
var leavings = map[string]func(*world) time.Duration{
	"hand over": func(w *world) time.Duration { return w.handOver(25 * time.Second) },
	"stop": func(w *world) time.Duration {
		begun := time.Now()
		check(w.t, w.stop())
		return time.Since(begun)
	},
}

func TestATriggerOnItsWayIsRecordedBeforeOneLeaves(t *testing.T) {
	for name, leave := range leavings {
		each(t, name, func(t *testing.T, w *world) {
			w.slow = 10 * time.Second
			m := testMapping()
			m.Roll.Rows = 2
			w.start(m)
			w.append(write(schemas.Upsert, "1"), write(schemas.Delete, "2"))
			time.Sleep(time.Second)
			w.append(write(schemas.Upsert, "3")) // open: nobody's concern any more
			if got, want := leave(w), 9*time.Second; got != want {
				t.Errorf("leaving took %v, want %v", got, want)
			}
			w.lastSaid(`10s record delete 1/2 attempt 1 "e1"`)
			time.Sleep(3 * time.Hour)
			w.said()
			w.wantSpool()
			if name == "stop" {
				return
			}
			w.append(write(schemas.Upsert, "4"), write(schemas.Upsert, "5")) // of a new assignment
			time.Sleep(time.Minute)
			w.lastSaid(`confirm upsert 1/1 attempt 1 "e2" holds 100-101`)
		})
	}
}

func TestATriggerIsCutOffOnceTimeIsUp(t *testing.T) {
	for name, leave := range leavings {
		each(t, name, func(t *testing.T, w *world) {
			w.hold = "trigger"
			w.oneRow()
			time.Sleep(time.Second)
			if got, want := leave(w), 25*time.Second; got != want {
				t.Errorf("leaving took %v, want %v", got, want)
			}
			w.lastSaid("trigger is held")
			time.Sleep(time.Hour)
			w.said()
			w.wantSpool()
		})
	}
}

func TestHandOverWaitsForNothingThatIsNotOnItsWay(t *testing.T) {
	for _, step := range []string{"an open file", "poll", "a halt", "the grace"} {
		each(t, step, func(t *testing.T, w *world) {
			w.hold = step
			m := testMapping()
			w.open(Config{}, m)
			switch step {
			case "the grace":
				w.adopt(w.left(103, contract.Import{Part: 1, Parts: 1, Attempt: 1}))
			case "a halt":
				w.triggers <- &refusal{}
			}
			w.run()
			w.append(write(schemas.Upsert, "1"))
			if step == "poll" || step == "a halt" {
				time.Sleep(time.Hour)
			}
			time.Sleep(10 * time.Second)
			w.transcript()
			if got := w.handOver(25 * time.Second); got != 0 {
				t.Errorf("handing over took %v, want no time", got)
			}
			time.Sleep(3 * time.Hour)
			w.said()
		})
	}
}
