package router

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"

	"github.com/feedsink/feedsink/schemas"
)

// expression computes a value from what a record holds, in the language of the
// conditions and as pure as they are.
type expression struct {
	program *vm.Program
	reads   []readPath
	works   sync.Pool // of *evaluation
}

const (
	ruleComputable = "cannot be computed: its operands do not fit"
	ruleDigits     = "must have at most 15 digits to be computed with"
	ruleResult     = "the expression must come to text, a number, true, false or a list of them"
)

// compileExpression compiles the text of an `expr`, which may name the members
// of the decoded value and what conditions know of the record.
func compileExpression(text string) (*expression, error) {
	program, err := compileWritten(text, environment(false))
	if err != nil {
		return nil, explainCondition(err, false)
	}
	e := &expression{}
	e.works.New = func() any { return &evaluation{env: make(map[string]any, len(e.reads))} }
	e.program, err = compilePart(&parser.Tree{Node: program.Node(), Source: program.Source()}, &e.reads, rewriter{texts: true})
	if err != nil {
		return nil, explainCondition(err, false)
	}
	return e, nil
}

// textOf is the function string for values that are written to tables: nothing
// has no text, and a number no exponent.
func textOf(arguments ...any) (any, error) {
	if len(arguments) != 1 {
		return nil, fmt.Errorf("string: %d arguments, want one", len(arguments))
	}
	v, rule := valueOf(arguments[0])
	if rule != "" || !present(v) || v.Kind() == schemas.List || v.Kind() == schemas.Object {
		return nil, fmt.Errorf("string: no text for a %T", arguments[0])
	}
	return v.Text(), nil
}

// value computes the expression. What comes to nil, or cannot be computed since
// something it reads is missing, is Absent; anything else that cannot be
// computed breaks a rule.
func (e *expression) value(look *subject) (v schemas.Value, rule string) {
	return e.valueWith(look, nil)
}

// valueWith computes with scalar, where it is not nil, in the place of whatever
// the expression reads of the value.
func (e *expression) valueWith(look *subject, scalar *schemas.Value) (v schemas.Value, rule string) {
	work := e.works.Get().(*evaluation)
	defer e.works.Put(work)
	missing := false
	for _, p := range e.reads {
		read := look.read(p.names)
		if scalar != nil && !p.ofRecord() {
			read = *scalar
		}
		if !computable(read) {
			return v, ruleDigits
		}
		operand := read.Any()
		if operand == nil && p.ofRecord() {
			operand = look.plain(p)
		}
		missing = missing || operand == nil
		work.env[p.variable] = operand
	}
	out, err := work.vm.Run(e.program, work.env)
	switch {
	case err == nil:
		return valueOf(out)
	case missing:
		return schemas.Value{}, ""
	}
	return v, ruleComputable
}

// significant is how many digits a float64 keeps of every decimal number.
const significant = 15

// computable reports whether the numbers in v lose no digit in an expression.
func computable(v schemas.Value) bool {
	switch v.Kind() {
	case schemas.Number:
		if _, err := strconv.Atoi(v.Text()); err == nil {
			return true
		}
		mantissa, _, _ := strings.Cut(strings.ToLower(v.Text()), "e")
		digits := strings.TrimLeft(strings.Replace(strings.TrimPrefix(mantissa, "-"), ".", "", 1), "0")
		return len(strings.TrimRight(digits, "0")) <= significant
	case schemas.List, schemas.Object:
		for _, item := range v.Items() {
			if !computable(item.Value) {
				return false
			}
		}
	}
	return true
}

// valueOf is the value of what an expression came to; nil is Absent.
func valueOf(result any) (v schemas.Value, rule string) {
	switch result := result.(type) {
	case nil:
		return schemas.Value{}, ""
	case string:
		if !utf8.ValidString(result) {
			return v, ruleUTF8
		}
		return schemas.StringValue(result), ""
	case bool:
		return schemas.BoolValue(result), ""
	case int:
		return number(int64(result)), ""
	case float64:
		return floatValue(result)
	case time.Time:
		return schemas.StringValue(result.Format(time.RFC3339Nano)), ""
	case []any:
		items := make([]schemas.Field, len(result))
		for i := range result {
			if items[i].Value, rule = valueOf(result[i]); rule != "" {
				return v, rule
			}
			if items[i].Value.Kind() == schemas.Absent {
				items[i].Value = schemas.NullValue()
			}
		}
		return schemas.ListValue(items), ""
	}
	return otherValue(reflect.ValueOf(result))
}

// otherValue knows the types that the language's functions return besides.
func otherValue(result reflect.Value) (schemas.Value, string) {
	switch {
	case result.Type() == reflect.TypeFor[time.Duration]():
	case result.CanInt():
		return number(result.Int()), ""
	case result.CanFloat():
		return floatValue(result.Float())
	case result.Kind() == reflect.Slice:
		items := make([]any, result.Len())
		for i := range items {
			items[i] = result.Index(i).Interface()
		}
		return valueOf(items)
	}
	return schemas.Value{}, ruleResult
}

func number(n int64) schemas.Value { return schemas.NumberValue(strconv.FormatInt(n, 10)) }

// floatValue rounds to the digits that a float64 keeps, so that 0.1 + 0.2 is 0.3.
func floatValue(f float64) (schemas.Value, string) {
	const exact = 1 << 53 // whole numbers up to here are what they are
	if f == math.Trunc(f) && math.Abs(f) <= exact {
		return number(int64(f)), ""
	}
	plain, ok := decimal(strconv.FormatFloat(f, 'e', significant-1, 64), 0)
	if !ok {
		return schemas.Value{}, ruleNumber
	}
	if strings.Contains(plain, ".") {
		plain = strings.TrimRight(strings.TrimRight(plain, "0"), ".")
	}
	return schemas.NumberValue(plain), ""
}
