package connector

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// What is merged is compared with each event sent alone: routed as the sink routes
// it, loaded by the service itself, through ETLs that are made of the mapping.

// inProcess hands a request to the service without a network.
type inProcess struct{ service http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	p.service.ServeHTTP(w, r)
	if r.Body != nil {
		_ = r.Body.Close() // as a transport has to
	}
	return w.Result(), nil
}

// table is one table of a service of its own.
type table struct {
	t       *testing.T
	mapping *router.Compiled
	service *sandbox.Sandbox
	client  *service.Client
	etls    map[schemas.Op]string
}

func newTable(t *testing.T, m *router.Compiled) *table {
	t.Helper()
	fields := []sandbox.Field{{Name: "a"}, {Name: "b"}, {Name: "n", Type: sandbox.Integer}, {Name: "nick"}}
	conf := sandbox.Table{Name: m.Table.Name, Custom: m.Table.Custom, Fields: fields}
	if !m.Table.Custom {
		conf.Keys, conf.Fields = []string{"k"}, append(fields, sandbox.Field{Name: "k"})
	}
	s, err := sandbox.New(sandbox.Config{Entity: "acme", APIKeys: []string{"key"}, Tables: []sandbox.Table{conf}, SlotsPerDay: 1000, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	client, err := service.New(service.Config{
		BaseURL: "http://service", AuthURL: "http://service", Entity: "acme", Timeout: time.Minute, Transport: inProcess{s},
		APIKey: func() (service.Secret, error) { return service.NewSecret("key"), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	to := &table{t, m, s, client, map[schemas.Op]string{}}
	for _, op := range schemas.Ops {
		if m.Import(op) == nil {
			continue
		}
		etl := ops.ETLOf(m, op)
		if err := etl.Create(t.Context(), client); err != nil {
			t.Fatal(err)
		}
		to.etls[op] = etl.ID
	}
	return to
}

// load loads writes as the files that they come to.
func (to *table) load(writes []schemas.Write) (files int) {
	to.t.Helper()
	rows, err := build.BatchMapping(to.mapping).Rows()
	if err != nil {
		to.t.Fatal(err)
	}
	preview := spool.NewPreview(rows)
	for i := range writes {
		if err := preview.Add(&writes[i]); err != nil {
			to.t.Fatal(err)
		}
	}
	all := preview.Files(len(writes))
	for _, f := range all {
		content := []byte(strings.Join(f.Lines, "\n") + "\n")
		execution, err := to.client.Trigger(to.t.Context(), to.etls[f.Op], service.File{
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
			to.t.Fatalf("import of %v: got %+v, %v\n%s", f.Op, got, err, content)
		}
	}
	return len(all)
}

// call makes the call of a write. A refusal leaves the table as it is.
func (to *table) call(w schemas.Write) {
	if !w.Table.Custom && w.Op != schemas.Upsert {
		w.ProfileID = "none"
		if row, ok := to.service.Row(w.Table.Name, w.Key); ok {
			w.ProfileID = row.ID
		}
	}
	err := writes.Operations{Client: to.client}.Call(to.t.Context(), &w, writes.Create{})
	if e, ok := err.(*service.Error); err != nil && (!ok || e.Status() != http.StatusNotFound && e.Status() != http.StatusConflict) { //nolint:errorlint // as it comes
		to.t.Fatalf("%v of %s: %v", w.Op, w.Key, err)
	}
}

func (to *table) rows() map[string]string {
	rows := map[string]string{}
	for key, row := range to.service.Rows(to.mapping.Table.Name) {
		rows[key] = fmt.Sprint(row.Values)
	}
	return rows
}

// mergingMapping is a mapping whose column a has these choices.
func mergingMapping(t *testing.T, custom bool, absent, null string, declared bool) *router.Compiled {
	t.Helper()
	m := router.Mapping{
		Name: "m", Topics: []string{"m"}, ProfileTable: "m", Key: "k", Routes: []router.Route{{When: "headers.lane == 'now'", Lane: "immediate"}, {Lane: "batch"}},
		Imports: router.Imports{
			Upsert: &router.Import{ETL: "1", Mode: "CREATE_OR_UPDATE", IgnoresEmpty: declared}, Patch: &router.Import{ETL: "2", Mode: "UPDATE_ONLY"}, Merge: &router.Import{ETL: "5", Mode: "CREATE_OR_UPDATE"},
			Create: &router.Import{ETL: "3", Mode: "CREATE_ONLY"}, Delete: &router.Import{ETL: "4", Mode: "DELETE"},
			Columns: []router.Column{{Name: "k"}, {Name: "a", Absent: absent, Null: null}, {Name: "b"}, {Name: "n", Absent: "0", Null: "empty"}, {Name: "lastDevice"}},
			CSV:     router.CSV{Compression: "NONE"}, Roll: router.Roll{Rows: 10}, SlotsPerDay: 12, Timezone: "UTC",
		},
		Types: []router.Type{{Name: "n", As: "integer"}},
	}
	if custom {
		m.ProfileTable, m.CustomTable, m.Key = "", "m", "businessKey"
		m.Imports.Columns[0].Name, m.Imports.Columns = "businessKey", m.Imports.Columns[:4]
	}
	r, problems := router.Compile([]router.Mapping{m})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return r.Mappings()[0]
}

// event is the JSON of one event; cells are of a, b and n, and of lastDevice where
// it creates a profile.
func mergingEvent(custom bool, op, key string, cells map[string]string) string {
	var members []string
	for _, name := range slices.Sorted(maps.Keys(cells)) {
		if name != "consent" {
			members = append(members, fmt.Sprintf("%q:%s", name, cells[name]))
		}
	}
	consent := ""
	if cells["consent"] != "" {
		consent = `,"dataCollection":` + cells["consent"]
	}
	if custom {
		return fmt.Sprintf(`{"op":%q,"businessKey":%q,"properties":{%s}}`, op, key, strings.Join(members, ","))
	}
	return fmt.Sprintf(`{"op":%q,"key":{"k":%q},"profileId":"none","attributes":{%s}%s}`, op, key, strings.Join(members, ","), consent)
}

// randomEvent is any of what an event may say. Its values tell the step.
func randomEvent(rnd *rand.Rand, custom bool, key string, step int) string {
	op := []string{"upsert", "upsert", "patch", "merge", "merge", "create", "delete"}[rnd.IntN(7)]
	cells := map[string]string{}
	for _, name := range []string{"a", "b"} {
		if text := []string{"", "null", `""`, fmt.Sprintf("%q", fmt.Sprint(name, step))}[rnd.IntN(4)]; text != "" {
			cells[name] = text
		}
	}
	if text := []string{"", "null", fmt.Sprint(step + 1)}[rnd.IntN(3)]; text != "" {
		cells["n"] = text
	}
	if op == "create" && !custom && rnd.IntN(2) == 0 {
		cells["lastDevice"] = fmt.Sprintf(`"device %d"`, step)
	}
	if !custom {
		cells["consent"] = []string{"", "", fmt.Sprintf(`{"source":"source %d"}`, step), fmt.Sprintf(`{"source":"source %d","way":"way %d"}`, step, step)}[rnd.IntN(4)]
	}
	if op == "delete" {
		cells = nil
	}
	return mergingEvent(custom, op, key, cells)
}

// sequences are events by key, those of each that the lane takes, and by step.
type sequences struct {
	text   map[string][]string
	byKey  map[string][]schemas.Write
	events int
}

func newSequences(t *testing.T, m *router.Compiled, rnd *rand.Rand, lane schemas.Lane) *sequences {
	t.Helper()
	r, problems := router.Compile([]router.Mapping{m.Config})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	s := &sequences{text: map[string][]string{}, byKey: map[string][]schemas.Write{}}
	for i := range 300 {
		key := fmt.Sprintf("%03d", i)
		for step := range 1 + rnd.IntN(6) {
			text := randomEvent(rnd, m.Table.Custom, key, step)
			v, err := schemas.NewJSON().Decode([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			rec := &router.Record{Topic: "m", Value: v}
			if lane == schemas.Immediate {
				rec.Headers = []router.Header{{Key: "lane", Value: []byte("now")}}
			}
			routed := r.Route(nil, rec)[0]
			if routed.Err != nil || routed.Lane != lane {
				continue // it takes the other lane, or is a dead letter
			}
			s.text[key], s.byKey[key] = append(s.text[key], text), append(s.byKey[key], routed.Write)
			s.events++
		}
	}
	return s
}

// old gives every second key a row, with a field that no column has.
func (s *sequences) old(to *table) {
	section, name := schemas.Attributes, "k"
	if to.mapping.Table.Custom {
		section, name = schemas.Properties, ""
	}
	for i, key := range slices.Sorted(maps.Keys(s.byKey)) {
		if i%2 == 0 {
			continue
		}
		w := schemas.Write{Op: schemas.Upsert, Table: to.mapping.Table, Key: key}
		for _, c := range []struct {
			name string
			v    schemas.Value
		}{{name, schemas.StringValue(key)}, {"a", schemas.StringValue("old a")}, {"b", schemas.StringValue("old b")}, {"n", schemas.NumberValue("99")}, {"nick", schemas.StringValue("old nick")}} {
			if c.name != "" {
				w.Cells = append(w.Cells, schemas.Cell{Place: &schemas.Place{Section: section, Name: c.name}, Value: c.v})
			}
		}
		to.call(w)
	}
}

// compare compares the rows that are left.
func (s *sequences) compare(what string, alone, merged *table) {
	alone.t.Helper()
	want, got := alone.rows(), merged.rows()
	failed := 0
	for _, key := range slices.Sorted(maps.Keys(s.byKey)) {
		if got[key] == want[key] {
			continue
		}
		if failed++; failed <= 3 {
			alone.t.Errorf("%s: after\n  %s\n got %s\nwant %s", what, strings.Join(s.text[key], "\n  "), got[key], want[key])
		}
	}
	if failed > 3 {
		alone.t.Errorf("%s: %d keys more", what, failed-3)
	}
}

func eachMerging(t *testing.T, test func(t *testing.T, m *router.Compiled, rnd *rand.Rand)) {
	for _, custom := range []bool{false, true} {
		for _, absent := range []string{"empty", "literal", "immediate"} {
			for _, null := range []string{"empty", "none", "immediate"} {
				for _, declared := range []bool{false, true} {
					name := fmt.Sprintf("custom %v, absent %s, null %s, declared %v", custom, absent, null, declared)
					t.Run(name, func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							test(t, mergingMapping(t, custom, absent, null, declared), rand.New(rand.NewPCG(7, uint64(len(name)))))
						})
					})
				}
			}
		}
	}
}

func TestRowsMergedIntoAFileLeaveTheTableAsEachAloneWould(t *testing.T) {
	eachMerging(t, func(t *testing.T, m *router.Compiled, rnd *rand.Rand) {
		alone, merged := newTable(t, m), newTable(t, m)
		s := newSequences(t, m, rnd, schemas.Batch)
		s.old(alone)
		s.old(merged)
		keys := slices.Sorted(maps.Keys(s.byKey))
		for step, left := 0, true; left; step++ {
			left = false
			byOp := map[schemas.Op][]schemas.Write{} // no key twice in a file
			for _, key := range keys {
				if step < len(s.byKey[key]) {
					left = true
					byOp[s.byKey[key][step].Op] = append(byOp[s.byKey[key][step].Op], s.byKey[key][step])
				}
			}
			for _, writes := range byOp {
				alone.load(writes)
			}
		}
		var all []schemas.Write
		for _, key := range keys {
			all = append(all, s.byKey[key]...)
		}
		files := merged.load(all)
		t.Logf("%d events of %d keys in %d files", s.events, len(keys), files)
		s.compare("file", alone, merged)
	})
}

func TestMergedCallsLeaveTheTableAsEachAloneWould(t *testing.T) {
	eachMerging(t, func(t *testing.T, m *router.Compiled, rnd *rand.Rand) {
		alone, merged := newTable(t, m), newTable(t, m)
		s := newSequences(t, m, rnd, schemas.Immediate)
		s.old(alone)
		s.old(merged)
		for _, writes := range s.byKey {
			var pending []schemas.Write
			for _, w := range writes {
				alone.call(w)
				w.Cells = slices.Clone(w.Cells)
				if n := len(pending); n == 0 || !schemas.MergeInto(&pending[n-1], &w) {
					pending = append(pending, w)
				}
			}
			for _, w := range pending {
				merged.call(w)
			}
		}
		s.compare("calls", alone, merged)
	})
}
