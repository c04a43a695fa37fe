package reconcile

import (
	"fmt"
	"slices"
	"testing"

	"github.com/feedsink/feedsink/schemas"
)

// texts are what Next would send for the one key it gives out.
func texts(t *testing.T, k *Keys) (all []string) {
	t.Helper()
	next := k.Next(everything)
	if len(next) != 1 {
		t.Fatalf("to be sent: got %v, want one key", next)
	}
	for i := range next[0].Writes {
		all = append(all, show(&next[0].Writes[i]))
	}
	return all
}

// TestNewestStateIsMadeOfWhatANewOwnerReadsAgain: were a delete sent that came before
// the file, and the owner killed before what follows it, the next one would not know
// of what had been there.
func TestNewestStateIsMadeOfWhatANewOwnerReadsAgain(t *testing.T) {
	gone, row, newer := parse(t, "delete", true).Write, parse(t, "upsert a=1 b=1", true).Write, parse(t, "upsert b=2", true).Write
	for _, c := range []struct {
		name      string
		confirmed func(At) bool // when the file was sent
		rebuilt   bool          // a part of it had been loaded before
		want      string
	}{
		{"what had landed is left out", everything, false, "[upsert b=2]"},
		{"what may land late is not", nobody, false, "[delete upsert a=1 b=1 upsert b=2]"},
		{"nor where a part of the file was loaded before", everything, true, "[delete upsert a=1 b=1 upsert b=2]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var k Keys
			k.Other(&gone, At{"p", 1}, Effect{})
			k.Row(&row, At{"p", 2}, Open)
			k.Seal()
			k.Send(c.confirmed)
			if !c.rebuilt {
				k.Trim(c.confirmed)
			}
			k.Other(&newer, At{"p", 3}, Effect{Confirmed: true, Flying: true})
			if got := fmt.Sprint(texts(t, &k)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestCallBehindARowThatWasNotFollowedIsSentAgain: the key is known by the call alone,
// which has landed before the row will.
func TestCallBehindARowThatWasNotFollowedIsSentAgain(t *testing.T) {
	var k Keys
	w := parse(t, "upsert b=2", true).Write
	k.Other(&w, At{"p", 2}, Effect{Confirmed: true, Overtaken: 1})
	k.Seal()
	k.Send(everything)
	k.Trim(everything)
	if got, want := fmt.Sprint(texts(t, &k)), "[upsert b=2]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestReconciledWritesAreNotSentWithTheNextFile: what the file before has left is
// where the next one begins.
func TestReconciledWritesAreNotSentWithTheNextFile(t *testing.T) {
	var k Keys
	older, newer, last := parse(t, "upsert a=1", true).Write, parse(t, "upsert b=2", true).Write, parse(t, "upsert c=3", true).Write
	k.Other(&older, At{"p", 1}, Effect{Flying: true})
	for _, n := range k.Next(everything) {
		k.Sent(n)
	}
	k.Noted()
	if !k.Reconcile() {
		t.Fatal("settled: got false after the newest state was sent, want true")
	}
	k.Row(&newer, At{"p", 2}, Open)
	k.Seal()
	k.Send(everything)
	k.Trim(everything)
	k.Other(&last, At{"p", 3}, Effect{Flying: true})
	if got, want := fmt.Sprint(texts(t, &k)), "[upsert c=3]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestKeyOfAFormerOwnersFileIsSentHoweverOftenItIsWritten: rows of it may have been
// dropped in favour of a call that has not landed, nor has any behind it.
func TestKeyOfAFormerOwnersFileIsSentHoweverOftenItIsWritten(t *testing.T) {
	var k Keys
	gone := parse(t, "delete", true).Write
	k.Other(&gone, At{"p", 1}, Effect{Flying: true, Former: true})
	k.Noted()
	k.Other(&gone, At{"p", 2}, Effect{Flying: true, Former: true, Late: true})
	if k.Reconcile() {
		t.Fatal("settled: got true while the rows may be neither there nor overruled, want false")
	}
	for _, n := range k.Next(nobody) {
		k.Sent(n)
	}
	k.Noted()
	k.Other(&gone, At{"p", 3}, Effect{Flying: true, Former: true, Late: true})
	if !k.Reconcile() {
		t.Error("settled once it was sent: got false, want true")
	}
}

// TestIdleRowsAreToldByTheirOffsets: of a key that is written again and again a few
// writes are kept.
func TestIdleRowsAreToldByTheirOffsets(t *testing.T) {
	var k Keys
	gone := parse(t, "delete", false).Write
	k.Other(&gone, At{"p", 1}, Effect{Flying: true})
	for at := range int64(40) {
		w := parse(t, "patch a=1", true).Write
		k.Row(&w, At{"p", 10 + at}, Open)
	}
	k.Seal()
	next := k.Next(everything)
	if len(next) != 1 || len(next[0].Idle) != 1 {
		t.Fatalf("to be sent: got %+v, want one key with idle rows", next)
	}
	for at, want := range map[int64]bool{2: false, 9: false, 10: true, 30: true, 49: true, 50: false} {
		if got := next[0].Idle[0].Covers(schemas.Patch, At{"p", at}); got != want {
			t.Errorf("idle patch at %d: got %v, want %v", at, got, want)
		}
	}
	k.Other(&gone, At{"p", 60}, Effect{Flying: true})
	if idle := k.Next(everything)[0].Idle; len(idle) > 0 {
		t.Errorf("behind a newer delete: got idle rows %v, want none", idle)
	}
}

// TestIdleRowsAreToldByTheirPartitions: a key may lie in several.
func TestIdleRowsAreToldByTheirPartitions(t *testing.T) {
	var k Keys
	gone, patch := parse(t, "delete", false).Write, parse(t, "patch a=1", true).Write
	k.Other(&gone, At{"p", 1}, Effect{Flying: true})
	for _, at := range []At{{"p", 10}, {"q", 20}, {"p", 30}} {
		k.Row(&patch, at, Open)
	}
	k.Seal()
	next := k.Next(everything)
	if len(next) != 1 {
		t.Fatalf("to be sent: got %v, want one key", next)
	}
	for at, want := range map[At]bool{{"p", 10}: true, {"p", 30}: true, {"q", 20}: true, {"q", 10}: false, {"q", 30}: false, {"p", 31}: false} {
		covered := slices.ContainsFunc(next[0].Idle, func(s Span) bool { return s.Covers(schemas.Patch, at) })
		if covered != want {
			t.Errorf("idle patch at %v: got %v, want %v", at, covered, want)
		}
	}
}
