package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestResultsKeepTheOtherParts: a run writes what it measured and leaves the
// rest as it was.
func TestResultsKeepTheOtherParts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "RESULTS.md")
	save := func(name, got string) string {
		t.Helper()
		r := report{Machine: "a machine", Commit: "abc", Parts: []part{{Name: name, Findings: []finding{check(false, "it", "1", "%s", got)}, Stolen: 0.1}}}
		if err := r.save(path); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	save("growth", "old growth")
	save("soak", "a soak")
	text := save("growth", "new growth")
	for _, want := range []string{"## Growth\n\n| what | measured   | goal       |\n|---   |---         |---         |\n| it   | new growth | 1 (missed) |", "a machine, host took 10 % of the processors; commit abc.\n", "a soak", "commit abc", "# What was measured"} {
		if strings.Count(text, want) == 0 {
			t.Errorf("got\n%s\nwant %q in it", text, want)
		}
	}
	if strings.Contains(text, "old growth") || strings.Count(text, "## ") != 2 {
		t.Errorf("got\n%s\nwant each part once", text)
	}
	if again := save("growth", "new growth"); again != text {
		t.Errorf("got\n%s\nwant the same as before\n%s", again, text)
	}
}

func TestFlatnessIsOfTheLastThird(t *testing.T) {
	readings := func(resident func(i int) float64) (all []reading) {
		for i := range 30 {
			all = append(all, reading{answer{Resident: resident(i), Goroutines: 50, Files: 20, CPU: float64(i)}, time.Duration(i+1) * soakEvery, float64(i % 5 * 1e6)})
		}
		return all
	}
	for name, c := range map[string]struct {
		resident func(i int) float64
		met      bool
	}{
		"warming up":   {func(i int) float64 { return min(float64(i), 10) * 8e6 }, true},
		"up and down":  {func(i int) float64 { return 80e6 + float64(i%4)*10e6 }, true},
		"ever growing": {func(i int) float64 { return 50e6 + float64(i)*2e6 }, false},
	} {
		for i, f := range flatness(readings(c.resident)) {
			if want := c.met || i > 0; f.Met != want {
				t.Errorf("%s: %s: got met %v (%s), want %v", name, f.What, f.Met, f.Got, want)
			}
		}
	}
}

func TestServiceRemembersTheLastOfEachKey(t *testing.T) {
	r := &rows{points: map[string]int64{}}
	for _, write := range []struct {
		key    string
		number int64
	}{{"a", 0}, {"b", 1}, {"a", 4}, {"b", 3}, {"b", 2}} {
		e := &numberedEvent{}
		e.Attributes.CustomerNumber, e.Attributes.Points = write.key, write.number
		r.write(e)
	}
	if r.points["a"] != 4 || r.points["b"] != 2 || r.backwards != 1 {
		t.Errorf("got %v, %d backwards, want a 4, b 2, 1 backwards", r.points, r.backwards)
	}
	if len(r.answers) != 5 || r.answers[4].IsZero() {
		t.Errorf("got answers %v, want five moments", r.answers)
	}
}

// TestHotKeysAreHot: nine events of ten are of one key in a hundred.
func TestHotKeysAreHot(t *testing.T) {
	next, hotOnes := hot(10_000, 1000).next, 0
	for i := range 10_000 {
		if key, _ := next(i); bytes.Compare(key, customer(10)) < 0 {
			hotOnes++
		}
	}
	if hotOnes < 8800 || hotOnes > 9200 {
		t.Errorf("got %d of 10,000 events of the hot keys, want 9,000", hotOnes)
	}
}
