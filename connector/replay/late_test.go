package replay_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/schemas"
)

// killed is a run that ends with its calls on their way: the service gets to
// them when land is called.
func (w *world) killed() {
	w.t.Helper()
	w.held = true
	if _, err := w.replay(func(r *replay.Replay) { r.GiveUp = 100 * time.Millisecond }); err == nil {
		w.t.Fatal("the run whose calls are on their way came to an end")
	}
	w.held = false
	if len(w.late) == 0 {
		w.t.Fatal("no call is on its way")
	}
}

func TestCallOfAKilledRunThatLandsLateLeavesNoOlderValue(t *testing.T) {
	tombstone := &kgo.Record{Topic: profile, Key: []byte("C")}
	for _, c := range []struct {
		name   string
		letter *kgo.Record
		comes  *kgo.Record // after the kill, and the sink applies it
		want   string      // of name, or what is left of the row
	}{
		{"profile deleted by import", customer("C", "upsert", "", `{"name":"old"}`), tombstone, "no row"},
		{"profile deleted by call", customer("C", "upsert", "", `{"name":"old"}`), customer("C", "delete", "id-C", `{}`), "no row"},
		{"profile replaced", customer("C", "upsert", "", `{"name":"old"}`), customer("C", "upsert", "", `{"name":"new"}`), "new"},
		{"record deleted", order("C", "upsert", `{"name":"old"}`), order("C", "delete", `{}`), "no row"},
		{"record replaced", order("C", "upsert", `{"name":"old"}`), order("C", "upsert", `{"name":"new"}`), "new"},
	} {
		for _, when := range []string{"before the next run", "while it waits", "never"} {
			t.Run(c.name+", the call lands "+when, func(t *testing.T) {
				w := newWorld(t)
				letter, comes := *c.letter, *c.comes
				w.deadLetter(w.produce(&letter)[0], refused)
				w.caughtUp()
				w.killed()
				w.produce(&comes)
				w.caughtUp()
				if c.want == "new" {
					w.rows["C"] = map[string]any{"name": "new"}
				}
				switch when {
				case "before the next run":
					w.land()
				case "while it waits":
					w.waiting = w.land
				}
				if got := w.run(nil); got.Superseded != 1 || !got.Ended() {
					t.Errorf("report: got %+v, want the letter superseded", got)
				}
				if got := w.value("C", "name"); got != c.want {
					t.Errorf("C: got %s, want %s; calls %q", got, c.want, w.calls)
				}
				if len(w.waits) != 1 || w.waits[0] < late/2 {
					t.Errorf("waited for %v, want once, until no call of the killed run can land", w.waits)
				}
				if got := len(w.letters()); got != 1 {
					t.Errorf("dead letters: got %d, want the one there was", got)
				}
				if got := w.run(nil); got.Selected != 0 || len(w.waits) != 1 {
					t.Errorf("a third run: got %+v and waits %v, want nothing to do", got, w.waits)
				}
			})
		}
	}
}

// No call can delete a profile whose id is not told. The sink imports the
// tombstone: that it cannot be replayed makes no dead letter of it.
func TestTombstoneThatNoCallCanWriteIsNoDeadLetter(t *testing.T) {
	w := newWorld(t)
	w.silent = true
	w.deadLetter(w.produce(customer("C", "upsert", "", `{"name":"old"}`))[0], refused)
	w.caughtUp()
	w.killed()
	w.produce(&kgo.Record{Topic: profile, Key: []byte("C")})
	w.caughtUp()
	w.land()
	for range 2 {
		if got := w.run(nil); got.Left[replay.NeedsImport] != 1 || len(got.Notes) != 1 || got.Notes[0].Message == "" {
			t.Fatalf("report: got %+v, want the letter left", got)
		}
	}
	if got := len(w.letters()); got != 1 {
		t.Errorf("dead letters: got %d, want the one there was", got)
	}
	w.silent = false // and a later run brings it to its end
	if got := w.run(nil); got.Superseded != 1 || w.value("C", "name") != "no row" {
		t.Errorf("once the id is told: got %+v and %s, want the profile gone", got, w.value("C", "name"))
	}
}

// The first attempt comes to no answer, the second one is answered, a newer record
// is applied by the sink, and then the first attempt lands.
func TestAttemptThatLandsAfterTheAnsweredOneLeavesNoOlderValue(t *testing.T) {
	w := withLetter(t, customer("C", "upsert", "", `{"name":"old"}`))
	tries := 0
	w.before = func(write *schemas.Write) error {
		if tries++; tries > 1 {
			return nil
		}
		w.late = append(w.late, *write)
		return no{status: 0, transient: true}
	}
	w.waiting = func() {
		w.produce(&kgo.Record{Topic: profile, Key: []byte("C")})
		w.apply(&schemas.Write{Op: schemas.Delete, Key: "C"})
		w.land()
	}
	if got := w.run(nil); !got.Ended() {
		t.Errorf("report: got %+v, want the letter ended", got)
	}
	if got := w.value("C", "name"); got != "no row" || len(w.waits) != 1 || w.waits[0] != late {
		t.Errorf("C: got %s after waits of %v, want no row; calls %q", got, w.waits, w.calls)
	}
}

func TestInterruptedLettersThatTheFilterLeavesOutAreTold(t *testing.T) {
	w := withLetter(t, order("C", "upsert", `{"a":1}`))
	w.killed()
	if got := w.run(func(r *replay.Replay) { r.Filter = replay.Filter{Keys: []string{"D"}} }); got.Interrupted != 1 || got.Selected != 0 {
		t.Errorf("report: got %+v, want the letter told as interrupted", got)
	}
}

// The dead letter of a row that matches no record came from no topic.
func TestLetterOfARowWithoutARecordIsLeft(t *testing.T) {
	w := newWorld(t)
	w.deadLetter(&kgo.Record{Key: []byte("C"), Value: []byte("number,name\nC,x\n")},
		deadletter.Reason{Stage: deadletter.Delivering, Code: "import_row", Mapping: profile, Table: profile, Execution: "e1", Message: "invalid"})
	w.deadLetter(w.produce(order("o1", "upsert", `{"seq":1}`))[0], refused)
	w.caughtUp()
	got := w.run(nil)
	if got.Left[replay.NoRecord] != 1 || got.Applied != 1 || got.Foreign != 0 {
		t.Fatalf("report: got %+v, want the row left and the other letter applied", got)
	}
	if n := got.Notes[0]; n.Record != "row of execution e1" || n.Mapping != profile || n.Message == "" {
		t.Errorf("note: got %+v", n)
	}
	if got := len(w.letters()); got != 2 {
		t.Errorf("dead letters: got %d, want the 2 there were", got)
	}
}
