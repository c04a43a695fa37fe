package batcher

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/schemas"
)

var update = flag.Bool("update", false, "rewrite the golden files")

type partition struct {
	dead    atomic.Bool
	read    atomic.Int64 // offset after the last record that was read
	written time.Time    // its records; zero: it is not known
}

type claim struct {
	p        *partition
	from, to int64
	closed   int // how often
}

func (p *partition) Read() int64    { return p.read.Load() }
func (p *partition) String() string { return "crm[0]" }
func (p *partition) Halted() string { return "" }
func (p *partition) Waits() string  { return "" }

func (p *partition) Claim(offset int64) Claim { return &claim{p, offset, offset, 0} }
func (c *claim) Extend(offset int64)          { c.to = offset }
func (c *claim) Oldest() time.Time            { return c.p.written }
func (c *claim) Close()                       { c.closed++ }
func (c *claim) Live() bool                   { return !c.p.dead.Load() }

// fakes sets what a test has not set: a gate that is open, parents without another
// lane, and rows in error that are no mistake.
func (c *Config) fakes() {
	if c.Gate == nil {
		c.Gate = openGate{}
	}
	if c.Parents == nil {
		c.Parents = noParents{}
	}
	if c.Floods == nil {
		c.Floods = noFloods{}
	}
}

type openGate struct{}

func (openGate) Wait(string, *contract.Import, bool) time.Duration { return 0 }
func (openGate) Refused(string, time.Time) time.Duration {
	return 15 * time.Minute
}

type noParents struct{}

func (noParents) Await(context.Context, string, func() map[reconcile.At]bool) error { return nil }

type noFloods struct{}

func (noFloods) Suspects(string, int64, int64) bool { return false }
func (noFloods) Ended(string, int64, int64) string  { return "" }

// refusal is a classified failure of the service.
var _ contract.Failure = (*refusal)(nil)

type refusal struct {
	transient, unknown, noSlot, tooLarge bool

	after    time.Duration
	answered time.Time
	words    string
}

func (r *refusal) Error() string             { return "service said no" }
func (r *refusal) Transient() bool           { return r.transient }
func (r *refusal) Unknown() bool             { return r.unknown }
func (r *refusal) NoSlot() bool              { return r.noSlot }
func (r *refusal) Answered() time.Time       { return r.answered }
func (r *refusal) TooLarge() bool            { return r.tooLarge }
func (r *refusal) Reason() string            { return r.words }
func (r *refusal) Cause() string             { return "" }
func (r *refusal) RetryAfter() time.Duration { return r.after }

var errDisconnected = errors.New("connection reset")

// testMapping has a key column k and two more.
func testMapping() files.Mapping {
	return files.Mapping{
		Name:    "customers",
		Table:   schemas.Table{Name: "customers"},
		Key:     spool.Key{Section: schemas.Attributes, Name: "k"},
		Columns: []spool.Column{column1("k"), column1("a"), column1("b")},
		Roll:    files.Roll{Rows: 1000, Bytes: 1 << 20, Age: 3600e9},
		Loads: map[schemas.Op]files.Load{
			schemas.Upsert: {ETL: "101", Mode: "CREATE_OR_UPDATE"}, schemas.Patch: {ETL: "102", Mode: "UPDATE_ONLY"},
			schemas.Create: {ETL: "103", Mode: "CREATE_ONLY"}, schemas.Delete: {ETL: "104", Mode: "DELETE"},
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

func mustRows(t testing.TB, m files.Mapping) *spool.Rows {
	t.Helper()
	r, err := m.Rows()
	if err != nil {
		t.Fatal(err)
	}
	return r
}
