package operators

import (
	"errors"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/vm/runtime"

	"github.com/feedsink/feedsink/router/values"
	"github.com/feedsink/feedsink/schemas"
)

// ErrDigits is the error of operands, or of a result, with more digits than can be
// computed with.
var ErrDigits = errors.New(values.RuleDigits)

// Negation is the name of the sign: the operator `-` with one operand.
const Negation = "-x"

// computing are the operators and functions that make numbers. Whole numbers are computed
// with as 64-bit integers, and must stay within them; what is not whole is a float64, and
// so is what a whole number is divided by or joined with then.
var computing = map[string]Function{
	"+":        whole(add, exactly(binary(runtime.Add))),
	"-":        whole(subtract, exactly(binary(runtime.Subtract))),
	"*":        whole(multiply, exactly(binary(runtime.Multiply))),
	"/":        exactly(func(v ...any) (any, error) { return runtime.Divide(v[0], v[1]), nil }),
	"**":       exactly(power),
	"^":        exactly(power),
	Negation:   negated(runtime.Negate),
	"abs":      negated(builtin.Abs),
	"int":      toInt,
	"float":    toFloat,
	"ceil":     exactly(library("ceil")),
	"floor":    exactly(library("floor")),
	"round":    exactly(library("round")),
	"mean":     exactly(library("mean")),
	"median":   exactly(library("median")),
	"fromJSON": fromJSON,
}

// whole computes two whole numbers by of, which is false for what 64 bits cannot hold, and
// everything else by otherwise.
func whole(of func(a, b int) (int, bool), otherwise Function) Function {
	return func(v ...any) (any, error) {
		a, ok := v[0].(int)
		b, both := v[1].(int)
		if !ok || !both {
			return otherwise(v...)
		}
		n, fits := of(a, b)
		if !fits {
			return nil, ErrDigits
		}
		return n, nil
	}
}

func binary(f func(a, b any) any) Function {
	return func(v ...any) (any, error) { return f(v[0], v[1]), nil }
}

func add(a, b int) (int, bool) { return a + b, (a+b > a) == (b > 0) }

func subtract(a, b int) (int, bool) { return a - b, (a-b < a) == (b > 0) }

func multiply(a, b int) (int, bool) {
	high, low := bits.Mul64(magnitude(a), magnitude(b))
	limit := uint64(math.MaxInt64)
	if (a < 0) != (b < 0) {
		limit++
	}
	return a * b, high == 0 && low <= limit
}

func magnitude(n int) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// negated is by for all but the number whose opposite 64 bits cannot hold.
func negated(by func(any) any) Function {
	return func(v ...any) (any, error) {
		if v[0] == math.MinInt {
			return nil, ErrDigits
		}
		return by(v[0]), nil
	}
}

func power(v ...any) (any, error) { return runtime.Exponent(v[0], v[1]), nil }

// library is a function of the library's.
func library(name string) Function {
	f := builtin.Builtins[builtin.Index[name]]
	if f.Func != nil {
		return f.Func
	}
	return func(v ...any) (any, error) { return f.Fast(v[0]), nil }
}

// exactly is f for operands that are the same as float64.
func exactly(f Function) Function {
	return func(operands ...any) (any, error) {
		if !exact(operands) {
			return nil, ErrDigits
		}
		return f(operands...)
	}
}

// exact reports whether the whole numbers in v lose no digit as float64.
func exact(v any) bool {
	switch v := v.(type) {
	case int:
		return values.FitsFloat(strconv.Itoa(v))
	case []int:
		return !slices.ContainsFunc(v, func(n int) bool { return !exact(n) })
	case []any:
		return !slices.ContainsFunc(v, func(item any) bool { return !exact(item) })
	}
	return true
}

// toInt cuts what is not whole.
func toInt(v ...any) (any, error) {
	f, ok := v[0].(float64)
	switch {
	case !ok:
		return builtin.Int(v[0]), nil
	case !(f >= math.MinInt64 && f < math.MaxInt64), !values.Exact(f): // nor is NaN between them
		return nil, ErrDigits
	}
	return int(f), nil
}

// toFloat reads texts, too.
func toFloat(v ...any) (any, error) {
	text, ok := v[0].(string)
	if ok && !values.FitsFloat(text) || !exact(v[0]) {
		return nil, ErrDigits
	}
	return builtin.Float(v[0]), nil
}

// fromJSON reads a text as the values of records are read.
func fromJSON(v ...any) (any, error) {
	text, ok := v[0].(string)
	if !ok {
		return nil, errors.New("fromJSON: no text")
	}
	read, err := schemas.NewJSON().Decode([]byte(text))
	switch {
	case err != nil:
		return nil, err
	case !Computable(read):
		return nil, ErrDigits
	}
	return read.Any(), nil
}

// Computable reports whether the numbers in v lose no digit in an expression.
func Computable(v schemas.Value) bool {
	switch v.Kind() {
	case schemas.Number:
		return values.Computable(v.Text())
	case schemas.List, schemas.Object:
		return !slices.ContainsFunc(v.Items(), func(item schemas.Field) bool { return !Computable(item.Value) })
	}
	return true
}
