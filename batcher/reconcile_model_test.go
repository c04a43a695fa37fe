package batcher

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/schemas"
)

// settledTable is a table of the service itself, its column a kept where it is
// empty, b cleared, and c in no file.
type settledTable struct {
	t       *testing.T
	mapping files.Mapping
	service *sandbox.Sandbox
	client  *service.Client
}

func settledMapping(custom bool) files.Mapping {
	m := testMapping()
	m.Table.Custom = custom
	if custom {
		m.Key = spool.Key{Section: schemas.Properties, Name: "businessKey"}
		m.Columns = []spool.Column{{Header: "businessKey", Section: schemas.Properties, Name: "businessKey"}, column1("a"), column1("b")}
		m.Columns[1].Section, m.Columns[2].Section = schemas.Properties, schemas.Properties
	}
	m.Columns[1].Kept = true
	m.Loads[schemas.Merge] = files.Load{ETL: "105", Mode: "CREATE_OR_UPDATE"}
	return m
}

type direct struct{ service http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.service.ServeHTTP(w, r)
	if r.Body != nil {
		_ = r.Body.Close() // as a transport has to
	}
	return w.Result(), nil
}

func newSettledTable(t *testing.T, m files.Mapping) *settledTable {
	t.Helper()
	conf := sandbox.Table{Name: "customers", Custom: m.Table.Custom, Fields: []sandbox.Field{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
	if !m.Table.Custom {
		conf.Keys, conf.Fields = []string{"k"}, append(conf.Fields, sandbox.Field{Name: "k"})
	}
	var etls []sandbox.ETL
	for op, load := range m.Loads {
		key := m.Columns[0].Header
		columns := []sandbox.Column{{Header: key, Attribute: key}}
		if op != schemas.Delete {
			columns = append(columns, sandbox.Column{Header: "a", Attribute: "a", Flags: sandbox.Flags{IgnoreEmptyValues: true}},
				sandbox.Column{Header: "b", Attribute: "b", Flags: sandbox.Flags{IgnoreEmptyValues: op.Partial()}})
		}
		etls = append(etls, sandbox.ETL{ID: load.ETL, Loads: []sandbox.Load{{Table: "customers", Mode: sandbox.Mode(load.Mode), Columns: columns}}})
	}
	s, err := sandbox.New(sandbox.Config{
		Entity: "acme", APIKeys: []string{"key"}, Tables: []sandbox.Table{conf}, ETLs: etls, SlotsPerDay: 10_000, Dir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	client, err := service.New(service.Config{
		BaseURL: "http://service", AuthURL: "http://service", Entity: "acme", Timeout: time.Minute, Transport: direct{s},
		APIKey: func() (service.Secret, error) { return service.NewSecret("key"), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		check(t, s.Close())
	})
	return &settledTable{t, m, s, client}
}

// load loads rows as the files that they come to.
func (to *settledTable) load(writes ...schemas.Write) {
	to.t.Helper()
	p := spool.NewPreview(mustRows(to.t, to.mapping))
	for i := range writes {
		check(to.t, p.Add(&writes[i]))
	}
	for _, f := range p.Files(len(writes)) {
		content := []byte(strings.Join(f.Lines, "\n") + "\n")
		execution, err := to.client.Trigger(to.t.Context(), to.mapping.Loads[f.Op].ETL, service.File{
			Name: "file.csv",
			Open: func() (io.ReadCloser, int64, error) {
				return io.NopCloser(bytes.NewReader(content)), int64(len(content)), nil
			},
		}, nil)
		if err != nil {
			to.t.Fatal(err)
		}
		synctest.Wait()
		if got, err := to.service.Execution(execution.ID); err != nil || got.Status != "FINISHED" {
			to.t.Fatalf("import of %v: got %+v, %v", f.Op, got, err)
		}
	}
}

type callBody schemas.Write

func (w *callBody) AppendJSON(b []byte) []byte {
	var attributes, properties []string
	for _, c := range w.Cells {
		value := c.Value.AppendJSON(nil)
		attributes = append(attributes, fmt.Sprintf("%q:%s", c.Name, value))
		properties = append(properties, fmt.Sprintf(`{"name":%q,"value":%s}`, c.Name, value))
	}
	if w.Table.Custom {
		return fmt.Appendf(b, `{"businessKey":%q,"properties":[%s]}`, w.Key, strings.Join(properties, ","))
	}
	return fmt.Appendf(b, `{"attributes":{%s}}`, strings.Join(attributes, ","))
}

// call makes a write's call and reports whether what it is about was there.
func (to *settledTable) call(w schemas.Write) (found bool) {
	to.t.Helper()
	ctx, body := to.t.Context(), (*callBody)(&w)
	var err error
	switch {
	case w.Table.Custom && w.Op == schemas.Patch:
		_, err = to.client.UpdateRecord(ctx, "customers", w.Key, body)
	case w.Table.Custom && w.Op == schemas.Merge:
		if _, err = to.client.UpdateRecord(ctx, "customers", w.Key, body); err != nil {
			_, err = to.client.UpsertRecord(ctx, "customers", body, false)
		}
	case w.Table.Custom && w.Op == schemas.Delete:
		err = to.client.DeleteRecord(ctx, "customers", w.Key)
	case w.Table.Custom:
		_, err = to.client.UpsertRecord(ctx, "customers", body, w.Op == schemas.Upsert)
	case w.Op == schemas.Patch:
		_, err = to.client.PatchProfile(ctx, "customers", w.ProfileID, body)
	case w.Op == schemas.Upsert:
		_, err = to.client.UpsertProfile(ctx, "customers", body)
	default:
		to.t.Fatalf("no call for %v", w.Op)
	}
	e, refused := errors.AsType[*service.Error](err)
	if err != nil && (!refused || e.Status() != http.StatusNotFound && e.Status() != http.StatusConflict) {
		to.t.Fatalf("%v: %v", w.Op, err)
	}
	return err == nil
}

// laneWrite is a write and the lane that it takes.
type laneWrite struct {
	schemas.Write
	row bool
}

func (w laneWrite) String() string {
	text := w.Op.String()
	for _, c := range w.Cells {
		text += fmt.Sprintf(" %s=%s", c.Name, c.Value.AppendJSON(nil))
	}
	if w.row {
		return "row  " + text
	}
	return "call " + text
}

func randomLaneWrite(rnd *rand.Rand, m *files.Mapping, key, id string, step int) laneWrite {
	w := laneWrite{row: rnd.IntN(2) == 0, Write: schemas.Write{Table: m.Table, Key: key, ProfileID: id, Op: []schemas.Op{schemas.Upsert, schemas.Patch, schemas.Merge}[rnd.IntN(3)]}}
	w.row = w.row || w.Op == schemas.Merge && !m.Table.Custom // no call says it
	if m.Table.Custom && rnd.IntN(5) == 0 {
		w.Op = schemas.Delete
		return w
	}
	section := m.Columns[1].Section
	add := func(name string, v schemas.Value) {
		w.Cells = append(w.Cells, schemas.Cell{Place: &schemas.Place{Section: section, Name: name}, Value: v})
	}
	if !m.Table.Custom && w.Op != schemas.Patch {
		add("k", schemas.StringValue(key))
	}
	for _, name := range []string{"a", "b", "c"} {
		switch n := rnd.IntN(5); {
		case n < 2:
			add(name, schemas.StringValue(fmt.Sprint(name, step)))
		case n == 2 && (!w.row || name == "b" && w.Op == schemas.Upsert): // a row says no other null
			add(name, schemas.NullValue())
		}
	}
	return w
}

// TestReconciledKeysAreAsIfEachWriteHadBeenSentAlone lands the rows of a key at any
// point between its calls, reconciles, and compares with all of them in order.
//
// A patch of a record that is not there before the file has landed is repeated
// behind it, as the sink's calls are. Profiles are never deleted here: one that a
// file created anew has another id.
func TestReconciledKeysAreAsIfEachWriteHadBeenSentAlone(t *testing.T) {
	for _, custom := range []bool{false, true} {
		t.Run(fmt.Sprintf("custom %v", custom), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := settledMapping(custom)
				alone, landed := newSettledTable(t, m), newSettledTable(t, m)
				rnd, failed := rand.New(rand.NewPCG(3, 5)), 0
				for i := range 600 {
					key, id := fmt.Sprintf("%03d", i), ""
					if !custom || i%2 == 0 {
						for _, to := range []*settledTable{alone, landed} {
							old := laneWrite{Write: schemas.Write{Op: schemas.Upsert, Table: m.Table, Key: key}}
							for _, name := range []string{"k", "a", "b", "c"} {
								if name != "k" || !custom {
									v := map[bool]string{true: key, false: "old"}[name == "k"]
									old.Cells = append(old.Cells, schemas.Cell{Place: &schemas.Place{Section: m.Columns[1].Section, Name: name}, Value: schemas.StringValue(v)})
								}
							}
							to.call(old.Write)
						}
						row, _ := alone.service.Row("customers", key)
						id = row.ID
					}
					var writes []laneWrite
					there := !custom || i%2 == 0
					for step := range 2 + rnd.IntN(4) {
						w := randomLaneWrite(rnd, &m, key, map[bool]string{false: id}[custom], step)
						if w.Op == schemas.Patch && !there {
							continue // a dead letter
						}
						there = w.Op != schemas.Delete
						writes = append(writes, w)
					}
					for _, w := range writes {
						if w.row {
							alone.load(w.Write)
						} else {
							alone.call(w.Write)
						}
					}
					landed.outOfOrder(rnd, writes)
					want, _ := alone.service.Row("customers", key)
					got, _ := landed.service.Row("customers", key)
					if fmt.Sprint(got.Values) != fmt.Sprint(want.Values) {
						if failed++; failed <= 5 {
							t.Errorf("after, of what was there %v,\n%v\n got %v\nwant %v", !custom || i%2 == 0, writes, got.Values, want.Values)
						}
					}
				}
				if failed > 5 {
					t.Errorf("%d keys more", failed-5)
				}
			})
		})
	}
}

// outOfOrder lands the rows as one file at any point between the calls, and
// reconciles.
func (to *settledTable) outOfOrder(rnd *rand.Rand, writes []laneWrite) {
	to.t.Helper()
	r := mustRows(to.t, to.mapping)
	var keys reconcile.Keys
	var rows, calls []schemas.Write
	for i, w := range writes {
		w.Cells = slices.Clone(w.Cells)
		at := reconcile.At{Partition: "p", Offset: int64(i)}
		if w.row {
			rows = append(rows, w.Write)
			said := r.Stated(&w.Write)
			if !to.mapping.Table.Custom {
				said.ProfileID = "" // rows know none
			}
			keys.Row(&said, at, reconcile.Flying)
		} else {
			calls = append(calls, w.Write)
			keys.Other(&w.Write, at, reconcile.Effect{Flying: true})
		}
	}
	lands := rnd.IntN(len(calls) + 1)
	var premature []schemas.Write
	for i := range len(calls) + 1 {
		if i == lands {
			to.load(rows...)
			for _, w := range premature {
				to.call(w)
			}
		}
		if i < len(calls) && !to.call(calls[i]) && calls[i].Op == schemas.Patch && i < lands {
			premature = append(premature, calls[i])
		}
	}
	if len(rows) == 0 || len(calls) == 0 {
		return
	}
	for _, n := range keys.Next(func(reconcile.At) bool { return true }) {
		for _, w := range n.Writes {
			to.call(w)
		}
	}
}
