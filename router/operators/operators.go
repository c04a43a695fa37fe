// Package operators holds the operators and functions of conditions and expressions
// that do another thing than the expr library's: where something is missing, where
// a number has more digits than can be computed with, where a text has characters of several
// bytes, and where the library asks for the machine's time zone.
//
// It knows plain Go values. It knows nothing of records, mappings and texts of
// expressions.
package operators

import (
	"maps"
	"reflect"
	"time"

	"github.com/expr-lang/expr/vm/runtime"
)

// Function is how the library calls an operator or a function. An error makes the
// expression one that cannot be computed.
type Function = func(operands ...any) (any, error)

// Member is the name of access to a member, which is no operator in the language.
const Member = "."

// OfConditions replace the library's, which take nil for equal to nil and panic on
// what does not compare: here nil compares to nothing, and neither do values of
// different types. Only the literal nil asks whether something is there: `x == nil`,
// `x != nil`. Nor can a test be made with a sum that 64 bits cannot hold.
var OfConditions = with(texts, map[string]Function{
	"date": date,
	"==":   func(v ...any) (any, error) { return alike(v[0], v[1]) && runtime.Equal(v[0], v[1]), nil },
	"!=":   func(v ...any) (any, error) { return alike(v[0], v[1]) && !runtime.Equal(v[0], v[1]), nil },
	"<":    func(v ...any) (any, error) { return ordered(v[0], v[1]) && runtime.Less(v[0], v[1]), nil },
	"<=":   func(v ...any) (any, error) { return ordered(v[0], v[1]) && runtime.LessOrEqual(v[0], v[1]), nil },
	">":    func(v ...any) (any, error) { return ordered(v[0], v[1]) && runtime.More(v[0], v[1]), nil },
	">=":   func(v ...any) (any, error) { return ordered(v[0], v[1]) && runtime.MoreOrEqual(v[0], v[1]), nil },
	"in":   func(v ...any) (any, error) { return within(v[0], v[1]), nil },
	"+":    whole(add, binary(runtime.Add)),
	"-":    whole(subtract, binary(runtime.Subtract)),
	"*":    whole(multiply, binary(runtime.Multiply)),
	Member: func(v ...any) (any, error) { return member(v[0], v[1]), nil },
})

// OfExpressions are those and the ones that compute: what they come to is written, so
// that it must not be a number which only comes close.
var OfExpressions = with(OfConditions, computing)

func with(some, more map[string]Function) map[string]Function {
	all := maps.Clone(some)
	maps.Copy(all, more)
	return all
}

// alike reports whether a and b are of one type, all numbers being one.
func alike(a, b any) bool {
	x, y := typeClass(a), typeClass(b)
	return x == y && x != reflect.Invalid
}

// ordered is alike for the types that have an order.
func ordered(a, b any) bool {
	if !alike(a, b) {
		return false
	}
	switch a.(type) {
	case time.Time, time.Duration, string:
		return true
	}
	return typeClass(a) == reflect.Float64
}

// typeClass is the kind of v, one for all numbers; Invalid for nil.
func typeClass(v any) reflect.Kind {
	value := reflect.ValueOf(v)
	switch {
	case value.CanInt(), value.CanUint(), value.CanFloat():
		if _, ok := v.(time.Duration); ok {
			return reflect.Int64
		}
		return reflect.Float64
	case value.Kind() == reflect.Array:
		return reflect.Slice
	}
	return value.Kind()
}

// within is the operator `in`: an element of a list, or a member's name.
func within(a, b any) bool {
	list := reflect.ValueOf(b)
	switch list.Kind() {
	case reflect.Slice, reflect.Array:
		for i := range list.Len() {
			if v := list.Index(i).Interface(); alike(a, v) && runtime.Equal(a, v) {
				return true
			}
		}
	case reflect.Map:
		name, ok := a.(string)
		return ok && list.Type().Key().Kind() == reflect.String && list.MapIndex(reflect.ValueOf(name)).IsValid()
	}
	return false
}

// member is access by name or index to whatever a is: nil where there is none.
func member(a, b any) any {
	switch a := a.(type) {
	case map[string]any:
		if name, ok := b.(string); ok {
			return a[name]
		}
	case string:
		if i, ok := b.(int); ok {
			return character(a, i)
		}
	case []any:
		if i, ok := b.(int); ok {
			if i < 0 {
				i += len(a)
			}
			if i >= 0 && i < len(a) {
				return a[i]
			}
		}
	}
	return nil
}
