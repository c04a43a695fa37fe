package waiting

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/schemas"
)

// held is a record that nothing holds.
type held struct{ contract.Pending }

// rows are rows of tests.
type rows struct {
	*Rows
	total atomic.Int64
	next  int
}

func newRows() *rows {
	r := &rows{}
	r.Rows = New(&r.total)
	return r
}

// add adds a row of a key, a second after the one before it.
func (r *rows) add(key string, op schemas.Op, number int64, callable bool) {
	time.Sleep(time.Second)
	r.next++
	o := Offer{Callable: callable, Bytes: 100, Pending: func() contract.Pending { return held{} }}
	w := schemas.Write{Key: key, Op: op}
	r.Add(r.Key(key), &w, &o, reconcile.At{Offset: int64(r.next)}, number)
}

// keys are those that wait, the one with the oldest row first.
func (r *rows) keys() (text string) {
	for _, k := range r.Keys() {
		text += k.name
	}
	return text
}

func TestWritesOfAKeyAreOneCallAsLongAsNoneOfItWasMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			name  string
			first func(*rows)
			want  int
		}{
			{"that waits", func(*rows) {}, 1},
			{"that is being called", func(r *rows) { r.Becomes(r.Key("a"), Calling) }, 2},
			{"of which a call has come to nothing", func(r *rows) { r.Key("a").Tries++ }, 2},
			{"of another file", func(r *rows) { r.Key("a").Rows[0].Number = 6 }, 2},
			{"that only keeps its place", func(r *rows) { r.Key("a").Rows[0].Callable = false }, 2},
		} {
			r := newRows()
			r.add("a", schemas.Patch, 7, true)
			tt.first(r)
			r.add("a", schemas.Patch, 7, true)
			if got := len(r.Key("a").Rows); got != tt.want {
				t.Errorf("behind a row %s: got %d rows, want %d", tt.name, got, tt.want)
			}
			if got := r.Records(); got != 2 {
				t.Errorf("behind a row %s: got %d records, want 2", tt.name, got)
			}
		}
	})
}

func TestKeysTurnIsThatOfItsOldestRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRows()
		for _, key := range []string{"a", "b"} {
			r.add(key, schemas.Patch, 1, true)
		}
		r.Becomes(r.Key("a"), Calling)
		r.add("a", schemas.Delete, 1, true)
		r.add("c", schemas.Patch, 1, true)
		if got, want := r.keys(), "abc"; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		r.Becomes(r.Key("a"), Resting)
		r.Forget(r.Key("a"))
		if got, want := r.keys(), "bac"; got != want {
			t.Errorf("after the first row of a: got %s, want %s", got, want)
		}
	})
}

func TestCallsAreCountedUntilTheirRecordsHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRows()
		r.add("a", schemas.Patch, 1, true)
		k := r.Key("a")
		for _, step := range []struct {
			name string
			do   func()
			want int
		}{
			{"it starts", func() { r.Becomes(k, Calling) }, 1},
			{"it has landed", func() { r.Land(k, k.Rows[0], "patched") }, 0},
			{"its records end", func() { r.Becomes(k, Ending) }, 1},
			{"they have ended", func() { r.Becomes(k, Resting) }, 0},
			{"it starts again", func() { r.Becomes(k, Calling) }, 1},
			{"its row goes into the file", func() { r.Leave(k) }, 1},
			{"that call ends", func() { r.EndMoved(k.Rows[0]) }, 0},
			{"it starts once more", func() { r.Becomes(k, Calling) }, 1},
			{"it is dropped", func() { r.Dropped() }, 0},
		} {
			if step.do(); r.Calls() != step.want {
				t.Errorf("%s: got %d calls, want %d", step.name, r.Calls(), step.want)
			}
		}
	})
}

func TestLandingStandsUntilItsRowGoesIntoAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRows()
		r.add("a", schemas.Patch, 1, true)
		k := r.Key("a")
		r.Becomes(k, Calling)
		r.Land(k, k.Rows[0], "patched")
		all := r.Landings()
		if len(all) != 1 || !all[0].Stands() {
			t.Fatalf("got %d landings, want one that stands", len(all))
		}
		if !r.Leave(k) || all[0].Stands() || r.EndMoved(k.Rows[0]) {
			t.Error("got a landing that stands, or a call that is awaited, want a row that may have landed")
		}
	})
}

func TestWhatRowsTakeIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRows()
		r.add("a", schemas.Patch, 1, true)
		r.add("b", schemas.Patch, 1, false)
		r.Keep(r.Key("a"), []contract.Pending{held{}})
		if k := r.Key("a"); k == nil || !k.ByFile || !r.Key("b").ByFile {
			t.Error("got a key that may be called, want it to go by file")
		}
		r.Keep(r.Key("a"), nil)
		if got := r.total.Load(); got < 100 || r.Len() != 1 || r.Records() != 1 {
			t.Errorf("got %d bytes, %d keys, %d records, want those of one", got, r.Len(), r.Records())
		}
		r.Drop()
		if got := r.total.Load(); got != 0 {
			t.Errorf("got %d bytes, want none", got)
		}
	})
}
