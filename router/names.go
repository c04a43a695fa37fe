package router

import (
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"

	"github.com/feedsink/feedsink/router/problem"
	"github.com/feedsink/feedsink/schemas"
)

// warnOfNames warns of names in a condition, or in the expression of `op`, that stand
// for members of the value of which the fields know nothing. value.NAME says that one
// is meant.
func (b *mappingCompiler) warnOfNames(path string, reads []readPath) {
	read, computed := b.namesInFields()
	known := append(read, computed...)
	for _, name := range b.members(reads) {
		if slices.Contains(known, name) {
			continue
		}
		hint := problem.Similar(name, known...)
		if hint == "" {
			hint = "write value." + name + " to say that records have it"
		}
		b.warnings.Report(path, hint, unreadName, name)
	}
}

// warnOfFieldNames warns of names in a field's expression that look like a misspelt
// one of another field.
func (b *mappingCompiler) warnOfFieldNames(path string, reads []readPath) {
	read, _ := b.namesInFields()
	for _, name := range b.members(reads) {
		if hint := problem.Misspelt(name, read...); hint != "" && !slices.Contains(read, name) {
			b.warnings.Report(path, hint, unreadName, name)
		}
	}
}

const unreadName = "no field of the mapping reads %q, which is nil where records do not have it"

// warnOfDeletes warns of a mapping's `when` that leaves out a delete which carries
// nothing but its key, as a tombstone does, and most of Debezium's. Of a condition
// that asks for more than the op and such values it cannot be told.
func (b *mappingCompiler) warnOfDeletes() {
	canonical, ofDebezium := len(b.m.Fields) == 0, b.m.Envelope == debezium
	bare := !canonical && !ofDebezium // of which only a tombstone has no value
	if b.c.when == nil || bare && !b.deletesTombstones() {
		return
	}
	e := &evaluation{env: map[string]any{}}
	for _, p := range b.c.reads {
		member := p.member()
		ofEvent := slices.Contains([]string{"attributes", "subscriptions", "segments", "properties"}, member)
		ofRow := member != "" && !strings.HasPrefix(member, "__") && (b.c.key == nil || !slices.Contains(b.c.key.columns, member))
		switch {
		case p.ofRecord() || canonical && p.names[0] != "op" && !ofEvent || ofDebezium && p.names[0] != "op" && !ofRow:
			return
		case p.names[0] == "op" && !bare:
			e.env[p.variable] = schemas.Delete.String()
		}
	}
	hint := `begin it with op == "delete" or`
	if bare {
		hint = "begin it with value == nil or"
	}
	if !b.c.when(e) {
		b.warnings.Report("when", hint, "a delete that carries only its key is not the mapping's, so its row stays in the table")
	}
}

// deletesTombstones reports whether a record without a value may mean one of the mapping's rows.
// It belongs to none where mappings divide a topic by what values say. Else there has to be an import
// for deletes, or a call that has what it needs.
func (b *mappingCompiler) deletesTombstones() bool {
	readers := func(topic string) (n int) {
		for i := range b.all {
			if slices.Contains(b.all[i].Topics, topic) {
				n++
			}
		}
		return n
	}
	if !slices.ContainsFunc(b.m.Topics, func(topic string) bool { return readers(topic) == 1 }) {
		return false
	}
	calls := slices.ContainsFunc(b.m.Routes, func(r Route) bool { return r.Lane == schemas.Immediate.String() })
	return b.m.Imports.Delete != nil || calls && (b.c.Table.Custom || b.c.profileID != nil && b.c.profileID.root != "")
}

// members are the members of the value that are read by their bare names, each once.
func (b *mappingCompiler) members(reads []readPath) (names []string) {
	for _, p := range reads {
		name := p.names[0]
		ofEnvelope := b.m.Envelope == debezium && (name == "op" || strings.HasPrefix(name, "__"))
		if len(b.m.Fields) > 0 && !p.ofRecord() && name != rootValue && !ofEnvelope && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// namesInFields are the members of the value that fields read by paths, and those in
// their expressions.
func (b *mappingCompiler) namesInFields() (read, computed []string) {
	texts := []string{b.m.ProfileID}
	for i := range b.m.Fields {
		texts = append(texts, b.m.Fields[i].From)
		if tree, err := parser.Parse(b.m.Fields[i].Expr); err == nil {
			ast.Walk(&tree.Node, visit(func(node ast.Node) {
				if n, ok := node.(*ast.IdentifierNode); ok {
					computed = append(computed, n.Value)
				}
			}))
		}
	}
	for _, text := range texts {
		if s, err := newSource(text); err == nil && s.root == "" {
			read = append(read, s.steps[0].Name)
		}
	}
	return read, computed
}
