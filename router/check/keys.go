package check

import (
	"fmt"
	"slices"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/fieldpath"
)

// keys checks what fills the mapping's key and the profile's id, and what is said of the key's type.
func (m *mapping) keys() {
	m.oneElement("profileId", m.m.ProfileID)
	for i := range m.m.Fields {
		if f := &m.m.Fields[i]; f.To != "" && f.To == m.m.Key {
			path := fmt.Sprintf("fields[%d]", i)
			m.ownKeys(path, f)
			m.typeOfKey(path, f.As)
			m.oneElement(path+".from", f.From)
		}
	}
	for i, t := range m.m.Types {
		if t.Name != "" && t.Name == m.m.Key {
			m.typeOfKey(fmt.Sprintf("types[%d]", i), t.As)
		}
	}
}

// typeOfKey refuses what no key can be: every record would be a dead letter.
func (m *mapping) typeOfKey(path, as string) {
	if as == "boolean" || as == "list" && !m.c.Table.Custom { // of which no field is a list
		m.Report(path+".as", "write string, or leave it out", "%s: a key is text or a whole number", as)
	}
}

// oneElement refuses a path that leads to a list.
func (m *mapping) oneElement(at, text string) {
	if steps, _, err := fieldpath.Parse(text); err == nil && slices.ContainsFunc(steps, func(s fieldpath.Step) bool { return s.Kind == fieldpath.Every }) {
		m.Report(at, "write the element that is meant, such as [0]", "[*] makes a list: a key is text or a whole number")
	}
}

// ownKeys refuses keys that records have in common: each would replace the row of the one
// before it.
func (m *mapping) ownKeys(path string, f *router.Field) {
	const (
		origin = "write from, the path of what tells records apart, or expr"
		shared = "the key %q is the same for every record of a partition, so that all of them would be one row"
		common = "records without the key %q would all be one row"
	)
	var computed ast.Node = &ast.IdentifierNode{Value: f.From}
	if tree, err := parser.Parse(f.Expr); f.Expr != "" && err == nil {
		computed = tree.Node
	}
	at, hint := ".expr", "have it read what tells records apart"
	if f.Expr == "" {
		at, hint = ".from", origin
	}
	switch {
	case f.Value != "":
		m.Report(path+".value", origin, "the key %q is the same for every record, so that all of them would be one row", f.To)
	case f.Default != "":
		m.Report(path+".default", "remove it: a record without a key is a dead letter", common, f.To)
	case readsNothing(computed):
		m.Report(path+at, hint, shared, f.To)
	case isTest(computed):
		m.Report(path+at, "have it come to what tells records apart", "comes to true or false: a key is text or a whole number")
	case hasDefault(computed):
		m.Report(path+at, "leave out what stands for a key that is missing: a record without a key is a dead letter", common, f.To)
	default:
		m.ownPlaces(path+at, f.To, computed)
	}
}

// ownPlaces refuses keys of a record's time, or of half its place: records of one time are many,
// and each partition has each offset.
func (m *mapping) ownPlaces(path, to string, computed ast.Node) {
	switch place := `write expr: topic + "-" + string(partition) + "-" + string(offset)`; {
	case !readsOnly(computed, "topic", "partition", "timestamp", "offset"):
	case !reads(computed, "offset"):
		m.Report(path, "have it read what tells records apart", "the key %q is the same for records of one time, so that they would be one row", to)
	case !reads(computed, "partition"):
		m.Report(path, place, "the key %q is the same for records of several partitions, each of which has every offset, so that they would be one row", to)
	case !reads(computed, "topic") && len(m.m.Topics) > 1:
		m.Report(path, place, "the key %q is the same for records of several topics, each of which has every partition and offset, so that they would be one row", to)
	}
}

// readsNothing reports whether what a part of an expression comes to is the same for every
// record of a partition.
func readsNothing(part ast.Node) bool { return readsOnly(part, "topic", "partition") }

// readsOnly reports whether a part of an expression reads nothing but these.
func readsOnly(part ast.Node, names ...string) bool {
	return ast.Find(part, func(n ast.Node) bool {
		name, is := n.(*ast.IdentifierNode)
		return is && !slices.Contains(names, name.Value)
	}) == nil
}

// reads reports whether a part of an expression reads that name.
func reads(part ast.Node, name string) bool {
	return ast.Find(part, func(n ast.Node) bool {
		read, is := n.(*ast.IdentifierNode)
		return is && read.Value == name
	}) != nil
}

// hasDefault reports whether an expression comes to the same for all records that lack
// something. A condition that asks for more is a choice that somebody has made.
func hasDefault(node ast.Node) bool {
	isNil := func(n ast.Node) bool { _, is := n.(*ast.NilNode); return is }
	stands := func(n ast.Node) bool { return !isNil(n) && readsNothing(n) || hasDefault(n) }
	switch n := node.(type) {
	case *ast.BinaryNode:
		return n.Operator == "??" && (hasDefault(n.Left) || stands(n.Right))
	case *ast.ConditionalNode:
		test, is := n.Cond.(*ast.BinaryNode)
		if is && (isNil(test.Left) || isNil(test.Right)) {
			return stands(n.Exp1) || stands(n.Exp2)
		}
		return hasDefault(n.Exp1) || hasDefault(n.Exp2)
	case *ast.BuiltinNode: // such as string
		return len(n.Arguments) == 1 && hasDefault(n.Arguments[0])
	}
	return false
}

// isTest reports whether an expression comes to true or false.
func isTest(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.BinaryNode:
		return slices.Contains([]string{"==", "!=", "<", "<=", ">", ">=", "and", "&&", "or", "||", "in", "contains", "startsWith", "endsWith", "matches"}, n.Operator)
	case *ast.UnaryNode:
		return n.Operator == "not" || n.Operator == "!"
	}
	return false
}
