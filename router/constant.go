package router

import (
	"slices"
	"strconv"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"

	"github.com/feedsink/feedsink/router/problem"
	"github.com/feedsink/feedsink/schemas"
)

// comparedWithNil is what the literal nil is compared with; nil where it is not.
func comparedWithNil(n *ast.BinaryNode) ast.Node {
	if _, is := n.Left.(*ast.NilNode); is {
		return n.Right
	}
	if _, is := n.Right.(*ast.NilNode); is {
		return n.Left
	}
	return nil
}

func ordersNil(n *ast.BinaryNode) bool {
	return slices.Contains([]string{"<", "<=", ">", ">="}, n.Operator) && comparedWithNil(n) != nil
}

// refuseUseless reports a condition that comes to the same for every record, or that is true
// of none that what stands before it leaves, and whether it did.
func (b *mappingCompiler) refuseUseless(path string, f formula) bool {
	const together = "; tests joined by and must be able to be true together, and nothing but == nil and != nil is true of what is missing"
	ofMapping, canonical := path == "when", len(b.m.Fields) == 0
	never, always := !b.tests.possible(f, canonical), !b.tests.possible(f.not(), canonical)
	switch {
	case always && ofMapping:
		b.Report(path, "remove it", "is always true, so it decides nothing")
	case never && ofMapping:
		b.Report(path, "compare with what records hold"+together, "is always false, so no record would be the mapping's")
	case always:
		b.Report(path, "remove the condition and the routes after it", "is always true, so the routes after it can never match")
	case never:
		b.Report(path, "remove the route, or change the condition"+together, "is always false, so the route can never match")
	case !b.tests.possible(b.left.and(f), canonical):
		b.Report(path, "remove the route, or put it before the one that takes its records", "is false for all records that the mapping's when and the routes before it leave, so the route can never match")
	default:
		return false
	}
	return true
}

// opWords are the words of op, for hints.
var opWords = func() (words []string) {
	for _, op := range schemas.Ops {
		words = append(words, op.String())
	}
	return words
}()

const unknownOp = "no op"

func isOp(word string) bool {
	_, known := schemas.ParseOp(word)
	return known
}

// notAnOp is the error of what stands where an op's word does.
func notAnOp(what string, at ast.Node, source file.Source) error {
	return (&file.Error{Location: at.Location(), Message: what + " is " + unknownOp}).Bind(source)
}

// findUnknownOp finds the first text that a condition compares op with and that is no op.
func findUnknownOp(text string) error {
	tree, err := parser.Parse(text)
	if err != nil {
		return err
	}
	var found *ast.StringNode
	ast.Walk(&tree.Node, visit(func(node ast.Node) {
		n, ok := node.(*ast.BinaryNode)
		if !ok || !slices.Contains([]string{"==", "!=", "in"}, n.Operator) {
			return
		}
		for _, pair := range [][2]ast.Node{{n.Left, n.Right}, {n.Right, n.Left}} {
			if name, ok := pair[0].(*ast.IdentifierNode); !ok || name.Value != "op" {
				continue
			}
			texts := []ast.Node{pair[1]}
			if list, ok := pair[1].(*ast.ArrayNode); ok {
				texts = list.Nodes
			}
			for _, one := range texts {
				if text, ok := one.(*ast.StringNode); ok && found == nil && !isOp(text.Value) {
					found = text
				}
			}
		}
	}))
	if found == nil {
		return nil
	}
	return notAnOp(strconv.Quote(found.Value), found, tree.Source)
}

// misspeltOp finds in the expression of `op` what can never be an op: a text or a
// number that it may come to, nil alone, or a name that only looks like an op's word.
func (b *mappingCompiler) misspeltOp(text string) error {
	tree, err := parser.Parse(text)
	if err != nil {
		return err
	}
	switch n := tree.Node.(type) {
	case *ast.NilNode:
		return notAnOp("nil", n, tree.Source)
	case *ast.IdentifierNode:
		looksLike := problem.Similar(n.Value, opWords...) != "" || slices.Contains([]string{"insert", "update", "replace", "remove", "merge"}, n.Value)
		if read, computed := b.namesInFields(); looksLike && !slices.Contains(append(read, computed...), n.Value) {
			return notAnOp(strconv.Quote(n.Value), n, tree.Source)
		}
	}
	return constantResult(tree.Node, tree.Source)
}

// namesNil reports whether a choice of the expression has nil for a result. The text is
// known to be an expression.
func namesNil(text string) bool {
	tree, err := parser.Parse(text)
	return err == nil && nilResult(tree.Node)
}

func nilResult(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.NilNode:
		return true
	case *ast.ConditionalNode:
		return nilResult(n.Exp1) || nilResult(n.Exp2)
	case *ast.BinaryNode:
		return n.Operator == "??" && nilResult(n.Right)
	}
	return false
}

// constantResult finds a constant that an expression may come to and that is no op.
func constantResult(node ast.Node, source file.Source) error {
	switch n := node.(type) {
	case *ast.ConditionalNode:
		if err := constantResult(n.Exp1, source); err != nil {
			return err
		}
		return constantResult(n.Exp2, source)
	case *ast.BinaryNode:
		if n.Operator != "??" {
			return nil
		}
		if err := constantResult(n.Left, source); err != nil {
			return err
		}
		return constantResult(n.Right, source)
	case *ast.StringNode:
		if !isOp(n.Value) {
			return notAnOp(strconv.Quote(n.Value), n, source)
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.ArrayNode, *ast.MapNode:
		return notAnOp("this", n, source)
	}
	return nil
}
