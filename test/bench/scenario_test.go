package main

import (
	"testing"
	"time"
)

// TestSlowDownIsJudgedWithinARun has a machine that gets slower and slower: the
// share stays.
func TestSlowDownIsJudgedWithinARun(t *testing.T) {
	var runs [][]phase
	for _, speed := range []float64{5000, 4000, 1000} {
		runs = append(runs, []phase{{0.95 * speed, speed}, {64, 64}, {0.8 * speed, speed}})
	}
	want := []string{"0.95 (0.95–0.95), 3800 of 4000", "1.00 (1.00–1.00), 64 of 64", "0.80 (0.80–0.80), 3200 of 4000"}
	for i, f := range slowDownFindings(runs) {
		if missed := i == 2; f.Got != want[i] || f.Met == missed {
			t.Errorf("%s: got %s, met %v, want %s, %v", f.What, f.Got, f.Met, want[i], !missed)
		}
	}
}

func TestSlowDownsEventsLast(t *testing.T) {
	const before = 10 * time.Second // from the first call to the first phase, with room
	if calls := most * int64((2*(settle+measure)+before)/fast); calls > slowDownEvents {
		t.Errorf("the fast phases may make %d calls of %d events", calls, slowDownEvents)
	}
}

func TestHotKeysMustBeRightEveryTime(t *testing.T) {
	runs := []hotRun{
		{share: 0.1, rate: 50_000, keys: 100},
		{share: 0.3, rate: 70_000, keys: 100, wrong: 1},
		{share: 0.12, rate: 60_000, keys: 100, backwards: 2},
	}
	want := []string{"0.120 (0.100–0.300)", "1 of 300", "2", "60000 (50000–70000)"}
	for i, f := range hotFindings(runs) {
		if missed := i == 1 || i == 2; f.Got != want[i] || f.Met == missed {
			t.Errorf("%s: got %s, met %v, want %s, %v", f.What, f.Got, f.Met, want[i], !missed)
		}
	}
}

func TestKeyIsWrongIfItIsMissingOldOrUnheardOf(t *testing.T) {
	want := map[string]int64{"a": 0, "b": 1, "c": 2}
	if got := wrongKeys(map[string]int64{"b": 0, "c": 2, "d": 3}, want); got != 3 {
		t.Errorf("got %d, want 3: a is missing, b old, d unheard of", got)
	}
	if got := wrongKeys(want, want); got != 0 {
		t.Errorf("got %d of what is right, want 0", got)
	}
}
