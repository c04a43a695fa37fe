package replay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/schemas"
)

// fails has the service answer 500 to every call for the keys.
func (w *world) fails(keys ...string) {
	w.before = func(write *schemas.Write) error {
		if slices.Contains(keys, write.Key) {
			return no{500, true}
		}
		return nil
	}
}

// sent are the keys of the calls that were applied, each once.
func (w *world) sent() (keys map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys = map[string]int{}
	for _, call := range w.calls {
		keys[strings.Fields(call)[1]]++
	}
	return keys
}

// A key that comes to no answer holds up no other, and is done by another run.
func TestBackfillGoesOnBesideAKeyThatComesToNoAnswer(t *testing.T) {
	for name, how := range map[string]func(*replay.Backfill){
		"given up by the lane":         func(b *replay.Backfill) { b.Replay.Round = 5 },
		"given up by the run":          func(b *replay.Backfill) { b.Replay.Round, b.Replay.GiveUp = 5, 300*time.Millisecond },
		"one key in a round":           func(b *replay.Backfill) { b.Replay.Round, b.Replay.GiveUp = 1, 300*time.Millisecond },
		"the span is read in parts":    func(b *replay.Backfill) { b.Keys, b.Replay.Round, b.Replay.GiveUp = 12<<10, 5, 300*time.Millisecond },
		"all keys are sent in a round": func(b *replay.Backfill) { b.Replay.GiveUp = 300 * time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for i := range 20 {
				w.produce(order(fmt.Sprintf("o%d", i), "upsert", fmt.Sprintf(`{"a":%d}`, i)))
			}
			w.caughtUp()
			w.fails("o7")
			report, err := w.backfill(t.Context(), custom, how)
			if err == nil || !strings.Contains(err.Error(), "1 key came to no answer; run again") {
				t.Fatalf("got %v, want that one key came to no answer", err)
			}
			if got := w.sent(); len(got) != 19 || report.Sent != 19 || report.Left[replay.Unanswered] != 1 || report.Ended {
				t.Errorf("got %d keys sent, %+v; want 19 sent, one left, and no end", len(got), report)
			}
			if n := report.Notes; len(n) != 1 || n[0].Record != "orders[0]@7" || n[0].Why != replay.Unanswered || strings.Contains(n[0].Message, "o7") {
				t.Errorf("got notes %+v, want the key named by its record", n)
			}
			// A newer record comes, which the sink applies, and a call of the first run may land over it.
			w.produce(order("o7", "upsert", `{"a":8}`))
			w.caughtUp()
			w.before, w.calls = nil, nil
			report = w.filled(custom, how)
			if got := w.value("o7", "a"); got != "8" || !report.Resumed || report.Left[replay.Unanswered] != 0 || report.Keys != 20 && !report.About || report.Sent != 20 {
				t.Errorf("run again: got %s and %+v, want the newest state sent, and 20 keys in all", got, report)
			}
		})
	}
}

// A service that answers nothing ends the run.
func TestBackfillEndsWhenTheServiceAnswersNothing(t *testing.T) {
	for round, tried := range map[int]int{5: 5, 1: 2} {
		w := newWorld(t)
		keys := map[string]bool{}
		for i := range 20 {
			w.produce(order(fmt.Sprintf("o%d", i), "upsert", `{"a":1}`))
		}
		w.caughtUp()
		w.before = func(write *schemas.Write) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			keys[write.Key] = true
			return no{500, true}
		}
		report, err := w.backfill(t.Context(), custom, func(b *replay.Backfill) { b.Replay.Round, b.Replay.GiveUp = round, 300*time.Millisecond })
		if err == nil || !strings.Contains(err.Error(), "the service answers no call for 300ms; run again") || len(keys) != tried || report.Sent != 0 {
			t.Errorf("rounds of %d: got %v after %d keys, %+v; want the run to end after %d", round, err, len(keys), report, tried)
		}
	}
}

// An attempt at a key came to no answer before another was answered; that it is sent once more comes to none.
func TestBackfillGoesOnWhereWhatIsSentOnceMoreComesToNoAnswer(t *testing.T) {
	w := newWorld(t)
	for i := range 10 {
		w.produce(order(fmt.Sprintf("o%d", i), "upsert", `{"a":1}`))
	}
	w.caughtUp()
	tries := 0
	w.before = func(write *schemas.Write) error {
		if write.Key != "o3" {
			return nil
		}
		if tries++; tries == 2 {
			return nil
		}
		return no{500, true}
	}
	report, err := w.backfill(t.Context(), custom, func(b *replay.Backfill) { b.Replay.GiveUp = 300 * time.Millisecond })
	if err == nil || !strings.Contains(err.Error(), "1 key came to no answer") || report.Sent != 9 || report.Left[replay.Unanswered] != 1 {
		t.Fatalf("got %v, %+v; want 9 sent and one left", err, report)
	}
	w.before = nil
	if report = w.filled(custom, nil); report.Sent != 10 {
		t.Errorf("run again: got %+v, want 10 sent in all", report)
	}
}

// A letter that comes to no answer is left, and the others end.
func TestReplayGoesOnBesideALetterThatComesToNoAnswer(t *testing.T) {
	w := newWorld(t)
	for i := range 10 {
		w.deadLetter(w.produce(order(fmt.Sprintf("o%d", i), "upsert", `{"a":1}`))[0], refused)
	}
	w.caughtUp()
	w.fails("o3")
	report, err := w.replay(func(r *replay.Replay) { r.Round, r.GiveUp = 5, 300*time.Millisecond })
	if err != nil || report.Applied != 9 || report.Left[replay.Unanswered] != 1 {
		t.Fatalf("got %v, %+v; want 9 applied and one left", err, report)
	}
	if state := w.states(); state[deadletter.StateDone] != 9 || state[deadletter.StateTried] != 1 || len(w.letters()) != 10 {
		t.Errorf("got %v, want 9 done, one tried and no letter more", state)
	}
	w.before = nil
	if report = w.run(nil); report.Applied != 1 || len(w.sent()) != 10 {
		t.Errorf("run again: got %+v, want the last one applied", report)
	}
}

// states counts the dead letters by what has become of them.
func (w *world) states() map[deadletter.State]int {
	w.t.Helper()
	marks := w.marks()
	states := map[deadletter.State]int{}
	for _, l := range w.letters() {
		state, _ := marks.State(l)
		states[state]++
	}
	return states
}
