package verify

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestBoundIsClopperPearsons(t *testing.T) {
	for _, c := range []struct {
		different, compared int64
		want                float64 // one-sided, summed up term by term
	}{
		{0, 0, 1},
		{0, 1, 0.95},
		{0, 10, 0.258866},
		{1, 10, 0.394163},
		{3, 10, 0.606624},
		{10, 10, 1},
		{0, 3000, 0.00099808},
		{5, 100, 0.102253},
	} {
		if got := AtMost(c.different, c.compared); math.Abs(got/c.want-1) > 1e-4 {
			t.Errorf("%d of %d: got at most %.6f, want %.6f", c.different, c.compared, got, c.want)
		}
	}
	if got, rule := AtMost(0, 1e9), 3e-9; math.Abs(got/rule-1) > 0.01 {
		t.Errorf("none of a billion: got %g, want the rule of three, %g", got, rule)
	}
	if got := AtMost(1e6, 1e7); got < 0.1 || got > 0.1003 {
		t.Errorf("a million of ten: got %g, want hardly more than a tenth", got)
	}
}

// A bound of 95 % is wrong once in twenty times, at most.
func TestBoundHoldsNineteenTimesOfTwenty(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, share := range []float64{0.001, 0.01, 0.1} {
		const runs, compared = 500, 1000
		wrong := 0
		for range runs {
			different := int64(0)
			for range compared {
				if rnd.Float64() < share {
					different++
				}
			}
			if AtMost(different, compared) < share {
				wrong++
			}
		}
		if most := runs*doubt + 4*math.Sqrt(runs*doubt*(1-doubt)); float64(wrong) > most {
			t.Errorf("a share of %g: the bound was below it %d of %d times", share, wrong, runs)
		}
	}
}
