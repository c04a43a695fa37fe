package main

import (
	"fmt"
	"slices"
)

// repetitions is how often both sides of a line, and most scenarios, are run.
func repetitions(quick bool) int {
	if quick {
		return 1
	}
	return 3
}

// repeat returns what each repetition of a scenario came to.
func repeat[T any](n int, once func(i int) (T, error)) (all []T, err error) {
	for i := range n {
		one, err := once(i)
		if err != nil {
			return nil, fmt.Errorf("repetition %d: %w", i+1, err)
		}
		all = append(all, one)
	}
	return all, nil
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
