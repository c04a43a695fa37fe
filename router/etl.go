package router

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

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
// about files and table, and with nothing else: an ETL that was created for
// another one would load the mapping's files wrongly, or not at all. It is "" for
// an op without an import.
func (c *Compiled) ETLFingerprint(op schemas.Op) string {
	load := c.Import(op)
	if load == nil {
		return ""
	}
	csv := c.Config.Imports.CSV
	text, err := json.Marshal([]any{
		c.Table.Custom, c.Table.Name, load.Mode, c.FileColumns(op),
		orDefault(csv.Separator, ","), orDefault(csv.Enclosing, `"`),
		orDefault(csv.Encoding, "UTF-8"), orDefault(csv.Compression, "GZIP"),
	})
	if err != nil {
		panic(err) // strings, booleans and structs of them: there is nothing that cannot be marshalled
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// fitting refuses an ETL that was created when the mapping was another one.
func (s *scope) fitting() {
	for op := schemas.Upsert; op <= schemas.Delete; op++ {
		load := s.c.Import(op)
		if load == nil || load.Fingerprint == "" {
			continue
		}
		if now := s.c.ETLFingerprint(op); now != load.Fingerprint {
			s.problem("imports."+op.String()+".fingerprint",
				fmt.Sprintf("create a new one with `feedsink etl create --mapping %s --op %v`; or write %q if the ETL was changed to fit", s.m.Name, op, now),
				"the ETL %s was created for other columns, CSV format, mode or table than the mapping has now", load.ETL)
		}
	}
}
