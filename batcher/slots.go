package batcher

import "time"

// Slots is how many imports a table may see on one calendar day, and how they
// are spread over it. It decides from the times of today's imports alone, so
// that whoever owns the table next decides alike.
type Slots struct {
	PerDay  int
	Reserve int            // of these, kept back for further tries and imports made by hand
	Zone    *time.Location // whose calendar the days follow
	// Every is how often a file is complete when nothing but its age makes it
	// so: how many imports the rest of the day may want at most.
	Every time.Duration
}

// shortestEvery keeps a file's age of seconds, as in a trial, from meaning that
// the day will want thousands of imports.
const shortestEvery = 5 * time.Minute

// Remaining is how many imports are left on the day of now. used are the times
// of earlier ones, of any day.
func (s Slots) Remaining(now time.Time, used []time.Time) int {
	left := s.PerDay
	for _, t := range used {
		if s.sameDay(t, now) {
			left--
		}
	}
	return max(left, 0)
}

// Wait is how long the next import has to wait, 0 if it may go. A further try of
// a file that was begun may use the reserve and need not keep the pace.
//
// A fresh day's first slot may be used at once. After that, slots the rest of
// the day cannot want are free; scarce ones are spread evenly from the last
// import to the day's end.
func (s Slots) Wait(now time.Time, used []time.Time, retry bool) time.Duration {
	left := s.Remaining(now, used)
	if !retry {
		left -= s.Reserve
	}
	untilTomorrow := s.tomorrow(now).Sub(now)
	if left <= 0 {
		return untilTomorrow
	}
	last, begun := s.lastOfDay(now, used)
	if retry || !begun || float64(left) > float64(untilTomorrow)/float64(max(s.Every, shortestEvery)) {
		return 0
	}
	gap := s.tomorrow(now).Sub(last) / time.Duration(left+1)
	return max(last.Add(gap).Sub(now), 0)
}

func (s Slots) lastOfDay(now time.Time, used []time.Time) (last time.Time, found bool) {
	for _, t := range used {
		if s.sameDay(t, now) && (!found || t.After(last)) {
			last, found = t, true
		}
	}
	return last, found
}

func (s Slots) sameDay(a, b time.Time) bool {
	ay, am, ad := a.In(s.Zone).Date()
	by, bm, bd := b.In(s.Zone).Date()
	return ay == by && am == bm && ad == bd
}

// tomorrow is when the calendar day after that of now begins. Days are 23 or 25
// hours long where clocks change, and where midnight is left out they begin later.
func (s Slots) tomorrow(now time.Time) time.Time {
	y, m, d := now.In(s.Zone).Date()
	t := time.Date(y, m, d+1, 0, 0, 0, 0, s.Zone)
	// Where that midnight does not exist, the time package may answer with
	// the hour before it, which is still today.
	for s.sameDay(t, now) {
		t = t.Add(time.Hour)
	}
	return t
}
