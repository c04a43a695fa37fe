package router

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"

	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser/lexer"

	"github.com/feedsink/feedsink/schemas"
)

// routesFingerprint hashes what decides which lane a record is, and which row: how
// it is decoded and keyed, what it does, the conditions and lanes, what a lane can
// do with it, and the cells that send a write to the immediate lane. Two lanes whose
// mappings have the same one agree on every record. It is made of what was compiled,
// not of what was written: what decides nothing is left out.
func routesFingerprint(c *Compiled) uint64 {
	m := &c.Config
	parts := []any{
		orDefault(m.Format, "json"), orDefault(m.Envelope, "none"), m.keyWord(),
		c.Table, m.Key, c.keyParts(), len(c.fields) == 0, tokens(orDefault(m.Op, "upsert")), c.immediate, c.batch,
	}
	if m.Envelope == debezium {
		parts = append(parts, orDefault(m.UnavailableValue, schemas.DefaultUnavailable), c.columnsRead())
	}
	if c.immediate && c.batch { // else all that is a record is the one lane's
		parts = append(parts, routesParts(m.Routes), c.profileID.parts(), c.importParts(), c.escapeParts())
	}
	text, err := json.Marshal(parts)
	if err != nil {
		panic(err) // strings, numbers, booleans and lists of them: there is nothing that cannot be marshalled
	}
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:])
}

// routesParts are conditions and lanes, without the conditions that end in the same
// lane as what follows them.
func routesParts(routes []Route) (parts []any) {
	n := len(routes)
	for n > 1 && routes[n-2].Lane == routes[n-1].Lane {
		n--
	}
	for i, r := range routes[:n] {
		if i == n-1 {
			r.When = "" // the last has none, or is followed by what was left out
		}
		parts = append(parts, tokens(r.When), r.Lane)
	}
	return parts
}

// tokens are an expression's own: blanks and comments are none.
func tokens(text string) (parts []string) {
	all, err := lexer.Lex(file.NewSource(text))
	if err != nil {
		return []string{text} // the configuration is refused
	}
	for _, t := range all {
		parts = append(parts, string(t.Kind), t.Value)
	}
	return parts
}

// parts are a path's; nil where there is none.
func (s *source) parts() (parts []any) {
	if s == nil {
		return nil
	}
	parts = append(parts, s.root)
	for _, step := range s.steps {
		parts = append(parts, step.kind, step.name, step.index)
	}
	return parts
}

// keyParts are what decides about a row's key; nothing where events say it.
func (c *Compiled) keyParts() (parts []any) {
	i := slices.IndexFunc(c.fields, func(f field) bool { return f.key })
	if i < 0 {
		return nil
	}
	f := &c.fields[i]
	parts = append(c.fieldParts(i), f.constant.Kind(), f.constant.Text(), f.fallback.Kind(), f.fallback.Text())
	for _, t := range c.Config.Types {
		if t.Name == c.Config.Key {
			parts = append(parts, t.As, t.Of, cmp.Or(t.Length, maxText))
		}
	}
	return parts
}

// fieldParts are what decides whether a field's cell is there, is null or empty, or
// refuses the record. Of a constant that is all the same but for null and empty.
func (c *Compiled) fieldParts(i int) []any {
	f, written := &c.fields[i], &c.Config.Fields[i]
	parts := []any{
		written.To, f.from.parts(), tokens(written.Expr), written.As, written.Of, written.Scale,
		written.Format, written.Timezone, f.absent, f.null,
	}
	for _, v := range []schemas.Value{f.constant, f.fallback} {
		parts = append(parts, present(v), v.Kind() == schemas.Null, v.Kind() == schemas.String && v.Text() == "")
	}
	return parts
}

// columnsRead are the columns of the source table that fields read: a change that
// leaves one of them out is a patch, and one that cannot be read is refused.
func (c *Compiled) columnsRead() (names []string) {
	for i := range c.fields {
		f := &c.fields[i]
		switch {
		case f.from != nil && f.from.root == "":
			names = append(names, f.from.steps[0].name)
		case f.compute != nil:
			for _, p := range f.compute.reads {
				if !p.ofRecord() {
					names = append(names, p.names[0])
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// importParts are the ops that an import loads though a route gives them to the
// immediate lane: without the service's id, and a profile's creates.
func (c *Compiled) importParts() (ops []schemas.Op) {
	if c.Table.Custom || !slices.ContainsFunc(c.routes, func(r route) bool { return r.lane == schemas.Immediate }) {
		return nil
	}
	for op := schemas.Upsert + 1; op <= schemas.Delete; op++ {
		if c.Import(op) != nil {
			ops = append(ops, op)
		}
	}
	return ops
}

// escapeParts are the columns that send a row to the immediate lane. Where there is
// one, all fields count: a record that one of them refuses stays where it is.
func (c *Compiled) escapeParts() (parts []any) {
	for op := schemas.Upsert; op < schemas.Delete; op++ {
		if c.Import(op) == nil {
			continue
		}
		guards := slices.Clone(c.guards[op])
		slices.SortFunc(guards, func(a, b guard) int { return cmp.Compare(a.column.Header, b.column.Header) })
		for _, g := range guards {
			absent, null := g.column.Absent == toImmediate, g.column.Null == toImmediate
			if absent || null {
				parts = append(parts, op, g.column.Header, absent, null, null && g.ignoresEmpty)
			}
		}
	}
	if parts == nil {
		return nil
	}
	types := slices.SortedFunc(slices.Values(c.Config.Types), func(a, b Type) int { return cmp.Compare(a.Name, b.Name) })
	for i := range types {
		types[i].Length = cmp.Or(types[i].Length, maxText)
	}
	byTarget := make([]int, len(c.fields))
	for i := range byTarget {
		byTarget[i] = i
	}
	slices.SortFunc(byTarget, func(i, j int) int { return cmp.Compare(c.Config.Fields[i].To, c.Config.Fields[j].To) })
	parts = append(parts, types)
	for _, i := range byTarget {
		parts = append(parts, c.fieldParts(i))
	}
	return parts
}
