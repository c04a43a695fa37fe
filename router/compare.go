package router

import (
	"reflect"
	"strings"
	"time"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm/runtime"
)

// comparisons replace the library's operators, which take nil for equal to nil
// and panic on what does not compare: here nil compares to nothing, and neither
// do values of different types. Only the literal nil asks whether something is
// there: `x == nil`, `x != nil`.
var comparisons = map[string]func(...any) (any, error){
	"equal":        func(v ...any) (any, error) { return alike(v[0], v[1]) && runtime.Equal(v[0], v[1]), nil },
	"notEqual":     func(v ...any) (any, error) { return alike(v[0], v[1]) && !runtime.Equal(v[0], v[1]), nil },
	"less":         func(v ...any) (any, error) { return ordered(v[0], v[1]) && runtime.Less(v[0], v[1]), nil },
	"lessEqual":    func(v ...any) (any, error) { return ordered(v[0], v[1]) && runtime.LessOrEqual(v[0], v[1]), nil },
	"greater":      func(v ...any) (any, error) { return ordered(v[0], v[1]) && runtime.More(v[0], v[1]), nil },
	"greaterEqual": func(v ...any) (any, error) { return ordered(v[0], v[1]) && runtime.MoreOrEqual(v[0], v[1]), nil },
	"within":       func(v ...any) (any, error) { return within(v[0], v[1]), nil },
	"member":       func(v ...any) (any, error) { return member(v[0], v[1]), nil },
}

var operators = map[string]string{
	"==": "equal", "!=": "notEqual", "<": "less", "<=": "lessEqual", ">": "greater", ">=": "greaterEqual",
	"in": "within",
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

func typeClass(v any) reflect.Kind {
	switch kind := kindOf(v); kind {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32:
		if _, ok := v.(time.Duration); ok {
			return reflect.Int64
		}
		return reflect.Float64
	case reflect.Array:
		return reflect.Slice
	default:
		return kind
	}
}

// kindOf is the reflect kind of v, Invalid for nil.
func kindOf(v any) reflect.Kind {
	if v == nil {
		return reflect.Invalid
	}
	return reflect.TypeOf(v).Kind()
}

// within is the operator `in`: an element of a list, or a member's name.
func within(a, b any) bool {
	list := reflect.ValueOf(b)
	switch kindOf(b) {
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

// rewriter puts the comparisons in the place of the operators, and one variable
// in the place of each path of constant names, so that a test loads what it
// reads and no objects are built around it.
type rewriter struct {
	texts bool // the function string makes texts to be written
}

// functionText is the function that string becomes then.
const functionText = "textOf"

// Visit implements ast.Visitor; operands come before their operators.
func (r rewriter) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.BuiltinNode:
		if r.texts && n.Name == "string" {
			ast.Patch(node, call(functionText, n.Arguments...))
		}
	case *ast.IdentifierNode:
		if !strings.HasPrefix(n.Value, pathMark) {
			ast.Patch(node, &ast.IdentifierNode{Value: pathMark + n.Value})
		}
	case *ast.MemberNode:
		name, constant := n.Property.(*ast.StringNode)
		if object, ok := n.Node.(*ast.IdentifierNode); ok && constant && !strings.Contains(name.Value, pathMark) {
			ast.Patch(node, &ast.IdentifierNode{Value: object.Value + pathMark + name.Value})
			return
		}
		ast.Patch(node, call("member", n.Node, n.Property))
	case *ast.BinaryNode:
		function, ok := operators[n.Operator]
		_, leftNil := n.Left.(*ast.NilNode)
		_, rightNil := n.Right.(*ast.NilNode)
		if ok && !leftNil && !rightNil {
			ast.Patch(node, call(function, n.Left, n.Right))
		}
	}
}

func call(function string, arguments ...ast.Node) ast.Node {
	return &ast.CallNode{Callee: &ast.IdentifierNode{Value: function}, Arguments: arguments}
}
