// Package slots spreads the imports that a table may see on one calendar day. It
// knows their times, and nothing of files or of the service.
package slots

import "time"

// Plan is how many imports a table may see on one calendar day, and how they
// are spread over it. It decides from the times of today's imports alone, so
// that the next owner of the table decides alike.
type Plan struct {
	PerDay  int
	Reserve int            // of these, kept back for further tries and imports made by hand
	Zone    *time.Location // whose calendar the days follow
	// At are times of day, on the clock of Zone and since midnight, each of which has an
	// import of its own: it is kept for it until then.
	At []time.Duration
	// Every is how often a file is complete when nothing but its age makes it
	// so: how many imports the rest of the day may want at most.
	Every time.Duration
	// Expected is what a day brings, as far as the days before tell; nil: it is not known.
	Expected *Expected
}

// shortestEvery keeps a file's age of seconds, as in a trial, from meaning that
// the day will want thousands of imports.
const shortestEvery = 5 * time.Minute

// Scarce reports whether a day may want more imports than it has, so that they are spread.
func (p Plan) Scarce() bool {
	return p.PerDay-p.Reserve-len(p.At) <= int(24*time.Hour/max(p.Every, shortestEvery))
}

// Remaining is how many imports are left on the day of now. used are the times
// of earlier ones, of any day.
func (p Plan) Remaining(now time.Time, used []time.Time) int {
	left := p.PerDay
	for _, t := range used {
		if p.SameDay(t, now) {
			left--
		}
	}
	return max(left, 0)
}

// Wait is how long the next import has to wait, 0 if it may go. A further try of
// a file that was begun may use the reserve and need not keep the pace.
//
// A fresh day's first slot may be used at once where it is not known what to expect, and so
// may one that was kept for a time of day. After that, slots the rest of the day cannot want are free; scarce ones are
// spread from the last import to the day's end, by what is expected to come, or else evenly.
func (p Plan) Wait(now time.Time, used []time.Time, retry bool) time.Duration {
	passed, kept := p.timesOfDay(now)
	left := p.Remaining(now, used) - len(kept)
	if !retry {
		left -= p.Reserve
	}
	untilTomorrow := p.tomorrow(now).Sub(now)
	next := untilTomorrow // when another slot is free at the latest
	if len(kept) > 0 {
		next = kept[0].Sub(now)
	}
	if left <= 0 {
		return next
	}
	last := latest(used, func(t time.Time) bool { return p.SameDay(t, now) })
	if last.IsZero() && p.Expected != nil { // yesterday's last one tells what waits since then
		last = latest(used, func(t time.Time) bool { return t.Before(now) && now.Sub(t) < 24*time.Hour })
	}
	if len(passed) > 0 && last.Before(passed[len(passed)-1]) || retry || last.IsZero() || float64(left) > float64(untilTomorrow)/float64(max(p.Every, shortestEvery)) {
		return 0
	}
	tomorrow := p.tomorrow(now)
	at := last.Add(tomorrow.Sub(last) / time.Duration(left+1))
	if p.Expected != nil && left <= mostChosen {
		at = p.best(last, tomorrow, kept, left)
	}
	return min(max(at.Sub(now), 0), next)
}

// latest is the last of the times that are meant; zero: there is none.
func latest(used []time.Time, meant func(time.Time) bool) (last time.Time) {
	for _, t := range used {
		if meant(t) && t.After(last) {
			last = t
		}
	}
	return last
}

// SameDay reports whether two times are of one calendar day of the plan's zone.
func (p Plan) SameDay(a, b time.Time) bool { return SameDay(a, b, p.Zone) }

// SameDay reports whether two times are of one calendar day of a zone.
func SameDay(a, b time.Time, zone *time.Location) bool {
	ay, am, ad := a.In(zone).Date()
	by, bm, bd := b.In(zone).Date()
	return ay == by && am == bm && ad == bd
}

func (p Plan) tomorrow(now time.Time) time.Time {
	_, ends := Day(now, p.Zone)
	return ends
}

// Day is the calendar day of now in zone: when it begins, and when the next one does.
// Days are 23 or 25 hours long where clocks change, and where midnight is left out they
// begin later.
func Day(now time.Time, zone *time.Location) (begins, ends time.Time) {
	y, m, d := now.In(zone).Date()
	begins, ends = time.Date(y, m, d, 0, 0, 0, 0, zone), time.Date(y, m, d+1, 0, 0, 0, 0, zone)
	// Where a midnight does not exist, the time package may answer with the hour
	// before it, which is still of the day before.
	for !SameDay(begins, now, zone) {
		begins = begins.Add(time.Hour)
	}
	for SameDay(ends, now, zone) {
		ends = ends.Add(time.Hour)
	}
	return begins, ends
}
