package reconcile

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/schemas"
)

// parse reads "op a=1 b=2"; a trailing R marks a row.
func parse(t *testing.T, text string, custom bool) entry {
	t.Helper()
	words := strings.Fields(text)
	op, ok := schemas.ParseOp(words[0])
	if !ok {
		t.Fatalf("no op in %q", text)
	}
	e := entry{Write: schemas.Write{Op: op, Key: "k", Table: schemas.Table{Name: "t", Custom: custom}}}
	for _, word := range words[1:] {
		if word == "R" {
			e.row = true
			continue
		}
		name, value, _ := strings.Cut(word, "=")
		e.Cells = append(e.Cells, schemas.Cell{Place: &schemas.Place{Section: schemas.Properties, Name: name}, Value: schemas.StringValue(value)})
	}
	return e
}

func show(w *schemas.Write) string {
	text := w.Op.String()
	for _, c := range w.Cells {
		text += " " + c.Name + "=" + c.Value.Text()
	}
	return text
}

func TestReducedWritesLeaveTheKeyAsAllOfThemWould(t *testing.T) {
	for _, c := range []struct {
		custom       bool
		writes, want string
	}{
		{false, "upsert a=1 b=1; upsert a=2", "upsert a=2"},
		{false, "patch a=1; upsert b=2 R; patch a=3", "upsert a=3 b=2"},
		{false, "upsert a=1; delete; patch a=2", "delete"},
		{false, "delete; create a=1; patch a=2", "delete; create a=1; patch a=2"},
		{false, "upsert a=1; create a=2 R", "upsert a=1"},
		{true, "upsert a=1; upsert a=2 b=2", "upsert a=2 b=2"},
		{true, "upsert a=1; upsert b=2", "upsert a=1; upsert b=2"},
		{true, "upsert a=1; upsert b=2; upsert c=3", "upsert a=1 b=2; upsert c=3"},
		{true, "upsert a=1; upsert b=2 R", "upsert a=1 b=2"},
		{true, "delete; upsert a=1; upsert b=2; upsert a=3", "delete; upsert a=1 b=2; upsert a=3"},
		{true, "patch a=1; upsert b=2 R", "patch a=1 b=2"},
		{true, "patch a=1; upsert a=2 b=2", "upsert a=2 b=2"},
	} {
		var all []entry
		for text := range strings.SplitSeq(c.writes, "; ") {
			all = append(all, parse(t, text, c.custom))
		}
		var got []string
		for _, e := range reduce(all) {
			got = append(got, show(&e.Write))
		}
		if s := strings.Join(got, "; "); s != c.want {
			t.Errorf("%s (custom %v): got %q, want %q", c.writes, c.custom, s, c.want)
		}
	}
}

// nobody is what the other lane has confirmed when it has confirmed nothing.
func nobody(At) bool { return false }

func everything(At) bool { return true }

func TestKeyWithNothingUnconfirmedIsNotFollowed(t *testing.T) {
	var k Keys
	w := parse(t, "upsert a=1", false).Write
	k.Other(&w, At{"p", 1}, Effect{Confirmed: true})
	k.Row(&w, At{"p", 2}, Open)
	if got := k.Len(); got != 0 {
		t.Errorf("keys followed: got %d, want none", got)
	}
	k.Other(&w, At{"p", 3}, Effect{})
	if got := k.Len(); got != 1 {
		t.Errorf("keys followed: got %d, want the one with an unconfirmed write", got)
	}
	k.Forget(everything)
	if got := k.Len(); got != 0 {
		t.Errorf("keys followed once it was confirmed: got %d, want none", got)
	}
}

func TestRowBehindAnUnconfirmedWriteIsSentOnceThatHasLanded(t *testing.T) {
	var k Keys
	older, row := parse(t, "upsert a=1", false).Write, parse(t, "upsert a=2", false).Write
	k.Other(&older, At{"p", 1}, Effect{})
	k.Row(&row, At{"p", 2}, Open)
	k.Seal()
	k.Send(nobody)
	if got := k.Next(nobody); len(got) != 0 {
		t.Errorf("to be sent while the older write may still land: got %v, want nothing", got)
	}
	next := k.Next(everything)
	if len(next) != 1 || show(&next[0].Writes[0]) != "upsert a=2" || *next[0].Row != (At{"p", 2}) {
		t.Fatalf("to be sent: got %+v, want the row", next)
	}
	k.Sent(next[0])
	k.Noted()
	if !k.Reconcile() {
		t.Error("settled: got false after the newest state was sent, want true")
	}
}

func TestWriteThatCameLateSettlesAKeyThatNeverRests(t *testing.T) {
	var k Keys
	w := parse(t, "upsert a=1", false).Write
	k.Other(&w, At{"p", 1}, Effect{Flying: true})
	next := k.Next(nobody)
	k.Other(&w, At{"p", 2}, Effect{Flying: true, Late: true}) // not yet: what was given out may land after it
	k.Sent(next[0])
	k.Noted()
	if k.Reconcile() {
		t.Error("settled: got true while a write may have landed before the one sent, want false")
	}
	k.Other(&w, At{"p", 3}, Effect{Flying: true, Late: true})
	if !k.Reconcile() {
		t.Error("settled: got false, want true: the last write landed behind all that was sent")
	}
}

// TestKeyWaitsForAnOlderWriteThoughANewerOneIsConfirmed: the other lane may have left
// the newer one, under former routes, to this one.
func TestKeyWaitsForAnOlderWriteThoughANewerOneIsConfirmed(t *testing.T) {
	for _, taken := range []bool{false, true} {
		var k Keys
		w := parse(t, "upsert a=1", false).Write
		k.Other(&w, At{"p", 1}, Effect{Flying: true})
		k.Other(&w, At{"p", 2}, Effect{Confirmed: true, Doubtful: true, Flying: true})
		if taken {
			k.Take(&w, At{"p", 2}, Open)
		} else {
			k.Row(&w, At{"p", 2}, Open)
		}
		k.Row(&w, At{"p", 3}, Open)
		k.Seal()
		newer := func(at At) bool { return at.Offset > 1 }
		k.Send(newer)
		if got := k.Next(newer); len(got) > 0 {
			t.Errorf("taken %v: got %+v sent, want the key to wait for the write at 1", taken, got)
		}
		if got := k.Next(func(At) bool { return true }); len(got) != 1 {
			t.Errorf("taken %v, once it has landed: got %d keys, want 1", taken, len(got))
		}
	}
}

func TestWriteThatIsTakenWaitsForItsOwnCall(t *testing.T) {
	var k Keys
	w := parse(t, "delete", false).Write
	k.Other(&w, At{"p", 1}, Effect{})
	k.Take(&w, At{"p", 1}, Open)
	k.Seal()
	k.Send(nobody)
	if got := k.Next(nobody); len(got) > 0 {
		t.Errorf("got %+v sent, want the key to wait for the call of the other lane", got)
	}
}

func TestBusyKeyKeepsFewWrites(t *testing.T) {
	var k Keys
	for i := range 1000 {
		w := parse(t, fmt.Sprintf("upsert p%d=1", i), true).Write
		k.Other(&w, At{"p", int64(i)}, Effect{Flying: true})
		if n := len(k.byKey["k"].writes); n > 12 {
			t.Fatalf("writes kept after %d: got %d, want 12 at most", i, n)
		}
	}
	next := k.Next(nobody)[0].Writes
	if got := slices.ContainsFunc(next[0].Cells, func(c schemas.Cell) bool { return c.Name == "p0" }); !got {
		t.Error("first write: got it forgotten, want its property among what is sent")
	}
}

func TestDroppedRowsWaitUntilTheirKeyWasSent(t *testing.T) {
	var k Keys
	var fate Fate
	w := parse(t, "upsert a=1", false).Write
	k.Other(&w, At{"p", 1}, Effect{Dropped: []*Fate{&fate}})
	k.Confirm(&fate, nobody)
	k.Noted()
	k.Other(&w, At{"p", 2}, Effect{Late: true}) // it may never land, and then nothing of the key has
	if k.Reconcile() {
		t.Error("settled: got true while neither the rows nor what they were dropped for have landed, want false")
	}
	next := k.Next(nobody)
	if len(next) != 1 {
		t.Fatalf("to be sent: got %v, want the key", next)
	}
	k.Sent(next[0])
	k.Noted()
	if !k.Reconcile() {
		t.Error("settled once it was sent: got false, want true")
	}
}

// A write that the service may have refused is sent once more, and the answer decides about the
// rows that were dropped in its favour: also where it was confirmed before it was read.
func TestRowsDroppedForAWriteThatMayBeRefusedWaitForItsAnswer(t *testing.T) {
	all := func(At) bool { return true }
	for name, confirmed := range map[string]bool{"confirmed when it is read": true, "confirmed later": false} {
		t.Run(name, func(t *testing.T) {
			k := Keys{Refused: func(at At) bool { return at.Offset == 1 }}
			var fate, next Fate
			w := parse(t, "upsert a=1", false).Write
			k.Other(&w, At{"p", 1}, Effect{Confirmed: confirmed, Dropped: []*Fate{&fate}})
			k.Seal()
			k.Send(all)
			k.Trim(all)
			k.Forget(all)
			if k.Confirm(&next, all) {
				t.Error("the next file is confirmed: got the key conflicting, want only its own")
			}
			if !k.Confirm(&fate, all) {
				t.Fatal("the file is confirmed: got no key conflicting, want the write sent once more")
			}
			k.Trim(all) // of a file without rows the entry is on record only now
			n := k.Next(all)
			if len(n) != 1 || len(n[0].Writes) != 1 || !slices.Equal(n[0].For, []At{{"p", 1}}) {
				t.Fatalf("to be sent: got %+v, want the write, and that rows were dropped for it", n)
			}
			k.Sent(n[0])
			k.Noted()
			if k.Forget(all); !k.Reconcile() || k.Confirm(&fate, all) {
				t.Error("once it was answered: got the key conflicting, want it settled")
			}
			if k.Forget(all); k.Len() != 0 {
				t.Errorf("keys that are followed: got %d, want none", k.Len())
			}
		})
	}
}

// Rows in error, alone or kept as one with what was there before, are not replaced by newer writes that
// the service has refused.
func TestRefusedWritesReplaceNoRowsInError(t *testing.T) {
	all := func(At) bool { return true }
	inError := func(schemas.Op) bool { return true }
	for _, c := range []struct {
		name    string
		older   bool // there is a write of the other lane before the rows
		rows    int64
		refused int64
		whole   bool
	}{
		{"alone", false, 1, 9, false},
		{"as one with an older write", true, 4, 9, false},
		{"the newer write is applied", true, 4, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			may := func(at At) bool { return at.Offset == c.refused }
			k := Keys{Refused: may}
			w := parse(t, "upsert a=2", false).Write
			k.Other(&w, At{"p", 0}, Effect{Confirmed: !c.older, Flying: true})
			for i := range c.rows {
				k.Row(&w, At{"p", 2 + i}, Flying)
			}
			k.Other(&w, At{"p", 9}, Effect{Confirmed: true, Flying: true})
			n := k.Next(all)
			if len(n) != 1 || !n[0].Whole {
				t.Fatalf("to be sent: got %+v, want the newest write, which replaces the rows", n)
			}
			if n[0].Refused(may, inError); n[0].Whole != c.whole {
				t.Errorf("refused: got that it replaces the rows %v, want %v", n[0].Whole, c.whole)
			}
		})
	}
}

// Behind a row that may have landed after a call, newer calls are refused, and one is taken: the
// order is settled without the former, wherever they are.
func TestNewestStateIsSentWithoutWritesThatAreRefused(t *testing.T) {
	all := func(At) bool { return true }
	refused := func(at At) bool { return at.Offset > 2 && at.Offset < 8 }
	none := func(schemas.Op) bool { return false }
	nothing := func(At) bool { return false }
	rests := func(n Newest) []Newest { return slices.Collect(n.Rests(refused, nothing, none)) }
	k := Keys{Refused: refused}
	write := func(offset int64, says string) {
		w := parse(t, says, false).Write
		k.Other(&w, At{"p", offset}, Effect{Confirmed: true, Flying: true})
	}
	write(2, "upsert a=2")
	for offset := range int64(5) { // however many are refused
		write(3+offset, "upsert a=bad")
	}
	write(8, "patch b=8")
	n := k.Next(all)
	if len(n) != 1 || k.Awaits(&n[0], all) || !k.Awaits(&n[0], func(at At) bool { return at.Offset < 8 }) {
		t.Fatalf("to be sent: got %+v, want the newest state, and to wait for its newest write until that is confirmed", n)
	}
	rest := rests(n[0])
	if len(rest) != 1 || len(rest[0].Writes) != 1 || len(rest[0].Writes[0].Cells) != 2 || rest[0].Writes[0].Cells[0].Value.Text() != "2" {
		t.Fatalf("without those that are refused: got %+v, want the first write with the last", rest)
	}
	if again := rests(rest[0]); len(again) != 0 {
		t.Errorf("without what is not there: got %+v", again)
	}
	some := slices.Collect(n[0].Rests(func(at At) bool { return at.Offset == 7 }, refused, none))
	if len(some) != 5 || some[0].Writes[0].Cells[0].Value.Text() != "bad" || !reflect.DeepEqual(some[4].Writes, rest[0].Writes) {
		t.Errorf("where one alone is known to be refused: got %+v, want one write less each time, and the same in the end", some)
	}
	k.Sent(rest[0])
	k.Noted()
	if !k.Reconcile() {
		t.Error("once it was answered: got the key conflicting, want it settled")
	}
}

// A row between calls that are refused is sent without them: as a row once more it would say what they say.
func TestRowIsSentWithoutCallsThatAreRefused(t *testing.T) {
	refused := func(at At) bool { return at.Offset != 2 }
	k := Keys{Refused: refused}
	row, call := parse(t, "upsert a=2", true).Write, parse(t, "upsert a=bad", false).Write
	k.Other(&call, At{"p", 1}, Effect{})
	k.Row(&row, At{"p", 2}, Flying)
	k.Other(&call, At{"p", 3}, Effect{Confirmed: true, Flying: true})
	n := k.Next(func(At) bool { return true })
	if len(n) != 1 {
		t.Fatalf("to be sent: got %+v, want the key", n)
	}
	got := slices.Collect(n[0].Rests(refused, refused, func(schemas.Op) bool { return false }))
	if len(got) != 1 || got[0].Writes[0].Cells[0].Value.Text() != "2" {
		t.Errorf("got %+v, want the row alone", got)
	}
}

// A row that is in error takes no older call with it, nor does one that stands between calls.
func TestCallStaysApartFromARowThatIsInError(t *testing.T) {
	refused := func(at At) bool { return at.Offset == 2 }
	k := Keys{Refused: refused}
	for offset, says := range []string{"upsert a=0", "upsert a=1", "upsert a=bad", "upsert a=3 R", "upsert a=4", "upsert a=bad R"} {
		if e, at := parse(t, says, true), (At{"p", int64(offset)}); e.row {
			k.Row(&e.Write, at, Flying)
		} else {
			k.Other(&e.Write, at, Effect{Confirmed: true, Flying: true, Former: true})
		}
	}
	n := k.Next(func(At) bool { return true })
	got := slices.Collect(n[0].Rests(refused, refused, func(op schemas.Op) bool { return op == schemas.Upsert }))
	if len(got) != 1 || got[0].Writes[0].Cells[0].Value.Text() != "4" {
		t.Errorf("got %+v, want the newest call, which is not refused", got)
	}
}

// Calls of which it is not known yet whether the service takes them stay apart, too: the order is settled
// without those that it refuses later.
func TestCallsThatAreNotAnsweredYetStayApart(t *testing.T) {
	answered := false
	refused := func(at At) bool { return answered && at.Offset > 1 }
	k := Keys{Refused: refused}
	for offset, says := range []string{"upsert a=0", "upsert a=1", "upsert a=bad", "upsert a=bad", "upsert a=bad"} {
		w := parse(t, says, false).Write
		k.Other(&w, At{"p", int64(offset)}, Effect{Flying: true})
	}
	answered = true
	n := k.Next(func(At) bool { return true })
	got := slices.Collect(n[0].Rests(refused, refused, func(schemas.Op) bool { return false }))
	if len(got) != 1 || got[0].Writes[0].Cells[0].Value.Text() != "1" {
		t.Errorf("got %+v, want the newest that is not refused", got)
	}
}

func TestWriteThatIsAppliedStandsForAnOlderOneThatIsRefused(t *testing.T) {
	k := Keys{Refused: func(at At) bool { return at.Offset == 1 }}
	var fate Fate
	w := parse(t, "upsert a=1", false).Write
	k.Other(&w, At{"p", 1}, Effect{Dropped: []*Fate{&fate}})
	k.Other(&w, At{"p", 2}, Effect{Dropped: []*Fate{&fate}})
	if k.Confirm(&fate, func(At) bool { return true }) {
		t.Error("got the key conflicting, want it settled by the newer write")
	}
}

func TestKeysThatAreFollowedAreCountedInBytes(t *testing.T) {
	var k Keys
	never, always := func(At) bool { return false }, func(At) bool { return true }
	value := strings.Repeat("x", 10_000)
	write := func(key string) *schemas.Write {
		w := parse(t, "patch a="+value, true).Write
		w.Key = key
		return &w
	}
	for i := range 50 {
		k.Other(write(fmt.Sprint("k", i%5)), At{Offset: int64(i)}, Effect{})
		if i < 5 {
			k.Row(write(fmt.Sprint("k", i%5)), At{Offset: int64(i)}, Open)
		}
	}
	// Of each key at most 12 writes are kept, then what they come to.
	if got := k.Bytes(); got < 5*10_000 || got > 5*12*11_000 {
		t.Errorf("5 keys: got %d bytes", got)
	}
	k.Forget(never)
	if k.Len() != 5 {
		t.Fatalf("keys: got %d, want 5", k.Len())
	}
	k.Seal()
	k.Send(always)
	k.Forget(always)
	if k.Len() != 0 || k.Bytes() != 0 {
		t.Errorf("once all are confirmed: got %d keys and %d bytes, want none", k.Len(), k.Bytes())
	}
}

// A key that is written again and again keeps fewer writes. They say what all would.
func TestCondensedWritesSayWhatAllWould(t *testing.T) {
	for seed := range uint64(3000) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		custom, files := seed%2 == 0, 1+rnd.IntN(3)
		keys := &Keys{}
		var all []entry
		var texts []string
		for at := range int64(20 + rnd.IntN(40)) {
			text := []string{"upsert a=%d b=%[1]d", "upsert a=%d", "patch a=%d", "patch b=%d", "delete", "merge a=%d", "create a=%d"}[rnd.IntN(7)]
			if strings.Contains(text, "%") {
				text = fmt.Sprintf(text, at)
			}
			e := parse(t, text, custom)
			if e.row = rnd.IntN(2) == 0; e.row {
				text += " R"
			}
			texts = append(texts, text)
			place := At{"p", at}
			if e.row && keys.byKey["k"] == nil {
				continue // nothing of the other lane is older
			}
			if e.row {
				keys.Row(&e.Write, place, Open)
			} else {
				keys.Other(&e.Write, place, Effect{})
			}
			all = append(all, e)
			if rnd.IntN(20) == 0 && files > 0 {
				files--
				keys.Close()
			}
		}
		for range 4 {
			keys.Seal()
		}
		for _, keeps := range []bool{false, true} {
			got, want := leave(reduce(keys.byKey["k"].inTable()), keeps), leave(all, keeps)
			if !maps.Equal(got, want) {
				t.Fatalf("seed %d: %s\nan upsert by call keeps what it does not name %v: got %v, want %v", seed, strings.Join(texts, "; "), keeps, got, want)
			}
		}
	}
}

// leave is what writes leave of a record that is there before them; nil: nothing. keeps says that
// the upsert of a table record by call keeps what it does not name.
func leave(all []entry, keeps bool) map[string]string {
	row := map[string]string{"a": "before", "b": "before"}
	for _, e := range all {
		switch {
		case e.Op == schemas.Delete:
			row = nil
		case e.Op == schemas.Create && row != nil, e.Op == schemas.Patch && row == nil:
		default:
			if row == nil || e.Op == schemas.Upsert && !e.row && (!e.Table.Custom || !keeps) {
				row = map[string]string{}
			}
			for _, c := range e.Cells {
				row[c.Name] = c.Value.Text()
			}
		}
	}
	return row
}
