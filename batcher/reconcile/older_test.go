package reconcile

import (
	"fmt"
	"slices"
	"testing"

	"github.com/feedsink/feedsink/schemas"
)

// shows is a ledger of the other lane that shows these records as confirmed.
func shows(offsets ...int64) func(At) bool {
	return func(at At) bool { return slices.Contains(offsets, at.Offset) }
}

// TestKeyWaitsForAllOlderWritesOfTheOtherLane: of the record at 1 the key's call has
// landed, another table's has not. After a restart it is sent again, and the one at 2
// once more behind it: the ledger shows 2 as confirmed, then 1 alone, then both.
func TestKeyWaitsForAllOlderWritesOfTheOtherLane(t *testing.T) {
	var k Keys
	older, newer, row := parse(t, "upsert a=1", false).Write, parse(t, "upsert a=2", false).Write, parse(t, "upsert a=3", false).Write
	k.Other(&older, At{"p", 1}, Effect{})
	k.Other(&newer, At{"p", 2}, Effect{})
	k.Row(&row, At{"p", 3}, Open)
	k.Seal()
	k.Send(shows(2))
	if keys, at := k.Unconfirmed(shows(2)); keys != 1 || at.Offset != 1 {
		t.Errorf("waits for: got %d keys, the record at %d, want 1 key, the record at 1", keys, at.Offset)
	}
	for _, ledger := range [][]int64{{2}, {1}} {
		k.Forget(shows(ledger...))
		if got := k.Next(shows(ledger...)); len(got) > 0 {
			t.Errorf("ledger shows %v: got %+v sent, want the key to wait", ledger, got)
		}
	}
	if got, want := fmt.Sprint(texts(t, &k)), "[upsert a=3]"; got != want {
		t.Errorf("once all have landed: got %s sent, want %s", got, want)
	}
}

// TestWriteThatWasConfirmedWhenItWasReadIsWaitedForBehindAnOlderOne: the record at 2
// is sent once more behind the one at 1.
func TestWriteThatWasConfirmedWhenItWasReadIsWaitedForBehindAnOlderOne(t *testing.T) {
	var k Keys
	older, newer, row := parse(t, "upsert a=1", false).Write, parse(t, "upsert a=2", false).Write, parse(t, "upsert a=3", false).Write
	k.Other(&older, At{"p", 1}, Effect{})
	k.Other(&newer, At{"p", 2}, Effect{Confirmed: true})
	k.Row(&row, At{"p", 3}, Open)
	k.Seal()
	k.Send(shows(2))
	if got := k.Next(shows(1)); len(got) > 0 {
		t.Errorf("got %+v sent, want the key to wait for the write at 2", got)
	}
	if got := k.Next(shows(1, 2)); len(got) != 1 {
		t.Errorf("once both have landed: got %d keys sent, want 1", len(got))
	}
}

// TestWriteBehindAnUnconfirmedOneIsNotTrimmed: it may land once more, behind the file.
func TestWriteBehindAnUnconfirmedOneIsNotTrimmed(t *testing.T) {
	var k Keys
	older, gone, row := parse(t, "upsert a=1", true).Write, parse(t, "delete", true).Write, parse(t, "upsert b=3", true).Write
	k.Other(&older, At{"p", 1}, Effect{})
	for at := range int64(20) { // only a few are kept
		k.Other(&gone, At{"p", 2 + at}, Effect{})
	}
	k.Row(&row, At{"p", 30}, Open)
	k.Seal()
	newer := func(at At) bool { return at.Offset > 1 }
	k.Send(newer)
	k.Trim(newer)
	if got, want := fmt.Sprint(texts(t, &k)), "[delete upsert b=3]"; got != want {
		t.Errorf("got %s sent, want %s", got, want)
	}
}

// TestWriteThatFewerWritesStandForMayStillLand: of a key that is written again and again a
// few writes are kept, and nothing of what they stand for may show in them. It lands
// behind the file all the same, and so the row is sent again.
func TestWriteThatFewerWritesStandForMayStillLand(t *testing.T) {
	gone, upsert, patch := parse(t, "delete", true).Write, parse(t, "upsert a=1", true).Write, parse(t, "patch a=2", true).Write
	for name, late := range map[string]*schemas.Write{"a newer write has taken its place": &upsert, "it found nothing": &patch} {
		for landed := range int64(10) { // that many writes have landed before
			var k Keys
			for at := range landed {
				k.Other(&gone, At{"p", at}, Effect{Flying: true})
			}
			for _, n := range k.Next(everything) {
				k.Sent(n)
			}
			k.Noted()
			k.Reconcile()
			k.Other(late, At{"p", landed}, Effect{})
			k.Row(&gone, At{"p", landed + 1}, Open)
			k.Seal()
			k.Row(&patch, At{"p", landed + 2}, Open)
			before := func(at At) bool { return at.Offset < landed }
			k.Send(before)
			k.Trim(before)
			if got, want := fmt.Sprint(texts(t, &k)), "[delete]"; got != want {
				t.Errorf("%s, after %d others: got %s sent, want %s", name, landed, got, want)
			}
		}
	}
}

// TestRowIsBroughtBackForAPatchHoweverOftenItsKeyIsWritten: a delete of the other lane has
// landed behind the file, the patch waits for the row and the row for the patch.
func TestRowIsBroughtBackForAPatchHoweverOftenItsKeyIsWritten(t *testing.T) {
	gone, row, patch := parse(t, "delete", true).Write, parse(t, "upsert a=1", true).Write, parse(t, "patch b=2", true).Write
	for newer := range int64(10) {
		var k Keys
		k.Other(&gone, At{"p", 1}, Effect{})
		k.Row(&row, At{"p", 2}, Open)
		k.Other(&patch, At{"p", 3}, Effect{})
		k.Row(&patch, At{"p", 4}, Open)
		k.Seal()
		for at := range newer {
			k.Other(&patch, At{"p", 5 + at}, Effect{Flying: true})
		}
		landed := shows(1)
		k.Send(nobody)
		k.Forget(landed)
		if got := k.Next(landed); len(got) > 0 {
			t.Fatalf("got %+v sent, want the key to wait for the patch", got)
		}
		back := k.BringBack(landed)
		if len(back) != 1 || len(back[0].Writes) != 2 || show(&back[0].Writes[1]) != "upsert a=1 b=2" {
			t.Errorf("%d newer writes: got %+v brought back, want the row with the patch", newer, back)
		}
	}
}

// Of two patches the first lands, and then a delete; the second waits for the row that came between.
func TestRowIsBroughtBackForALaterPatchToo(t *testing.T) {
	var k Keys
	at := func(offset int64) At { return At{"p", offset} }
	other := func(offset int64, text string) {
		w := parse(t, text, false).Write
		k.Other(&w, at(offset), Effect{})
	}
	row := func(offset int64, text string) {
		w := parse(t, text, false).Write
		k.Row(&w, at(offset), Open)
	}
	other(4, "patch a=4")
	other(6, "delete")
	row(9, "upsert a=9 b=9")
	other(11, "patch a=11")
	row(12, "patch a=12")
	k.Seal()
	k.Send(nobody)
	row(22, "merge a=22")
	row(23, "merge a=23")
	var got []string
	for _, n := range k.BringBack(shows(4, 6)) {
		for i := range n.Writes {
			got = append(got, show(&n.Writes[i]))
		}
	}
	if want := []string{"delete", "upsert a=11 b=9"}; !slices.Equal(got, want) {
		t.Errorf("brought back: got %q, want %q", got, want)
	}
}

// TestKeyIsFollowedWhileAnOlderWriteIsNotConfirmed, and what that takes is counted.
func TestKeyIsFollowedWhileAnOlderWriteIsNotConfirmed(t *testing.T) {
	var k Keys
	w := parse(t, "delete", false).Write
	for at := range int64(1000) {
		k.Other(&w, At{"p", at}, Effect{})
	}
	newer := func(at At) bool { return at.Offset > 0 }
	k.Forget(newer)
	if k.Len() != 1 || k.Bytes() < 1000*atBytes {
		t.Errorf("got %d keys and %d bytes, want the key, and bytes for each of 1,000 records", k.Len(), k.Bytes())
	}
	k.Forget(func(at At) bool { return at.Offset < 999 })
	if k.Len() != 1 || k.Bytes() > 500*atBytes {
		t.Errorf("the newest alone waits: got %d keys and %d bytes, want the key, and nothing for confirmed records", k.Len(), k.Bytes())
	}
	k.Forget(everything)
	if k.Len() != 0 || k.Bytes() != 0 {
		t.Errorf("all are confirmed: got %d keys and %d bytes, want none", k.Len(), k.Bytes())
	}
}
