package router

import (
	"fmt"
	"slices"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"

	"github.com/feedsink/feedsink/router/problem"
	"github.com/feedsink/feedsink/schemas"
)

// verdict is what a condition comes to whatever a record holds.
type verdict uint8

const (
	depends verdict = iota // on the record
	alwaysTrue
	alwaysFalse
)

func verdictOf(b bool) verdict {
	if b {
		return alwaysTrue
	}
	return alwaysFalse
}

func (v verdict) not() verdict {
	switch v {
	case alwaysTrue:
		return alwaysFalse
	case alwaysFalse:
		return alwaysTrue
	}
	return depends
}

func (v verdict) and(w verdict) verdict {
	switch {
	case v == alwaysFalse || w == alwaysFalse:
		return alwaysFalse
	case v == alwaysTrue:
		return w
	case w == alwaysTrue:
		return v
	}
	return depends
}

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

// presence is the verdict on `x == nil` and `x != nil` of what every record has.
func presence(node ast.Node, canonical bool) verdict {
	n, ok := node.(*ast.BinaryNode)
	if !ok || n.Operator != "==" && n.Operator != "!=" {
		return depends
	}
	name, ok := comparedWithNil(n).(*ast.IdentifierNode)
	if ok && (slices.Contains(neverNil, name.Value) || canonical && name.Value == "op") {
		return verdictOf(n.Operator == "!=")
	}
	return depends
}

// neverNil is what every record has.
var neverNil = []string{rootTopic, rootPartition, rootOffset, rootTimestamp, rootHeaders}

// constantCondition reports a condition that comes to the same for every record.
func (b *mappingCompiler) constantCondition(path string, always verdict) {
	ofMapping := path == "when"
	switch {
	case always == alwaysTrue && ofMapping:
		b.Report(path, "remove it", "is always true, so it decides nothing")
	case always == alwaysFalse && ofMapping:
		b.Report(path, "compare with what records hold; nothing but == nil and != nil is true of what is missing", "is always false, so no record would be the mapping's")
	case always == alwaysTrue:
		b.Report(path, "remove the condition and the routes after it", "is always true, so the routes after it can never match")
	case always == alwaysFalse:
		b.Report(path, "remove the route; nothing but == nil and != nil is true of what is missing", "is always false, so the route can never match")
	}
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

// notAnOp is the error of a text that stands where an op's word does.
func notAnOp(text string, at ast.Node, source file.Source) error {
	return (&file.Error{Location: at.Location(), Message: fmt.Sprintf("%q is %s", text, unknownOp)}).Bind(source)
}

// findUnknownOp finds the first text that a condition compares op with and that is no op.
func findUnknownOp(text string) error {
	tree, err := parser.Parse(text)
	if err != nil {
		return err
	}
	f := &opComparisons{}
	ast.Walk(&tree.Node, f)
	if f.found == nil {
		return nil
	}
	return notAnOp(f.found.Value, f.found, tree.Source)
}

// opComparisons finds the first text that op is compared with and that is no op.
type opComparisons struct{ found *ast.StringNode }

// Visit implements ast.Visitor.
func (f *opComparisons) Visit(node *ast.Node) {
	n, ok := (*node).(*ast.BinaryNode)
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
			if text, ok := one.(*ast.StringNode); ok && f.found == nil && !isOp(text.Value) {
				f.found = text
			}
		}
	}
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
		return (&file.Error{Location: n.Location(), Message: "nil is " + unknownOp}).Bind(tree.Source)
	case *ast.IdentifierNode:
		looksLike := problem.Similar(n.Value, opWords...) != "" || slices.Contains([]string{"insert", "update", "replace", "remove", "merge"}, n.Value)
		if read, computed := b.namesInFields(); looksLike && !slices.Contains(append(read, computed...), n.Value) {
			return notAnOp(n.Value, n, tree.Source)
		}
	}
	return constantResult(tree.Node, tree.Source)
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
			return notAnOp(n.Value, n, source)
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.ArrayNode, *ast.MapNode:
		return (&file.Error{Location: n.Location(), Message: "this is " + unknownOp}).Bind(source)
	}
	return nil
}
