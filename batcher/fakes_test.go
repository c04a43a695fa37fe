package batcher

import (
	"archive/zip"
	"bytes"
	"errors"
	"flag"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/schemas"
)

var update = flag.Bool("update", false, "rewrite the golden files")

type partition struct{ dead atomic.Bool }

type claim struct {
	p        *partition
	from, to int64
}

func (p *partition) Read() int64 { return 0 }

func (p *partition) Claim(offset int64) Claim { return &claim{p, offset, offset} }
func (c *claim) Extend(offset int64)          { c.to = offset }
func (c *claim) Live() bool                   { return !c.p.dead.Load() }

// refusal is a classified failure of the service.
var _ Failure = (*refusal)(nil)

type refusal struct {
	transient, unknown, noSlot bool
	after                      time.Duration
	words                      string
}

func (r *refusal) Error() string             { return "service said no" }
func (r *refusal) Transient() bool           { return r.transient }
func (r *refusal) Unknown() bool             { return r.unknown }
func (r *refusal) NoSlot() bool              { return r.noSlot }
func (r *refusal) Reason() string            { return r.words }
func (r *refusal) Cause() string             { return "" }
func (r *refusal) RetryAfter() time.Duration { return r.after }

var errDisconnected = errors.New("connection reset")

// testMapping has a key column k and two more.
func testMapping() Mapping {
	return Mapping{
		Name:    "customers",
		Table:   schemas.Table{Name: "customers"},
		Key:     spool.Key{Section: schemas.Attributes, Name: "k"},
		Columns: []spool.Column{column1("k"), column1("a"), column1("b")},
		Roll:    Roll{Rows: 1000, Bytes: 1 << 20, Age: 3600e9},
		Loads: map[schemas.Op]Load{
			schemas.Upsert: {"101", "CREATE_OR_UPDATE"}, schemas.Patch: {"102", "UPDATE_ONLY"},
			schemas.Create: {"103", "CREATE_ONLY"}, schemas.Delete: {"104", "DELETE"},
		},
	}
}

func column1(name string) spool.Column {
	return spool.Column{Header: name, Section: schemas.Attributes, Name: name}
}

// write builds a write from pairs of name and text.
func write(op schemas.Op, key string, pairs ...string) schemas.Write {
	w := schemas.Write{Op: op, Table: schemas.Table{Name: "customers"}, Key: key}
	for i := 0; i < len(pairs); i += 2 {
		w.Cells = append(w.Cells, schemas.Cell{Place: &schemas.Place{Section: schemas.Attributes, Name: pairs[i]}, Value: schemas.StringValue(pairs[i+1])})
	}
	return w
}

// archiveEntry is a file of a ZIP.
type archiveEntry struct{ name, text string }

func archived(t testing.TB, content []byte) (all []archiveEntry) {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Error(err)
		return nil
	}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Error(err)
			return nil
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Error(err)
			return nil
		}
		all = append(all, archiveEntry{f.Name, string(text)})
	}
	return all
}

func unzipped(t testing.TB, content []byte) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Error(err)
		return ""
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Error(err)
	}
	return string(plain)
}

func mustRows(t testing.TB, m Mapping) *spool.Rows {
	t.Helper()
	r, err := m.Rows()
	if err != nil {
		t.Fatal(err)
	}
	return r
}
