package main

import "testing"

func TestTicksAreOfAllProcessors(t *testing.T) {
	for name, c := range map[string]struct {
		stat string
		want ticks
	}{
		"with guests, which count once": {"cpu  10 20 30 400 5 6 7 80 9 2\ncpu0 1 1 1 1 1 1 1 1 0 0\n", ticks{all: 558, stolen: 80}},
		"without guests":                {"cpu 1 1 1 1 1 1 1 2", ticks{all: 9, stolen: 2}},
		"too old to tell":               {"cpu 1 1 1 1 1 1 1\n", ticks{}},
		"another line first":            {"cpu0 1 1 1 1 1 1 1 1\n", ticks{}},
		"no number":                     {"cpu 1 1 1 1 1 1 1 x\n", ticks{}},
		"nothing":                       {"", ticks{}},
	} {
		if got := parseTicks(c.stat); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func TestWhatTheHostTookIsOfTheTimeBetween(t *testing.T) {
	for name, c := range map[string]struct {
		before, now ticks
		want        string
	}{
		"a part":                {ticks{1000, 500}, ticks{1200, 525}, ", host took 12 % of the processors"},
		"nothing":               {ticks{1000, 500}, ticks{1200, 500}, ", host took 0 % of the processors"},
		"no time":               {ticks{1000, 500}, ticks{1000, 500}, ""},
		"where nothing is told": {ticks{}, ticks{}, ""},
		"told only later":       {ticks{}, ticks{1200, 500}, ""},
	} {
		if got := hostTook(c.now.stolenSince(c.before)); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
