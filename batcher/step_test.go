package batcher

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/schemas"
)

// TestStepThatIsTriedAgainGoesOnSinceItsFirstTry: else none is ever overdue.
func TestStepThatIsTriedAgainGoesOnSinceItsFirstTry(t *testing.T) {
	for _, c := range []struct {
		gate  time.Duration // for further tries
		steps []contract.Step
	}{
		{0, []contract.Step{contract.Triggering, contract.Intending}},
		{time.Hour, []contract.Step{contract.Waiting}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, gate := fullFiles(t, func(m *files.Mapping) { m.Roll.Rows = 1 })
			gate.roll.Store(0)
			gate.retry.Store(int64(c.gate))
			for range 100 {
				w.triggers <- &refusal{transient: true}
			}
			w.run()
			w.append(write(schemas.Upsert, "1"))
			for range 20 {
				time.Sleep(time.Minute + time.Second)
				synctest.Wait()
				im := w.b.Status()[0].Import
				if im == nil || !slices.Contains(c.steps, im.Step) || im.Since.Sub(w.begun) > 2*time.Second {
					t.Fatalf("after %v: got %+v, want a step of %v since its first try", time.Since(w.begun), im, c.steps)
				}
			}
		})
	}
}

func TestPollThatFailsSaysWhenTheNextOneIs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for range 3 {
			w.polls = append(w.polls, &refusal{transient: true, after: 10 * time.Minute})
		}
		w.oneRow()
		time.Sleep(time.Minute)
		synctest.Wait()
		if im := w.b.Status()[0].Import; im == nil || im.LastErr == nil || im.Again.Sub(w.begun) < 10*time.Minute || im.Again.Sub(w.begun) > 11*time.Minute {
			t.Errorf("got %+v, want why a poll failed, and the next one ten minutes later", im)
		}
		time.Sleep(time.Hour)
		w.lastSaid(`confirm upsert 1/1 attempt 1 "e1" holds 100-100`)
	})
}
