package ack_test

import (
	"fmt"
	"testing"

	"github.com/feedsink/feedsink/connector/ack"
)

// TestRestartShowsNothingNewBeforeAllThatWasConfirmedIsRead: record 10 is older than
// 13, which may be of the same key.
func TestRestartShowsNothingNewBeforeAllThatWasConfirmedIsRead(t *testing.T) {
	tr := ack.New(10, ack.Ranges{{From: 11, To: 14}})
	if !tr.Restored(10) || !tr.Restored(13) || tr.Restored(14) {
		t.Error("restored: want the records up to the last that was confirmed")
	}
	shows := func(when, want string) {
		t.Helper()
		if got := fmt.Sprint(tr.Watermark(), tr.Confirmed()); got != want {
			t.Errorf("%s: got %s, want %s", when, got, want)
		}
	}
	var older, newer ack.Entry
	tr.SendAgain(10)
	tr.Track(&older, 10)
	tr.Advance(12)
	tr.Confirm(&older)
	shows("while 13 is not read", "10 [{11 14}]")
	tr.SendAgain(13)
	if tr.Done(13) {
		t.Error("done(13): got true for a record that is sent again, want false")
	}
	tr.Track(&newer, 13)
	tr.Advance(14)
	shows("while 13 is on its way", "13 []")
	tr.Confirm(&newer)
	shows("in the end", "14 []")
}
