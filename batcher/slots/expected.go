package slots

import (
	"slices"
	"sync/atomic"
	"time"
)

// Quarters are how many quarters of an hour a day has.
const Quarters = 24 * 4

// Quarter is the quarter of an hour, from 0, that the clock of t's location shows.
func Quarter(t time.Time) int { return t.Hour()*4 + t.Minute()/15 }

// Expected is what a day is expected to bring.
type Expected struct {
	shares [Quarters]float64 // of its rows, by the quarter of the hour that the zone's clock shows
	last   atomic.Pointer[best]
}

// best is when the next import goes out.
type best struct {
	after      time.Time // the import before
	left, kept int
	at         time.Time
}

const (
	// anyTime is the part of a day's rows that may come at any time, whatever the days
	// before were like: a load at a new time finds slots, too.
	anyTime = 0.05
	// step is how exactly the times of imports are chosen.
	step = 5 * time.Minute
	// mostChosen is for how many slots times are chosen. More of them are close enough to
	// each other when they are spread evenly.
	mostChosen = 48
)

// best is when the import behind that of after goes out, so that the rows that are expected
// until tomorrow wait as little as possible in sum. Those that come behind the day's last
// import go with tomorrow's first. left are the slots for this and later imports, besides
// those of the kept times, which are in order.
func (p Plan) best(after, tomorrow time.Time, kept []time.Time, left int) time.Time {
	if b := p.Expected.last.Load(); b != nil && b.after.Equal(after) && b.left == left && b.kept == len(kept) {
		return b.at
	}
	at := after.Add(step * time.Duration(p.leastWaiting(after, tomorrow, kept, left)))
	p.Expected.last.Store(&best{after, left, len(kept), at})
	return at
}

// leastWaiting is the step behind after at which the next import goes out. It solves, from
// the day's end backwards and for 0 to left slots, when the next one is best.
func (p Plan) leastWaiting(after, tomorrow time.Time, kept []time.Time, left int) (next int) {
	steps := stepsTo(tomorrow, after)
	waits := p.waiting(after, steps)
	begins := stepsTo(p.tomorrow(after), after) // today, where the import before was yesterday's
	if begins == steps {
		begins = 0
	}
	stops := make([]int, steps) // behind each step, when one goes out in any case
	for i := range stops {
		stops[i] = steps
		if k := slices.IndexFunc(kept, func(t time.Time) bool { return stepsTo(t, after) > i }); k >= 0 {
			stops[i] = min(stepsTo(kept[k], after), steps)
		}
	}
	less := make([]float64, steps+1) // the sum from each step on, with one slot less
	for n := range left + 1 {
		sums := make([]float64, steps+1)
		for i := steps - 1; i >= 0; i-- {
			next = stops[i]
			sums[i] = waits(i, next) + sums[next]
			for to := max(i+1, begins); n > 0 && to < stops[i]; to++ {
				if sum := waits(i, to) + less[to]; sum < sums[i] {
					sums[i], next = sum, to
				}
			}
		}
		less = sums
	}
	return next
}

// waiting tells for how long the rows that come between two steps wait for the later one, in sum.
func (p Plan) waiting(after time.Time, steps int) func(from, to int) float64 {
	rows, arrivals := make([]float64, steps+1), make([]float64, steps+1) // before each step, and the sum of their times
	for i := range steps {
		at := after.Add(step*time.Duration(i) + step/2).In(p.Zone)
		come := anyTime/Quarters + (1-anyTime)*p.Expected.shares[Quarter(at)]
		rows[i+1], arrivals[i+1] = rows[i]+come, arrivals[i]+come*(float64(i)+0.5)
	}
	return func(from, to int) float64 {
		return (rows[to]-rows[from])*float64(to) - (arrivals[to] - arrivals[from])
	}
}

// stepsTo is how many steps there are, the last one whole.
func stepsTo(t, after time.Time) int { return int((t.Sub(after) + step - 1) / step) }

// Expect learns what a day brings from days before: each has what came in its quarters of
// an hour, by the clock. One that brought far more than the others, as a snapshot does,
// counts as twice the median. It answers nil if nothing came.
func Expect(days [][Quarters]int64) *Expected {
	var totals []float64
	for _, day := range days {
		total := 0.0
		for _, n := range day {
			total += float64(n)
		}
		totals = append(totals, total)
	}
	sorted := slices.Sorted(slices.Values(totals))
	e, all := &Expected{}, 0.0
	for d, day := range days {
		weight := 1.0
		if most := 2 * sorted[len(sorted)/2]; most > 0 && totals[d] > most {
			weight = most / totals[d]
		}
		all += weight * totals[d]
		for i, n := range day {
			e.shares[i] += weight * float64(n)
		}
	}
	if all == 0 {
		return nil
	}
	for i := range e.shares {
		e.shares[i] /= all
	}
	return e
}
