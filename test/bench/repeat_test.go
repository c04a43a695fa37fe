package main

import (
	"slices"
	"testing"
)

func TestSpreadStandsBehindTheMedian(t *testing.T) {
	for _, c := range []struct {
		values spread
		digits int
		unit   string
		want   string
	}{
		{spread{20.61, 12.94, 14.1}, 1, " ms", "14.1 ms (12.9–20.6)"},
		{spread{0.093, 0.1, 0.09}, 2, "", "0.09 (0.09–0.10)"},
		{spread{7.04}, 1, " ms", "7.0 ms"},
	} {
		if got := c.values.text(c.digits, c.unit); got != c.want {
			t.Errorf("%v: got %q, want %q", c.values, got, c.want)
		}
	}
}

// TestSidesAlternate: what the first leaves to the second is the floor's and the sink's
// in turn.
func TestSidesAlternate(t *testing.T) {
	var order []string
	side := func(floor bool) string {
		name := map[bool]string{true: "floor", false: "sink"}[floor]
		order = append(order, name)
		return name
	}
	for i := range 3 {
		if p := alternate(&bench{}, i, side); p.floor != "floor" || p.sink != "sink" {
			t.Errorf("got %+v, want each side's own", p)
		}
	}
	if want := []string{"floor", "sink", "sink", "floor", "floor", "sink"}; !slices.Equal(order, want) {
		t.Errorf("order: got %q, want %q", order, want)
	}
}

// TestCalmRepetitionsCount: what the host disturbed is run again, but not indefinitely, and
// nothing but what it took decides.
func TestCalmRepetitionsCount(t *testing.T) {
	for what, c := range map[string]struct {
		stolen []float64 // percent, of each repetition
		want   []int     // repetitions
		counts string
	}{
		"calm":                    {[]float64{0, 5, 1}, []int{0, 1, 2}, "3 of 3, host took ≤ 5 %"},
		"one disturbed":           {[]float64{2, 30, 1, 3}, []int{0, 2, 3}, "3 of 4, host took ≤ 3 %"},
		"never calm":              {[]float64{50, 20, 40, 20, 30, 6}, []int{1, 3, 5}, "3 of 6, host took ≤ 20 %"},
		"calm ones at the end":    {[]float64{50, 20, 40, 0, 0, 0}, []int{3, 4, 5}, "3 of 6, host took ≤ 0 %"},
		"a system that is silent": {nil, []int{0, 1, 2}, "3 of 3, host took ≤ 0 %"},
	} {
		now := processors{all: 1}
		s := repetitions(false)
		s.read = func() processors { return now }
		got, counted := repeat(&bench{}, s, func(i int) int {
			if c.stolen != nil {
				now = processors{now.all + 100, now.stolen + c.stolen[i]}
			}
			return i
		})
		slices.Sort(got)
		if !slices.Equal(got, c.want) || counted.String() != c.counts {
			t.Errorf("%s: got %v, %v, want %v, %s", what, got, counted, c.want, c.counts)
		}
	}
}

// TestWhatTheHostTookIsOfTheTimeBetween: of a system that does not tell it is nothing.
func TestWhatTheHostTookIsOfTheTimeBetween(t *testing.T) {
	for name, c := range map[string]struct {
		before, now processors
		want        float64
	}{
		"a part":                {processors{1000, 500}, processors{1200, 525}, 0.125},
		"nothing":               {processors{1000, 500}, processors{1200, 500}, 0},
		"no time":               {processors{1000, 500}, processors{1000, 500}, 0},
		"where nothing is told": {processors{}, processors{}, 0},
	} {
		if got := c.now.stolenSince(c.before); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
