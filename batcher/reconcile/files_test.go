package reconcile

import "testing"

// TestFilesThatWaitAreSentOneByOne: what is sent once the first has landed says nothing of
// the rows of those behind it, which have a turn of their own.
func TestFilesThatWaitAreSentOneByOne(t *testing.T) {
	var k Keys
	older, first, second := parse(t, "upsert a=1", false).Write, parse(t, "upsert a=2", false).Write, parse(t, "upsert a=3", false).Write
	k.Other(&older, At{"p", 1}, Effect{})
	k.Row(&first, At{"p", 2}, Open)
	k.Close()
	k.Row(&second, At{"p", 3}, Open)
	for _, want := range []string{"upsert a=2", "upsert a=3"} {
		k.Seal()
		k.Send(nobody)
		next := k.Next(everything)
		if len(next) != 1 || show(&next[0].Writes[0]) != want {
			t.Fatalf("to be sent: got %+v, want %s", next, want)
		}
		k.Sent(next[0])
		k.Noted()
		if !k.Reconcile() {
			t.Errorf("%s: got a key that is conflicting after its newest state was sent, want none", want)
		}
	}
}

// TestEveryFileThatHoldsAnOvertakenRowHasTheKeySentAgain: the write that each of their
// rows is older than has to land behind each.
func TestEveryFileThatHoldsAnOvertakenRowHasTheKeySentAgain(t *testing.T) {
	var k Keys
	w := parse(t, "upsert a=9", true).Write
	k.Close() // and one more is open
	k.Other(&w, At{"p", 5}, Effect{Confirmed: true, Overtaken: 2})
	for file := range 2 {
		k.Seal()
		k.Send(everything)
		k.Forget(everything)
		next := k.Next(everything)
		if len(next) != 1 || show(&next[0].Writes[0]) != "upsert a=9" {
			t.Fatalf("file %d: got %+v to be sent, want the write that overtook its row", file+1, next)
		}
		k.Sent(next[0])
		k.Noted()
		if !k.Reconcile() {
			t.Errorf("file %d: got a key that is conflicting after its newest state was sent, want none", file+1)
		}
	}
	k.Forget(everything)
	if k.Len() != 0 {
		t.Errorf("keys followed behind the last file: got %d, want none", k.Len())
	}
}
