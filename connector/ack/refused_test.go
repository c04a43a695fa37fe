package ack_test

import (
	"slices"
	"testing"

	"github.com/feedsink/feedsink/connector/ack"
)

func TestRefusedRecordsAreKeptInFewRangesThatHaveAllOfThem(t *testing.T) {
	var l ack.Ledger
	for i := range int64(100) {
		l.Refuse(i*i, 0, true)
	}
	for i := range int64(100) {
		if !l.Refused.Contains(i * i) {
			t.Errorf("offset %d: got it forgotten", i*i)
		}
	}
	if len(l.Refused) > 32 || l.Refused.Contains(99*99-1) || !l.Refused.Contains(2) {
		t.Errorf("got %v, want the narrowest gaps closed, to 32 ranges at most", l.Refused)
	}
	l.Refuse(20_000, 99*99, true)
	if want := (ack.Ranges{{From: 99 * 99, To: 99*99 + 1}, {From: 20_000, To: 20_001}}); !slices.Equal(l.Refused, want) {
		t.Errorf("once the other lane has passed the others: got %v, want %v", l.Refused, want)
	}
}

func TestLedgerThatIsTooLongHasOneRangeOfRefusedRecords(t *testing.T) {
	l := ack.Ledger{Done: ack.Ranges{{From: 20, To: 30}}}
	l.Refuse(1, 0, true)
	l.Refuse(1000, 0, true)
	l.Refuse(1_000_000, 0, true)
	metadata, dropped, err := l.Encode(7, 60)
	if err != nil || dropped != 1 {
		t.Fatalf("encode: dropped %d, %v, want 1", dropped, err)
	}
	got, err := ack.Decode(metadata, 7)
	if want := (ack.Ranges{{From: 1, To: 1_000_001}}); err != nil || !slices.Equal(got.Refused, want) {
		t.Errorf("got %v, %v, want %v", got.Refused, err, want)
	}
}
