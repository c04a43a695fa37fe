package main

import (
	"cmp"
	"fmt"
	"slices"
)

// calm is the share of the processors' time that the host may take from a repetition
// that is not run again.
const calm = 0.05

// series is how often both sides of a line, and most scenarios, are run.
type series struct {
	count int          // of the repetitions that count
	most  int          // that are run for it
	ticks func() ticks // what the host took is read from
}

// repetitionsName is what counted stands behind in a scenario.
const repetitionsName = "repetitions that count"

func repetitions(quick bool) series {
	if quick {
		return series{1, 1, readTicks}
	}
	return series{3, 6, readTicks}
}

// counted says which repetitions count.
type counted struct {
	Count  int     `json:"count"`
	Of     int     `json:"of"`     // that were run
	Stolen float64 `json:"stolen"` // by the host, the largest share in one that counts
}

func (c counted) String() string {
	return fmt.Sprintf("%d of %d, host took ≤ %.0f %%", c.Count, c.Of, 100*c.Stolen)
}

// repeat runs repetitions until as many are calm as count, or the most were run. The
// calmest count, and are returned: what the host took decides, never what came out.
// Where the system does not tell, all are calm.
func repeat[T any](s series, once func(i int) (T, error)) (all []T, c counted, err error) {
	type run struct {
		came   T
		stolen float64
	}
	var runs []run
	for quiet := 0; quiet < s.count && len(runs) < s.most; {
		before := s.ticks()
		came, err := once(len(runs))
		if err != nil {
			return nil, c, fmt.Errorf("repetition %d: %w", len(runs)+1, err)
		}
		r := run{came: came}
		if stolen := s.ticks().stolenSince(before); stolen != nil {
			r.stolen = *stolen
		}
		if runs = append(runs, r); r.stolen <= calm {
			quiet++
		}
	}
	slices.SortStableFunc(runs, func(a, b run) int { return cmp.Compare(a.stolen, b.stolen) })
	c = counted{Count: s.count, Of: len(runs), Stolen: runs[s.count-1].stolen}
	for _, r := range runs[:s.count] {
		all = append(all, r.came)
	}
	return all, c, nil
}

// alternate runs both sides of a repetition, one after the other: the floor first, and
// in every second repetition the sink.
func alternate(i int, floor, sink func() error) error {
	sides := []struct {
		name string
		run  func() error
	}{{"floor", floor}, {"sink", sink}}
	for j := range sides {
		s := &sides[(i+j)%2]
		if err := s.run(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// spread is a figure of every repetition, at least of one.
type spread []float64

// over takes a figure from each repetition.
func over[T any](all []T, figure func(T) float64) (s spread) {
	for _, one := range all {
		s = append(s, figure(one))
	}
	return s
}

func (s spread) median() float64 { return median(s) }

// text is the median, with the lowest and the highest behind it if there was more
// than one: "14.1 ms (12.9–20.6)".
func (s spread) text(digits int, unit string) string {
	text := fmt.Sprintf("%.*f%s", digits, s.median(), unit)
	if len(s) > 1 {
		text += fmt.Sprintf(" (%.*f–%.*f)", digits, slices.Min(s), digits, slices.Max(s))
	}
	return text
}
