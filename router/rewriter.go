package router

import (
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/feedsink/feedsink/router/operators"
)

// rewriter calls operators in the place of the library's, and puts one variable
// in the place of each path of constant names, so that a test loads what it
// reads and no objects are built around it.
type rewriter struct{ operators map[string]operators.Function }

// Visit implements ast.Visitor; operands come before their operators.
func (r rewriter) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.BuiltinNode:
		if _, ok := r.operators[n.Name]; ok {
			ast.Patch(node, call(n.Name, n.Arguments...))
		} else if _, ok := r.operators["+"]; ok && n.Name == "sum" {
			ast.Patch(node, sum(n.Arguments))
		}
	case *ast.UnaryNode:
		if _, ok := r.operators[operators.Negation]; ok && n.Operator == "-" && !isNumber(n.Node) {
			ast.Patch(node, call(operators.Negation, n.Node))
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
		ast.Patch(node, call(operators.Member, n.Node, n.Property))
	case *ast.SliceNode:
		ast.Patch(node, call(operators.Slice, n.Node, orNil(n.From), orNil(n.To)))
	case *ast.BinaryNode:
		// What is joined with a literal text is a text.
		if _, ok := r.operators[n.Operator]; ok && comparedWithNil(n) == nil && (n.Operator != "+" || !isText(n.Left) && !isText(n.Right)) {
			ast.Patch(node, call(n.Operator, n.Left, n.Right))
		}
	}
}

// sum adds as the operator does.
func sum(arguments []ast.Node) ast.Node {
	list := arguments[0]
	if len(arguments) == 2 {
		list = &ast.BuiltinNode{Name: "map", Arguments: arguments}
	}
	both := &ast.PredicateNode{Node: call("+", &ast.PointerNode{Name: "acc"}, &ast.PointerNode{})}
	return &ast.BuiltinNode{Name: "reduce", Arguments: []ast.Node{list, both, &ast.IntegerNode{}}}
}

// orNil is a part of an expression that may be left out.
func orNil(node ast.Node) ast.Node {
	if node == nil {
		return &ast.NilNode{}
	}
	return node
}

func isText(node ast.Node) bool {
	_, is := node.(*ast.StringNode)
	return is
}

func isNumber(node ast.Node) bool {
	switch node.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		return true
	}
	return false
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
func pathCollector(into *[]readPath) ast.Visitor {
	return visit(func(node ast.Node) {
		n, ok := node.(*ast.IdentifierNode)
		if !ok || !strings.HasPrefix(n.Value, pathMark) {
			return
		}
		known := slices.ContainsFunc(*into, func(p readPath) bool { return p.variable == n.Value })
		if !known {
			*into = append(*into, readPath{n.Value, strings.Split(n.Value[len(pathMark):], pathMark)})
		}
	})
}

// visit is an ast.Visitor that looks and changes nothing.
type visit func(node ast.Node)

// Visit implements ast.Visitor.
func (v visit) Visit(node *ast.Node) { v(*node) }
