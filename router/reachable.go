package router

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// test is a part of a condition that joins no others.
type test struct {
	tree     string // as the library dumps it: equal tests have equal ones
	holds    condition
	constant bool   // it reads nothing
	path     string // the variable that it does nothing with but compare it with literals; "": other tests
	literals []any
}

// formula is how a condition joins tests. The zero value is true of every record.
type formula struct {
	holds func(truth []bool) bool // of each test of the mapping, by its index
	tests []int
}

func (f formula) and(g formula) formula {
	switch {
	case f.holds == nil:
		return g
	case g.holds == nil:
		return f
	}
	return formula{func(truth []bool) bool { return f.holds(truth) && g.holds(truth) }, slices.Concat(f.tests, g.tests)}
}

func (f formula) not() formula {
	return formula{func(truth []bool) bool { return !f.holds(truth) }, f.tests}
}

func (f formula) or(g formula) formula { return f.not().and(g.not()).not() }

// tests are those of one mapping's conditions.
type tests []test

// formula is that of one test, which is added where none is equal.
func (t *tests) formula(one test) formula {
	i := slices.IndexFunc(*t, func(u test) bool { return u.tree == one.tree })
	if i < 0 {
		i = len(*t)
		*t = append(*t, one)
	}
	return formula{func(truth []bool) bool { return truth[i] }, []int{i}}
}

const (
	// mostTried is how many combinations of what tests come to are tried for one formula.
	mostTried = 1 << 12
	// mostLiterals is with how many literals a path may be compared: what is to be tried
	// grows with their square, for each route.
	mostLiterals = 50
)

// possible reports whether there may be a record of which f is true. Of a path that is
// compared with literals, a value is tried for each way in which it may lie to them; what
// other tests come to is taken to depend on nothing. So a no is right, and a yes may be
// wrong, as it also is where there is too much to try.
func (t tests) possible(f formula, canonical bool) bool {
	if f.holds == nil {
		return true
	}
	groups := map[string][]int{} // of tests that read the same
	for _, i := range f.tests {
		if by := cmp.Or(t[i].path, t[i].tree); !slices.Contains(groups[by], i) {
			groups[by] = append(groups[by], i)
		}
	}
	var outcomes [][]outcome // of each group
	combinations := 1
	for _, group := range groups {
		literals := t.literals(group)
		if len(literals) > mostLiterals {
			return true
		}
		of := t.outcomes(group, literals, canonical)
		outcomes = append(outcomes, of)
		if combinations *= len(of); combinations > mostTried {
			return true
		}
	}
	truth := make([]bool, len(t))
	var someTrue func(of [][]outcome) bool
	someTrue = func(of [][]outcome) bool {
		if len(of) == 0 {
			return f.holds(truth)
		}
		return slices.ContainsFunc(of[0], func(o outcome) bool {
			for i, is := range o {
				truth[i] = is
			}
			return someTrue(of[1:])
		})
	}
	return someTrue(outcomes)
}

// outcome is what tests come to together, by their index.
type outcome map[int]bool

// literals are those that a group of tests compares its path with.
func (t tests) literals(group []int) (all []any) {
	for _, i := range group {
		all = append(all, t[i].literals...)
	}
	return all
}

// outcomes are all that tests which read the same can come to.
func (t tests) outcomes(group []int, literals []any, canonical bool) (all []outcome) {
	first := t[group[0]]
	if !first.constant && first.path == "" { // it is alone in its group
		return []outcome{{group[0]: true}, {group[0]: false}}
	}
	for _, v := range candidates(first.path, literals, canonical) {
		o := outcome{}
		for _, i := range group {
			o[i] = t[i].holds(&evaluation{env: map[string]any{first.path: v}})
		}
		if !slices.ContainsFunc(all, func(known outcome) bool { return maps.Equal(known, o) }) {
			all = append(all, o)
		}
	}
	return all
}

// candidates are values of a path that lie to literals in every possible way: each of them,
// its neighbours, what is not a number, and what compares with none of them.
func candidates(path string, literals []any, canonical bool) []any {
	if canonical && path == pathMark+"op" {
		all := make([]any, len(opWords))
		for i, word := range opWords {
			all[i] = word
		}
		return all
	}
	all := []any{map[string]any{}, true, false, "", math.NaN()}
	if !slices.ContainsFunc(neverNil, func(root string) bool { return path == pathMark+root }) {
		all = append(all, nil)
	}
	for _, literal := range literals {
		switch v := literal.(type) {
		case string:
			all = append(all, v, v+"\x00")
		case int:
			all = append(all, v-1, v, v+1, math.Nextafter(float64(v), math.Inf(-1)), math.Nextafter(float64(v), math.Inf(1)))
		case float64:
			all = append(all, math.Nextafter(v, math.Inf(-1)), v, math.Nextafter(v, math.Inf(1)))
		}
	}
	return all
}

// neverNil is what every record has.
var neverNil = []string{rootTopic, rootPartition, rootOffset, rootHeaders}

// comparedWith are the literals that a node does nothing with but compare a path with them.
func comparedWith(node ast.Node) (literals []any, ok bool) {
	n, binary := node.(*ast.BinaryNode)
	if !binary {
		return nil, false
	}
	switch n.Operator {
	case "in":
		list, is := n.Right.(*ast.ArrayNode)
		if !is || !isPath(n.Left) {
			return nil, false
		}
		for _, element := range list.Nodes {
			v, is := literal(element)
			if !is {
				return nil, false
			}
			literals = append(literals, v)
		}
		return literals, true
	case "==", "!=", "<", "<=", ">", ">=":
		path, other := n.Left, n.Right
		if !isPath(path) {
			path, other = other, path
		}
		v, is := literal(other)
		return []any{v}, is && isPath(path)
	}
	return nil, false
}

// isPath reports whether rewriter puts one variable in the place of the node.
func isPath(node ast.Node) bool {
	for {
		member, ok := node.(*ast.MemberNode)
		if !ok {
			break
		}
		if name, constant := member.Property.(*ast.StringNode); !constant || strings.Contains(name.Value, pathMark) {
			return false
		}
		node = member.Node
	}
	_, ok := node.(*ast.IdentifierNode)
	return ok
}

func literal(node ast.Node) (v any, ok bool) {
	switch n := node.(type) {
	case *ast.NilNode:
		return nil, true
	case *ast.BoolNode:
		return n.Value, true
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode:
		return n.Value, true
	case *ast.FloatNode:
		return n.Value, true
	case *ast.UnaryNode:
		of, _ := literal(n.Node)
		switch number := of.(type) {
		case int:
			return -number, n.Operator == "-"
		case float64:
			return -number, n.Operator == "-"
		}
	}
	return nil, false
}
