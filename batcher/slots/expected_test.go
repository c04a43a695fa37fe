package slots_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/feedsink/feedsink/batcher/slots"
)

// curve is what comes in a minute of a day that is the weekday'th of its week.
type curve func(random *rand.Rand, weekday int) [24 * 60]int64

// steady is the curve that an even spread fits best.
const steady = "steady"

var curves = map[string]curve{
	steady: func(*rand.Rand, int) (day [24 * 60]int64) {
		for i := range day {
			day[i] = 20
		}
		return day
	},
	// A dump of two hours that begins within ten minutes after one, and changes by people.
	"nightly dump": func(random *rand.Rand, _ int) (day [24 * 60]int64) {
		begins := 60 + random.IntN(10)
		for i := range day {
			day[i] = int64(random.IntN(5))
			if i >= begins && i < begins+120 {
				day[i] = 500
			}
		}
		return day
	},
	"day and night": func(random *rand.Rand, _ int) (day [24 * 60]int64) {
		for i := range day {
			day[i] = int64(50 * (1 - math.Cos(float64(i)/(12*60)*math.Pi)) * (0.5 + random.Float64()))
		}
		return day
	},
	"office hours": func(random *rand.Rand, weekday int) (day [24 * 60]int64) {
		for i := range day {
			day[i] = int64(random.IntN(3))
			if i >= 9*60 && i < 17*60+30 && weekday < 5 {
				day[i] = int64(50 + random.IntN(50))
			}
		}
		return day
	},
	// Shoppers at noon and in the evening, on some days three times as many as on others.
	"two peaks": func(random *rand.Rand, _ int) (day [24 * 60]int64) {
		busy := 1 + 2*random.Float64()
		for i := range day {
			hour := float64(i) / 60
			load := 2.0
			if off := hour - 12; off > -1.5 && off < 1.5 {
				load = 40
			}
			if off := hour - 20; off > -2 && off < 2 {
				load = 90
			}
			day[i] = int64(busy * load * (0.5 + random.Float64()))
		}
		return day
	},
}

const day = 24 * 60

// staleness sends what waits as soon as it may, from the eighth day on, and reports for
// how many hours rows waited.
func staleness(plan slots.Plan, came []int64, learn bool) (rowHours float64) {
	begin := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	var used []time.Time
	waiting, noSlot := int64(0), 0
	for i, n := range came {
		if learn && i%day == 0 && i >= 7*day {
			var days [][slots.Quarters]int64
			for d := i - 7*day; d < i; d += day {
				var quarters [slots.Quarters]int64
				for m, n := range came[d : d+day] {
					quarters[m/15] += n
				}
				days = append(days, quarters)
			}
			plan.Expected = slots.Expect(days)
		}
		waiting += n
		if i >= 7*day {
			rowHours += float64(waiting) / 60
		}
		now := begin.Add(time.Duration(i+1) * time.Minute)
		if waiting == 0 || i < noSlot {
			continue
		}
		wait := plan.Wait(now, used[max(0, len(used)-50):], false)
		noSlot = i + int(wait/time.Minute)
		if wait == 0 {
			used, waiting = append(used, now), 0
		}
	}
	return rowHours
}

// oracle is the least that can be had by who knows all that comes, with borders of five minutes.
func oracle(perDay int, came []int64) float64 {
	const cell = 5
	came = came[7*day:]
	cells, inDay := len(came)/cell, day/cell
	rows, moments := make([]float64, cells+1), make([]float64, cells+1)
	for i := range cells {
		rows[i+1], moments[i+1] = rows[i], moments[i]
		for m, n := range came[i*cell : (i+1)*cell] {
			rows[i+1] += float64(n)
			moments[i+1] += float64(n) * (float64(i*cell+m) + 0.5)
		}
	}
	wait := func(from, to int) float64 {
		return ((rows[to]-rows[from])*float64(to*cell) - (moments[to] - moments[from])) / 60
	}
	// least[i][n] is of what comes from border i on, where an import goes, with n more on that day.
	least := make([][]float64, cells+1)
	least[cells] = make([]float64, perDay+1)
	for i := cells - 1; i >= 0; i-- {
		least[i] = make([]float64, perDay+1)
		for n := range least[i] {
			least[i][n] = wait(i, cells)
			for j := i + 1; j <= min(cells, i+inDay); j++ {
				then := n - 1
				if j/inDay > i/inDay {
					then = perDay - 1
				}
				if then >= 0 {
					least[i][n] = min(least[i][n], wait(i, j)+least[j][then])
				}
			}
		}
	}
	return least[0][perDay-1]
}

func TestSlotsGoWhereRowsAreExpected(t *testing.T) {
	for name, curve := range curves {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			var came []int64
			for d := range 37 {
				minutes := curve(random, d%7)
				came = append(came, minutes[:]...)
			}
			plan := slots.Plan{PerDay: 12, Zone: time.UTC, Every: time.Minute}
			best, even, learnt := oracle(12, came), staleness(plan, came, false), staleness(plan, came, true)
			t.Logf("measured: row-hours of 30 days with 12 imports a day to an oracle's, %s | %.2f, %.2f evenly, of %.0f a day | ≤ 1.15", name, learnt/best, even/best, best/30)
			if learnt > 1.15*best {
				t.Errorf("got %.2f of the oracle's row-hours, want at most 1.15", learnt/best)
			}
			if name == steady && learnt > 1.01*even || name != steady && learnt >= even {
				t.Errorf("got %.2f of an even spread's row-hours, want less, or as much where rows come steadily", learnt/even)
			}
		})
	}
}

// TestImportsOfDaysToComeDecideNothing is after a clock was set back by days.
func TestImportsOfDaysToComeDecideNothing(t *testing.T) {
	now := time.Date(2026, 5, 5, 12, 0, 0, 0, time.UTC)
	for _, expected := range expectations() {
		plan := slots.Plan{PerDay: 3, Zone: time.UTC, Every: time.Hour, Expected: expected}
		for _, used := range []time.Time{now.Add(30 * time.Hour), now.Add(13 * time.Hour)} {
			if got := plan.Wait(now, []time.Time{used}, false); got != 0 {
				t.Errorf("an import at %v: got a wait of %v, want none", used, got)
			}
		}
		if got := plan.Wait(now, []time.Time{now.Add(6 * time.Hour)}, false); got < 0 || got > 12*time.Hour {
			t.Errorf("an import of tonight: got a wait of %v, want one that ends today", got)
		}
	}
}
