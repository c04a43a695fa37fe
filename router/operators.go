package router

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm/runtime"
)

// operators replace the library's, which take nil for equal to nil and panic on
// what does not compare: here nil compares to nothing, and neither do values of
// different types. Only the literal nil asks whether something is there: `x == nil`,
// `x != nil`.
var operators = map[string]func(...any) (any, error){
	"==":          func(v ...any) (any, error) { return alike(v[0], v[1]) && runtime.Equal(v[0], v[1]), nil },
	"!=":          func(v ...any) (any, error) { return alike(v[0], v[1]) && !runtime.Equal(v[0], v[1]), nil },
	"<":           func(v ...any) (any, error) { return ordered(v[0], v[1]) && runtime.Less(v[0], v[1]), nil },
	"<=":          func(v ...any) (any, error) { return ordered(v[0], v[1]) && runtime.LessOrEqual(v[0], v[1]), nil },
	">":           func(v ...any) (any, error) { return ordered(v[0], v[1]) && runtime.More(v[0], v[1]), nil },
	">=":          func(v ...any) (any, error) { return ordered(v[0], v[1]) && runtime.MoreOrEqual(v[0], v[1]), nil },
	"in":          func(v ...any) (any, error) { return within(v[0], v[1]), nil },
	memberAccess:  func(v ...any) (any, error) { return member(v[0], v[1]), nil },
	stringForRows: textOf,
}

// The names of what is no operator in the language: access to a member, and the
// function string where it makes text to be written.
const (
	memberAccess  = "."
	stringForRows = "string for rows"
)

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

// rewriter calls operators in the place of the library's, and puts one variable
// in the place of each path of constant names, so that a test loads what it
// reads and no objects are built around it.
type rewriter struct {
	texts bool // the function string makes texts to be written
}

// Visit implements ast.Visitor; operands come before their operators.
func (r rewriter) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.BuiltinNode:
		if r.texts && n.Name == "string" {
			ast.Patch(node, call(stringForRows, n.Arguments...))
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
		ast.Patch(node, call(memberAccess, n.Node, n.Property))
	case *ast.BinaryNode:
		_, ok := operators[n.Operator]
		_, leftNil := n.Left.(*ast.NilNode)
		_, rightNil := n.Right.(*ast.NilNode)
		if ok && !leftNil && !rightNil {
			ast.Patch(node, call(n.Operator, n.Left, n.Right))
		}
	}
}

func call(function string, arguments ...ast.Node) ast.Node {
	return &ast.CallNode{Callee: &ast.IdentifierNode{Value: function}, Arguments: arguments}
}

// pathMark separates the names of a path inside a variable's name. No text of
// a condition can hold it outside of a string.
const pathMark = "\x00"

// readPath is a place that conditions and expressions read, such as
// segments.tier, with the name of the variable that stands for it.
type readPath struct {
	variable string
	names    []string
}

// ofRecord reports whether the path leads to the record around the value.
func (p readPath) ofRecord() bool {
	_, ok := recordRoots[p.names[0]]
	return ok
}

// member is the member of the value that the path begins with, "" for the value as a whole.
func (p readPath) member() string {
	switch {
	case p.names[0] != rootValue:
		return p.names[0]
	case len(p.names) > 1:
		return p.names[1]
	}
	return ""
}

// pathCollector finds the variables that rewriter left in a test.
type pathCollector struct{ into *[]readPath }

// Visit implements ast.Visitor.
func (c *pathCollector) Visit(node *ast.Node) {
	n, ok := (*node).(*ast.IdentifierNode)
	if !ok || !strings.HasPrefix(n.Value, pathMark) {
		return
	}
	known := slices.ContainsFunc(*c.into, func(p readPath) bool { return p.variable == n.Value })
	if !known {
		*c.into = append(*c.into, readPath{n.Value, strings.Split(n.Value[len(pathMark):], pathMark)})
	}
}
