package main

import (
	"strings"
	"testing"
	"time"
)

func TestEveryEventsDelayIsMeasuredOnBothSides(t *testing.T) {
	b := newBench(t)
	for side, floor := range map[string]bool{"sink": false, "floor": true} {
		var d delays
		if err := guard(func() {
			d = b.delays(t.Context(), "delays-"+side, floor, 1000, 50, 200)
		}); err != nil {
			t.Fatalf("%s: %v", side, err)
		}
		if least := float64(latencyService.Milliseconds()); d.p50 < least || d.p99 < d.p50 || d.longest < d.p99 {
			t.Errorf("%s: got %+v, want at least the service's %v ms and each no less than the one before", side, d, least)
		}
	}
}

func TestDelaysAreFromProduceToAnswer(t *testing.T) {
	began := time.Unix(1000, 0)
	var sent, answers []time.Time
	for i := range 101 { // the later an event, the sooner its answer: 100 ms, 99 ms, … 0 ms
		sent = append(sent, began.Add(time.Duration(i)*time.Second))
		answers = append(answers, sent[i].Add(time.Duration(100-i)*time.Millisecond))
	}
	if got, err := newDelays(sent, answers); err != nil || got != (delays{50, 99, 100}) {
		t.Errorf("got %+v, %v, want 50, 99 and 100 ms", got, err)
	}
	for name, missing := range map[string][]time.Time{
		"at the end": answers[:100],
		"within":     append([]time.Time{{}}, answers[1:]...),
	} {
		if _, err := newDelays(sent, missing); err == nil || !strings.Contains(err.Error(), "100 of 101") {
			t.Errorf("an answer is missing %s: got %v, want it said", name, err)
		}
	}
}

func TestLatencyIsMediansOfThePairs(t *testing.T) {
	pairs := []pair[delays]{
		{sink: delays{7, 12.9, 40}, floor: delays{6, 12.9, 30}},
		{sink: delays{8, 20.6, 50}, floor: delays{6, 10.3, 30}},
		{sink: delays{6, 15.1, 60}, floor: delays{5, 10, 30}},
	}
	want := []string{"7.0 ms (6.0–8.0)", "15.1 ms (12.9–20.6)", "50.0 ms (40.0–60.0)", "6.0 ms (5.0–6.0)", "10.3 ms (10.0–12.9)", "1.51 (1.00–2.00)"}
	for i, f := range latencyFindings(pairs) {
		if missed := i == 1; f.Got != want[i] || f.Met == missed {
			t.Errorf("%s: got %s, met %v, want %s, %v", f.What, f.Got, f.Met, want[i], !missed)
		}
	}
}

// TestSlowDownIsJudgedWithinARun has a machine that gets slower and slower: the
// share stays.
func TestSlowDownIsJudgedWithinARun(t *testing.T) {
	var pairs []pair[[]flow]
	for _, speed := range []float64{5000, 4000, 1000} {
		pairs = append(pairs, pair[[]flow]{
			floor: []flow{{speed, 30}, {64, 32}, {speed, 30}},
			sink:  []flow{{0.95 * speed, 29}, {64, 32}, {0.8 * speed, 28}},
		})
	}
	want := []string{
		"0.95 (0.95–0.95), 3800 of 4000", "29.0 (29.0–29.0), 30.0 (30.0–30.0)",
		"1.00 (1.00–1.00), 64 of 64", "32.0 (32.0–32.0), 32.0 (32.0–32.0)",
		"0.80 (0.80–0.80), 3200 of 4000", "28.0 (28.0–28.0), 30.0 (30.0–30.0)",
	}
	for i, f := range slowDownFindings(pairs) {
		if missed := i == 4; f.Got != want[i] || f.Met == missed {
			t.Errorf("%s: got %s, met %v, want %s, %v", f.What, f.Got, f.Met, want[i], !missed)
		}
	}
}

func TestSlowDownsEventsLast(t *testing.T) {
	const before = 10 * time.Second // from the first call to the first phase, with room
	if calls := slowDownCalls * int64((2*(settle+observe)+before)/fast); calls > slowDownEvents {
		t.Errorf("the fast phases may make %d calls of %d events", calls, slowDownEvents)
	}
}

func TestHotKeysMustBeRightEveryTime(t *testing.T) {
	runs := []hotRun{
		{share: 0.08, rate: 50_000, keys: 100},
		{share: 0.3, rate: 70_000, keys: 100, wrong: 1},
		{share: 0.09, rate: 60_000, keys: 100, backwards: 2},
	}
	disturbed := hotRun{share: 0.9, rate: 10_000, keys: 100, wrong: 3, backwards: 1}
	want := []string{"0.090 (0.080–0.300)", "4 of 400", "3", "60000 (50000–70000)"}
	for i, f := range hotFindings(runs, append(runs, disturbed)) {
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
