package ack

import "time"

// Timestamps counts timestamps in spans of equal length, which doubles when they do
// not suffice.
type Timestamps struct {
	from   int64 // milliseconds, of the first
	length uint  // of a span, in powers of two of milliseconds
	counts [64]int64
}

// Add counts a timestamp, in milliseconds.
func (t *Timestamps) Add(at int64) {
	if t.from == 0 {
		t.from = at
	}
	past := max(at-t.from, 0)
	for past>>t.length >= int64(len(t.counts)) {
		for i := range len(t.counts) / 2 {
			t.counts[i] = t.counts[2*i] + t.counts[2*i+1]
		}
		clear(t.counts[len(t.counts)/2:])
		t.length++
	}
	t.counts[past>>t.length]++
}

// Each calls f with the begin of each span in which there are some, and how many.
func (t *Timestamps) Each(f func(at time.Time, n int64)) {
	for i, n := range t.counts {
		if n > 0 {
			f(time.UnixMilli(t.from+int64(i)<<t.length), n)
		}
	}
}
