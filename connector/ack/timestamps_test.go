package ack

import (
	"testing"
	"time"
)

func TestTimestampsAreCountedWithinA64thOfTheirSpan(t *testing.T) {
	begin := time.Date(2026, 11, 23, 6, 0, 0, 0, time.UTC)
	var counted Timestamps
	const records = 10_000
	for i := range int64(records) {
		counted.Add(begin.Add(time.Duration(i) * time.Second).UnixMilli())
	}
	counted.Add(begin.Add(-time.Hour).UnixMilli()) // out of order: counted as the first
	total, before := int64(0), time.Duration(0)
	counted.Each(func(at time.Time, n int64) {
		if past := at.Sub(begin); past != time.Duration(total)*time.Second && past-before > 2*records*time.Second/64 {
			t.Errorf("got a step from %v to %v, want at most %v", before, past, 2*records*time.Second/64)
		} else {
			before = past
		}
		total += n
	})
	if total != records+1 {
		t.Errorf("got %d records, want %d", total, records+1)
	}
	if last := (records - 1) * time.Second; last-before > 2*records*time.Second/64 {
		t.Errorf("got %v as the last, want %v", before, last)
	}
}
