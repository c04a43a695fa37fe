package router

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"

	"github.com/feedsink/feedsink/schemas"
)

// fingerprint hashes what decides what a record becomes. Defaults count as
// written out, so that spelling one out changes nothing; names, topics, the
// pace of files and their packing do not count at all.
func fingerprint(m *Mapping) uint64 {
	columns := make([]Column, len(m.Imports.Columns))
	for i, c := range m.Imports.Columns {
		columns[i] = Column{c.Name, orDefault(c.Absent, toEmpty), orDefault(c.Null, toEmpty)}
	}
	fields := slices.Clone(m.Fields)
	for i := range fields {
		if f := &fields[i]; f.Default == "" {
			f.Absent, f.Null = withoutDefault(f.Absent, Omit), withoutDefault(f.Null, AsNull)
		}
	}
	parts := []any{
		orDefault(m.Format, "json"), orDefault(m.Envelope, "none"), m.keyWord(),
		m.ProfileTable, m.CustomTable, m.Key, m.ProfileID, fields, m.Routes,
		m.Imports.Upsert, m.Imports.Patch, m.Imports.Create, m.Imports.Delete, columns,
	}
	// What came later counts only where it is used: mappings without it keep
	// their fingerprints.
	if op := orDefault(m.Op, "upsert"); op != "upsert" {
		parts = append(parts, "op", op)
	}
	if m.UnavailableValue != "" {
		parts = append(parts, "unavailableValue", m.UnavailableValue)
	}
	if len(m.Types) > 0 {
		parts = append(parts, "types", m.Types)
	}
	parts = append(parts, declared(m, columns)...)
	text, err := json.Marshal(parts)
	if err != nil {
		panic(err) // strings, integers and structs of them: there is nothing that cannot be marshalled
	}
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:])
}

// declared are the ops whose rows ignoresEmpty makes other ones: not those whose
// empty cells are ignored without it.
func declared(m *Mapping, columns []Column) (parts []any) {
	c := &Compiled{Config: *m}
	for op := schemas.Upsert; op < schemas.Delete; op++ {
		if load := c.Import(op); load == nil || !load.IgnoresEmpty {
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

func withoutDefault(choice, otherwise Missing) Missing {
	if choice == otherwise {
		return ""
	}
	return choice
}
