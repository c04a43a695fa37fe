package router

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser/lexer"

	"github.com/feedsink/feedsink/router/values"
	"github.com/feedsink/feedsink/schemas"
)

// fingerprint hashes what decides what a record becomes. Defaults count as
// written out, so that spelling one out changes nothing; names, topics, the
// pace of files and their packing do not count at all.
func fingerprint(m *Mapping) uint64 {
	columns := make([]Column, len(m.Imports.Columns))
	for i, c := range m.Imports.Columns {
		columns[i] = Column{c.Name, cmp.Or(c.Absent, toEmpty), cmp.Or(c.Null, toEmpty)}
	}
	fields := slices.Clone(m.Fields)
	for i := range fields {
		f := &fields[i]
		if f.Default == "" && f.Absent == Omit {
			f.Absent = ""
		}
		if f.Default == "" && f.Null == AsNull {
			f.Null = ""
		}
		if f.Decimal == "." {
			f.Decimal = ""
		}
	}
	parts := []any{
		m.ValueFormat(), cmp.Or(m.Envelope, "none"), m.KeyFormat(),
		m.ProfileTable, m.CustomTable, m.Key, m.ProfileID, fields, decided(m.Routes),
		m.Imports.Upsert, m.Imports.Patch, m.Imports.Create, m.Imports.Delete, columns,
	}
	// What came later counts only where it is used: mappings without it keep
	// their fingerprints.
	if op := cmp.Or(m.Op, "upsert"); op != "upsert" {
		parts = append(parts, "op", op)
	}
	if m.UnavailableValue != "" {
		parts = append(parts, "unavailableValue", m.UnavailableValue)
	}
	if len(m.Types) > 0 {
		parts = append(parts, "types", m.Types)
	}
	if m.When != "" {
		parts = append(parts, "when", m.When)
	}
	if m.Imports.Merge != nil {
		parts = append(parts, "merge", m.Imports.Merge)
	}
	parts = append(parts, ignoresEmptyParts(m, columns)...)
	return binary.BigEndian.Uint64(hash(parts))
}

// decided are the routes as they decide whose a record is: whether a row may be called
// instead changes nothing of that.
func decided(routes []Route) []Route {
	out := slices.Clone(routes)
	for i := range out {
		out[i] = out[i].decided()
	}
	return out
}

// hash is that of a list as JSON.
func hash(parts []any) []byte {
	text, err := json.Marshal(parts)
	if err != nil {
		panic(err) // strings, numbers, booleans and structs of them: there is nothing that cannot be marshalled
	}
	sum := sha256.Sum256(text)
	return sum[:]
}

// ignoresEmptyParts are the ops whose rows ignoresEmpty makes other ones: not those
// whose empty cells are ignored without it.
func ignoresEmptyParts(m *Mapping, columns []Column) (parts []any) {
	for op, load := range m.Imports.All() {
		if !load.IgnoresEmpty {
			continue
		}
		for _, col := range columns {
			compiled := CSVColumn{Header: col.Name, Absent: col.Absent, Null: col.Null}
			if compiled.ignoresEmpty(op, m.Key, true) != compiled.ignoresEmpty(op, m.Key, false) {
				parts = append(parts, "ignoresEmpty", op.String())
				break
			}
		}
	}
	return parts
}

// FileFingerprint changes with everything that decides what a file holds: it is
// Fingerprint, or of a bundle that of all its mappings, in their order.
func (c *Compiled) FileFingerprint() uint64 {
	if c.bundle == nil {
		return c.Fingerprint
	}
	var all []byte
	for _, m := range c.bundle {
		all = binary.BigEndian.AppendUint64(all, m.Fingerprint)
	}
	sum := sha256.Sum256(all)
	return binary.BigEndian.Uint64(sum[:])
}

// ETLFingerprint changes with everything that the definition of op's ETL says
// about files and tables, and with nothing else: an ETL that was created for
// another one would load the mapping's files wrongly, or not at all. It is "" for
// an op without an import, and the same for all mappings of a bundle.
func (c *Compiled) ETLFingerprint(op schemas.Op) string {
	if c.Import(op) == nil {
		return ""
	}
	what := c.definition(op)
	if c.bundle != nil {
		what = nil
		for _, m := range c.bundle {
			if m.Import(op) != nil {
				what = append(what, m.EntryName(), m.definition(op))
			}
		}
	}
	return hex.EncodeToString(hash(what)[:6])
}

// definition is what an ETL's definition says of the mapping's file and table.
func (c *Compiled) definition(op schemas.Op) []any {
	csv := c.Config.Imports.CSV
	compression := cmp.Or(csv.Compression, "GZIP")
	if c.bundle != nil {
		compression = "ZIP"
	}
	return []any{
		c.Table.Custom, c.Table.Name, c.Import(op).Mode, c.FileColumns(op),
		cmp.Or(csv.Separator, ","), cmp.Or(csv.Enclosing, `"`),
		cmp.Or(csv.Encoding, "UTF-8"), compression,
	}
}

// routesFingerprint hashes what decides which lane a record is, or whether it is the
// mapping's at all, and which row: how it is decoded and keyed, what it does, the conditions and lanes, what a lane can
// do with it, and the cells that send a write to the immediate lane. Two lanes whose
// mappings have the same one agree on every record. It is made of what was compiled,
// not of what was written: what decides nothing is left out.
func routesFingerprint(c *Compiled) uint64 {
	m := &c.Config
	parts := []any{
		m.ValueFormat(), cmp.Or(m.Envelope, "none"), m.KeyFormat(),
		c.Table, m.Key, c.keyParts(), len(c.fields) == 0, tokens(cmp.Or(m.Op, "upsert")), c.immediate, c.batch,
	}
	if m.Envelope == debezium {
		parts = append(parts, cmp.Or(m.UnavailableValue, schemas.DefaultUnavailable), c.columnsRead())
	}
	skips := slices.ContainsFunc(c.routes, func(r route) bool { return r.lane == schemas.Skip })
	if c.immediate && c.batch || skips { // else all that is a record is the one lane's
		parts = append(parts, routesParts(decided(m.Routes)))
	}
	if c.immediate && c.batch {
		parts = append(parts, c.profileID.parts(), c.importParts(), c.callParts())
	}
	if m.When != "" {
		parts = append(parts, "when", tokens(m.When))
	}
	return binary.BigEndian.Uint64(hash(parts))
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
		parts = append(parts, step.Kind, step.Name, step.Index)
	}
	return parts
}

// keyParts are what decides about a row's key: where events say it, its type alone.
func (c *Compiled) keyParts() (parts []any) {
	if i := slices.IndexFunc(c.fields, func(f field) bool { return f.key }); i >= 0 {
		f := &c.fields[i]
		parts = append(c.fieldParts(i), f.constant.Kind(), f.constant.Text(), f.byDefault.Kind(), f.byDefault.Text())
	}
	for _, t := range c.Config.Types {
		if t.Name == c.Config.Key {
			parts = append(parts, t.As, t.Of, cmp.Or(t.Length, values.MaxText))
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
	if len(written.True)+len(written.False) > 0 {
		parts = append(parts, "words", slices.Sorted(slices.Values(written.True)), slices.Sorted(slices.Values(written.False)))
	}
	if written.Decimal == "," {
		parts = append(parts, "comma")
	}
	for _, v := range []schemas.Value{f.constant, f.byDefault} {
		parts = append(parts, present(v), v.Kind() == schemas.Null, v.Kind() == schemas.String && v.Text() == "")
	}
	return parts
}

// columnsRead are the columns of the source table that fields read: a change that
// leaves one of them out is a patch, and one that cannot be read is refused.
func (c *Compiled) columnsRead() (names []string) {
	for i := range c.fields {
		names = append(names, c.fields[i].columns...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// importParts are the ops that an import loads though a route gives them to the
// immediate lane: without the service's id, and a profile's creates and merges.
func (c *Compiled) importParts() (ops []schemas.Op) {
	if c.Table.Custom || !slices.ContainsFunc(c.routes, func(r route) bool { return r.lane == schemas.Immediate }) {
		return nil
	}
	for op := range c.Config.Imports.All() {
		if op != schemas.Upsert {
			ops = append(ops, op)
		}
	}
	return ops
}

// callParts are the columns that send a row to the immediate lane. Where there is
// one, all fields count: a record that one of them refuses stays where it is.
func (c *Compiled) callParts() (parts []any) {
	for op := range c.Config.Imports.All() {
		columns := slices.Clone(c.checkedColumns[op])
		slices.SortFunc(columns, func(a, b checkedColumn) int { return cmp.Compare(a.Header, b.Header) })
		for _, col := range columns {
			absent, null := col.Absent == toImmediate, col.Null == toImmediate
			if absent || null {
				parts = append(parts, op, col.Header, absent, null, null && col.ignoresEmpty)
			}
		}
	}
	if parts == nil {
		return nil
	}
	var replaced []string // what is refused where it is null, unless a literal stands for that
	for _, col := range c.Columns {
		if values.NeverNull(col.Place) && col.Null != toEmpty && col.Null != toImmediate {
			replaced = append(replaced, col.Header)
		}
	}
	if slices.Sort(replaced); replaced != nil {
		parts = append(parts, "null", replaced)
	}
	types := slices.SortedFunc(slices.Values(c.Config.Types), func(a, b Type) int { return cmp.Compare(a.Name, b.Name) })
	for i := range types {
		types[i].Length = cmp.Or(types[i].Length, values.MaxText)
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
