package operators_test

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/feedsink/feedsink/router/operators"
)

// TestWholeNumbersAreComputedAsWithoutLimits compares with arithmetic that has none.
func TestWholeNumbersAreComputedAsWithoutLimits(t *testing.T) {
	numbers := []int{0, 1, -1, 2, -2, math.MaxInt, math.MaxInt - 1, math.MinInt, math.MinInt + 1, math.MaxInt / 2, 1 << 31, -1 << 32, 3037000500}
	random := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		numbers = append(numbers, int(random.Uint64()>>random.IntN(64)))
	}
	for name, want := range map[string]func(into, a, b *big.Int) *big.Int{"+": (*big.Int).Add, "-": (*big.Int).Sub, "*": (*big.Int).Mul} {
		for _, a := range numbers {
			for _, b := range numbers {
				got, err := operators.OfExpressions[name](a, b)
				exact := want(new(big.Int), big.NewInt(int64(a)), big.NewInt(int64(b)))
				switch {
				case !exact.IsInt64() && !errors.Is(err, operators.ErrDigits):
					t.Errorf("%d %s %d: got %v, %v, want %v", a, name, b, got, err, operators.ErrDigits)
				case exact.IsInt64() && (err != nil || got != int(exact.Int64())):
					t.Errorf("%d %s %d: got %v, %v, want %v", a, name, b, got, err, exact)
				}
			}
		}
	}
}
