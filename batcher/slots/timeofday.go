package slots

import (
	"slices"
	"time"
)

// Next is the first of the times of day behind after; zero if there are none. at are
// since midnight, as the clock of the zone shows them: one that a day leaves out is at the
// first instant behind the gap, one that a day has twice is at the first of both.
func Next(at []time.Duration, zone *time.Location, after time.Time) (next time.Time) {
	y, m, d := after.In(zone).Date()
	for days := range 3 { // a zone may leave out a whole day
		for _, t := range at {
			when := onDay(y, m, d+days, t, zone)
			if when.After(after) {
				next = Sooner(next, when)
			}
		}
	}
	return next
}

// Sooner is the earlier of two times of which zero means never.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// onDay is when the clock of the zone shows that time on that day.
func onDay(y int, m time.Month, d int, t time.Duration, zone *time.Location) time.Time {
	shown := time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Add(t)
	// No clock is further ahead of UTC than this.
	for from := shown.Add(-15 * time.Hour).In(zone); ; {
		_, offset := from.Zone()
		_, end := from.ZoneBounds()
		when := shown.Add(-time.Duration(offset) * time.Second).In(zone)
		switch {
		case when.Before(from): // the clock was set beyond it
			return from
		case end.IsZero() || when.Before(end):
			return when
		}
		from = end
	}
}

// timesOfDay are those of the day of now: those up to now, and those to come.
func (p Plan) timesOfDay(now time.Time) (passed, kept []time.Time) {
	y, m, d := now.In(p.Zone).Date()
	for _, t := range p.At {
		when := onDay(y, m, d, t, p.Zone)
		switch {
		case !p.SameDay(when, now): // the day ends before it
		case when.After(now):
			kept = append(kept, when)
		default:
			passed = append(passed, when)
		}
	}
	slices.SortFunc(passed, time.Time.Compare)
	slices.SortFunc(kept, time.Time.Compare)
	return passed, slices.CompactFunc(kept, time.Time.Equal)
}
