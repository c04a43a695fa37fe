package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

func TestRepetitionThatFailsIsNamed(t *testing.T) {
	broken := errors.New("broken")
	_, _, err := repeat(repetitions(false), func(i int) (int, error) {
		if i == 1 {
			return 0, broken
		}
		return i, nil
	})
	if !errors.Is(err, broken) || err.Error() != "repetition 2: broken" {
		t.Errorf("got %v, want repetition 2: broken", err)
	}
}

// TestSidesAlternate: what the first leaves to the second is the floor's and the sink's
// in turn.
func TestSidesAlternate(t *testing.T) {
	var order []string
	side := func(name string, err error) func() error {
		return func() error {
			order = append(order, name)
			return err
		}
	}
	for i := range 3 {
		if err := alternate(i, side("floor", nil), side("sink", nil)); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"floor", "sink", "sink", "floor", "floor", "sink"}; !slices.Equal(order, want) {
		t.Errorf("order: got %q, want %q", order, want)
	}
	broken := errors.New("broken")
	if err := alternate(0, side("floor", nil), side("sink", broken)); !errors.Is(err, broken) || !strings.Contains(err.Error(), "sink") {
		t.Errorf("got %v, want broken, of the sink", err)
	}
}

// TestCalmRepetitionsCount: what the host disturbed is run again, but not for ever, and
// nothing but what it took decides.
func TestCalmRepetitionsCount(t *testing.T) {
	for what, c := range map[string]struct {
		stolen []int64 // percent, of each repetition
		want   []int   // repetitions
		counts string
	}{
		"calm":                    {[]int64{0, 5, 1}, []int{0, 1, 2}, "3 of 3, host took ≤ 5 %"},
		"one disturbed":           {[]int64{2, 30, 1, 3}, []int{0, 2, 3}, "3 of 4, host took ≤ 3 %"},
		"never calm":              {[]int64{50, 20, 40, 20, 30, 6}, []int{1, 3, 5}, "3 of 6, host took ≤ 20 %"},
		"calm ones at the end":    {[]int64{50, 20, 40, 0, 0, 0}, []int{3, 4, 5}, "3 of 6, host took ≤ 0 %"},
		"a system that is silent": {nil, []int{0, 1, 2}, "3 of 3, host took ≤ 0 %"},
	} {
		now := ticks{all: 1}
		s := repetitions(false)
		s.ticks = func() ticks { return now }
		got, counted, err := repeat(s, func(i int) (int, error) {
			if c.stolen != nil {
				now = ticks{now.all + 100, now.stolen + c.stolen[i]}
			}
			return i, nil
		})
		slices.Sort(got)
		if err != nil || !slices.Equal(got, c.want) || counted.String() != c.counts {
			t.Errorf("%s: got %v, %v, %v, want %v, %s", what, got, counted, err, c.want, c.counts)
		}
	}
}

// TestFooterIsTrue: medians are said only of what has them, and each section of
// the file says what the host took while it was measured.
func TestFooterIsTrue(t *testing.T) {
	whole, lines, own := 0.1, 0.2, 0.3
	r := report{
		Machine: "a machine", Commit: "abc", Stolen: &whole, LinesStolen: &lines, Lines: []result{{Name: "a line"}},
		Scenarios: []outcome{{Name: "hot keys", Repeated: true, Stolen: &own}, {Name: "growth"}},
	}
	path := filepath.Join(t.TempDir(), "RESULTS.md")
	if err := r.save(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []struct{ title, want string }{
		{"Beside the floor", "a machine, host took 20 % of the processors; commit abc; medians of three repetitions.\n"},
		{"Hot keys", "a machine, host took 30 % of the processors; commit abc; medians of three repetitions.\n"},
		{"Growth", "a machine; commit abc.\n"},
	} {
		for _, s := range sections(string(text)) {
			if s.title == part.title && !strings.HasSuffix(strings.TrimSpace(s.text)+"\n", part.want) {
				t.Errorf("got\n%s\nwant at the end of it %s", s.text, part.want)
			}
		}
	}
	for medians, scenarios := range map[bool][]outcome{true: r.Scenarios[:1], false: r.Scenarios} {
		var printed bytes.Buffer
		if err := (&report{Stolen: &whole, Scenarios: scenarios}).write(&printed, "text"); err != nil {
			t.Fatal(err)
		}
		if got := printed.String(); strings.Contains(got, "medians of three") != medians || !strings.Contains(got, "host took 10 % of the processors") {
			t.Errorf("got\n%s\nwant medians said: %v, and 10 %% of the processors", got, medians)
		}
	}
}
