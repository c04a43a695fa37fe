package router

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/feedsink/feedsink/schemas"
)

// FileColumn is a column as the ETL of its file has to know it.
type FileColumn struct {
	Header       string // the technical name that it is loaded into, too
	IgnoresEmpty bool   // what IgnoresEmpty says of it
}

// FileColumns are the columns of the files that load op, in their order: of a
// delete the key alone, and those that only a creating import may supply for it
// alone.
func (c *Compiled) FileColumns(op schemas.Op) []FileColumn {
	var columns []FileColumn
	for i := range c.Columns {
		col := &c.Columns[i]
		if op == schemas.Delete && col.Header != c.KeyName || op != schemas.Create && col.CreateOnly {
			continue
		}
		columns = append(columns, FileColumn{Header: col.Header, IgnoresEmpty: c.IgnoresEmpty(op, i)})
	}
	return columns
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
	text, err := json.Marshal(what)
	if err != nil {
		panic(err) // strings, booleans and structs of them: there is nothing that cannot be marshalled
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// definition is what an ETL's definition says of the mapping's file and table.
func (c *Compiled) definition(op schemas.Op) []any {
	csv := c.Config.Imports.CSV
	compression := orDefault(csv.Compression, "GZIP")
	if c.bundle != nil {
		compression = "ZIP"
	}
	return []any{
		c.Table.Custom, c.Table.Name, c.Import(op).Mode, c.FileColumns(op),
		orDefault(csv.Separator, ","), orDefault(csv.Enclosing, `"`),
		orDefault(csv.Encoding, "UTF-8"), compression,
	}
}

// fitting refuses an ETL that was created when the mapping was another one, and
// one of which nothing says that it keeps what a row does not name.
func (s *scope) fitting() {
	if s.unfinished {
		return
	}
	for op := schemas.Upsert; op <= schemas.Delete; op++ {
		load := s.c.Import(op)
		if load == nil {
			continue
		}
		now := s.c.ETLFingerprint(op)
		switch {
		case load.Fingerprint != "" && now != load.Fingerprint:
			s.problem("imports."+op.String()+".fingerprint",
				fmt.Sprintf("create a new one with `feedsink etl create --mapping %s --op %v`; or write %q if the ETL was changed to fit", s.m.Name, op, now),
				"the ETL %s was created for other columns, CSV format, mode or table than the mapping has now", load.ETL)
		case load.Fingerprint == "" && !load.IgnoresEmpty && load.ETL != "" && s.c.leavesUnsaid(op):
			s.problem("imports."+op.String(),
				fmt.Sprintf("if the ETL's definition has ignoreEmptyValues: true for every column but the key's, write `%v: {etl: %q, mode: %s, ignoresEmpty: true}`; if not, or if that cannot be told, create one that has with `feedsink etl create --mapping %s --op %v` and write the line that it prints",
					op, load.ETL, load.Mode, s.m.Name, op),
				"a %v's row leaves empty what it does not name, and nothing says that the ETL %s ignores empty values: where it does not, every such row would erase fields of the table", op, load.ETL)
		}
	}
}

// leavesUnsaid reports whether rows of op may have cells of which their event says
// nothing, and which the table must keep.
func (c *Compiled) leavesUnsaid(op schemas.Op) bool {
	return op == schemas.Patch && slices.ContainsFunc(c.FileColumns(op), func(col FileColumn) bool { return col.IgnoresEmpty })
}

// oneOp refuses an ETL for two ops: an ETL has one mode. It refuses the word
// ignoresEmpty where no cell can be empty.
func (s *scope) oneOp() {
	for op := schemas.Upsert; op <= schemas.Delete; op++ {
		load := s.c.Import(op)
		if load == nil {
			continue
		}
		path := "imports." + op.String()
		if op == schemas.Delete && load.IgnoresEmpty {
			s.problem(path+".ignoresEmpty", "leave it out", "a file of deletes has no column but the key's")
		}
		for other := schemas.Upsert; other < op; other++ {
			if first := s.c.Import(other); first != nil && first.ETL == load.ETL && load.ETL != "" && !s.unfinished {
				s.problem(path+".etl", fmt.Sprintf("create one with `feedsink etl create --mapping %s --op %v`", s.m.Name, op),
					"%s is the ETL of imports.%v too, and an ETL has one mode", load.ETL, other)
				break
			}
		}
	}
}
