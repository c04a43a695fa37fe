package verify

import "math"

// doubt is how often a bound may be wrong: it holds with a confidence of 95 %.
const doubt = 0.05

// AtMost is the share of all keys that differs at most, with a confidence of 95 %, where
// different of a random sample of compared keys do: the exact binomial (Clopper-Pearson) upper
// bound, from 0 to 1. It is 1 where nothing was compared; 3/compared, about, where none differs.
func AtMost(different, compared int64) float64 {
	if different >= compared {
		return 1
	}
	low, high := float64(different)/float64(compared), 1.0
	for range 60 {
		if middle := (low + high) / 2; noMore(different, compared, middle) > doubt {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// noMore is how likely no more than k of n differ, where the share p of all does. p is at
// least k/n, so that the probabilities of fewer fall quickly.
func noMore(k, n int64, p float64) float64 {
	if p >= 1 {
		return 0
	}
	logGamma := func(x int64) float64 {
		l, _ := math.Lgamma(float64(x) + 1)
		return l
	}
	exactly := math.Exp(logGamma(n) - logGamma(k) - logGamma(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
	sum := 0.0
	for i := k; i >= 0 && exactly > sum*1e-16; i-- {
		sum += exactly
		exactly *= float64(i) / float64(n-i+1) * (1 - p) / p
	}
	return sum
}
