package replay_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/schemas"
)

// conflicts answers creates of a key that has a row with a conflict.
func (w *world) conflicts(write *schemas.Write) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if write.Op == schemas.Create && w.rows[write.Key] != nil {
		return no{status: 409}
	}
	return nil
}

// lastLetter is the newest dead letter.
func (w *world) lastLetter() *deadletter.Received {
	all := w.letters()
	return all[len(all)-1]
}

// TestCreateThatMetAnotherRowIsNotSentAsAnUpsert: an attempt at it came to no answer,
// the next one met the row.
func TestCreateThatMetAnotherRowIsNotSentAsAnUpsert(t *testing.T) {
	w := withLetter(t, order("C", "create", `{"name":"mine"}`))
	w.rows["C"] = map[string]any{"name": "theirs"}
	tries := 0
	w.before = func(write *schemas.Write) error {
		if tries++; tries == 1 {
			return no{status: 0, transient: true}
		}
		return w.conflicts(write)
	}
	got := w.run(nil)
	if total(got.Refused) != 1 {
		t.Errorf("report: got %+v, want the letter refused", got)
	}
	if got := w.value("C", "name"); got != "theirs" {
		t.Errorf("C: got %s, want theirs; calls %q", got, w.calls)
	}
	if l := w.lastLetter(); len(w.letters()) != 2 || !l.MayBeInTable {
		t.Errorf("dead letters: got %d, the last %+v; want 2, and that the create may have been carried out", len(w.letters()), l.Reason)
	}
}

// TestCreateThatGotNoAnswerIsNotSentAsAnUpsert while its row changes.
func TestCreateThatGotNoAnswerIsNotSentAsAnUpsert(t *testing.T) {
	w := withLetter(t, order("C", "create", `{"name":"mine"}`))
	w.rows["C"] = map[string]any{"name": "theirs"}
	produced := false
	w.before = func(write *schemas.Write) error {
		if !produced {
			produced = true
			w.produce(order("C", "patch", `{"a":1}`))
		}
		if write.Op == schemas.Create {
			return no{status: 0, transient: true}
		}
		return nil
	}
	if got := w.run(nil); got.Left["unanswered"] != 1 {
		t.Errorf("report: got %+v, want the letter left", got)
	}
	if got := w.value("C", "name"); got != "theirs" {
		t.Errorf("C: got %s, want theirs; calls %q", got, w.calls)
	}
}

// TestRefusedCreateTellsThatItMayBeInTheTable: an earlier run was killed amid its call,
// or the sink could not tell. One that was never carried out says nothing of it.
func TestRefusedCreateTellsThatItMayBeInTheTable(t *testing.T) {
	for _, c := range []struct{ killed, unsure bool }{{false, true}, {true, false}, {false, false}} {
		w := newWorld(t)
		why := refused
		why.MayBeInTable = c.unsure
		w.deadLetter(w.produce(order("C", "create", `{"name":"mine"}`))[0], why)
		w.caughtUp()
		if c.killed {
			w.killed()
		}
		w.rows["C"] = map[string]any{"name": "theirs"}
		w.before = w.conflicts
		if got := w.run(nil); total(got.Refused) != 1 {
			t.Errorf("%+v: report: got %+v, want the letter refused", c, got)
		}
		if l := w.lastLetter(); len(w.letters()) != 2 || l.MayBeInTable != (c.killed || c.unsure) {
			t.Errorf("%+v: got %+v, want whether it may be in the table", c, l.Reason)
		}
	}
}

// TestUpsertThatIsRefusedWhenItIsSentOnceMoreIsADeadLetter: nothing followed it.
func TestUpsertThatIsRefusedWhenItIsSentOnceMoreIsADeadLetter(t *testing.T) {
	w := withLetter(t, order("C", "upsert", `{"name":"mine"}`))
	tries := 0
	w.before = func(*schemas.Write) error {
		switch tries++; tries {
		case 1:
			return no{status: 0, transient: true}
		case 2:
			return nil
		}
		return no{status: 400}
	}
	if got := w.run(nil); total(got.Refused) != 1 || len(w.letters()) != 2 {
		t.Errorf("report: got %+v and %d dead letters, want the letter refused", got, len(w.letters()))
	}
}

// TestProfileThatALateCallMadeAnewIsDeleted: the delete's record, and the answer to the
// upsert, name the profile before.
func TestProfileThatALateCallMadeAnewIsDeleted(t *testing.T) {
	for _, gone := range []*kgo.Record{{Topic: profile, Key: []byte("C")}, customer("C", "delete", "id-C", `{}`)} {
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
			w.produce(gone)
			w.apply(&schemas.Write{Op: schemas.Delete, Key: "C"})
			w.land()
		}
		if got := w.run(nil); !got.Ended() {
			t.Errorf("report: got %+v, want the letter ended", got)
		}
		if got := w.value("C", "name"); got != "no row" {
			t.Errorf("C: got %s, want no row; calls %q", got, w.calls)
		}
	}
}

// TestProfileThatAKilledRunMadeAnewIsDeleted: the delete's record names the profile
// before.
func TestProfileThatAKilledRunMadeAnewIsDeleted(t *testing.T) {
	w := newWorld(t)
	w.apply(&schemas.Write{Op: schemas.Upsert, Key: "C"})
	w.deadLetter(w.produce(customer("C", "upsert", "", `{"name":"old"}`))[0], refused)
	w.caughtUp()
	w.killed()
	w.produce(customer("C", "delete", "id-C", `{}`))
	w.caughtUp()
	w.apply(&schemas.Write{Op: schemas.Delete, Key: "C", ProfileID: "id-C"})
	w.land()
	if got := w.run(nil); got.Superseded != 1 {
		t.Errorf("report: got %+v, want the letter superseded", got)
	}
	if got := w.value("C", "name"); got != "no row" {
		t.Errorf("C: got %s, want no row; calls %q", got, w.calls)
	}
}

func total(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}
