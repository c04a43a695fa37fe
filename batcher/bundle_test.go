package batcher

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/schemas"
)

// bundleFile seals writes of two mappings and returns the entries of each ZIP.
func bundleFile(t *testing.T, segment int, mappings []files.Mapping, writes ...map[string]schemas.Write) map[string][]archiveEntry {
	t.Helper()
	w := newWorld(t)
	w.open(Config{}, mappings...)
	w.b.segment = segment
	for i, both := range writes {
		for name, one := range both {
			w.add(name, one, w.p, int64(i))
		}
	}
	q := w.b.queues[0]
	r := newImportRun(q, q.open, cancelers{func() {}, func() {}})
	imports, err := r.seal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]archiveEntry{}
	for i, imp := range imports {
		content, err := os.ReadFile(w.b.spool.Path(imp.File))
		if err != nil {
			t.Fatal(err)
		}
		entries := archived(t, content)
		files[imp.Op.String()] = entries
		if len(imp.Members) != len(entries) || imp.Part != i+1 || !strings.HasPrefix(imp.File, "crm-") || imp.Bytes != int64(len(content)) {
			t.Errorf("import of %v: got %+v, want a ZIP of the bundle with %d members", imp.Op, imp, len(entries))
		}
		var rows int64
		for j, m := range imp.Members {
			rows += m.Rows
			if got := int64(strings.Count(entries[j].text, "\n")) - 1; got != m.Rows {
				t.Errorf("%s in the file of %v: got %d rows, announced %d", m.Mapping, imp.Op, got, m.Rows)
			}
		}
		if rows != imp.Rows {
			t.Errorf("file of %v: got %d rows, want the %d of its members", imp.Op, imp.Rows, rows)
		}
	}
	check(t, w.b.Close())
	return files
}

func TestZIPOfABundleHasAnEntryForEveryMappingThatLoadsItsOp(t *testing.T) {
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	mappings := bundled(testMapping())
	mappings[1].Loads = map[schemas.Op]files.Load{schemas.Upsert: mappings[1].Loads[schemas.Upsert]}
	mappings[1].Columns = []spool.Column{column1("k"), column1("total")}
	mappings[1].CSV.Separator = ";"
	mappings[1].Entry, mappings[1].Zone = "orders-$YYYYMMDD.csv", tokyo
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(20 * time.Hour) // 2000-01-01 in UTC, the next day there
		got := bundleFile(t, spool.SegmentSize, mappings,
			map[string]schemas.Write{"orders": write(schemas.Upsert, "o1", "total", "3")},
			map[string]schemas.Write{"customers": write(schemas.Upsert, "1", "a", "x")},
			map[string]schemas.Write{"customers": write(schemas.Delete, "2")},
		)
		want := map[string][]archiveEntry{
			"delete": {{"customers.csv", "k\n2\n"}},
			"upsert": {{"customers.csv", "k,a,b\n1,x,\n"}, {"orders-20000102.csv", "k;total\no1;3\n"}},
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// A mapping without rows of an op has an entry all the same, in its place.
func TestEntryWithoutRowsIsItsHeader(t *testing.T) {
	for _, tc := range []struct {
		mapping string
		want    []archiveEntry
	}{
		{"customers", []archiveEntry{{"customers.csv", "k,a,b\n1,,\n"}, {"orders.csv", "k,a,b\n"}}},
		{"orders", []archiveEntry{{"customers.csv", "k,a,b\n"}, {"orders.csv", "k,a,b\n1,,\n"}}},
	} {
		got := bundleFile(t, spool.SegmentSize, bundled(testMapping()), map[string]schemas.Write{tc.mapping: write(schemas.Upsert, "1")})
		if len(got) != 1 || !slices.Equal(got["upsert"], tc.want) {
			t.Errorf("rows of %s alone: got %q, want %q", tc.mapping, got, tc.want)
		}
	}
}

func TestBundleOnDiskIsThatInMemory(t *testing.T) {
	var writes []map[string]schemas.Write
	for i := range 3000 {
		key := fmt.Sprint("k", i*7919%700)
		writes = append(writes, map[string]schemas.Write{
			"customers": write(schemas.Upsert, key, "a", fmt.Sprint(i)),
			"orders":    write([]schemas.Op{schemas.Upsert, schemas.Patch, schemas.Delete}[i%3], key, "b", fmt.Sprint(i)),
		})
	}
	sorted := func(files map[string][]archiveEntry) string {
		for _, entries := range files {
			for i := range entries {
				lines := strings.Split(entries[i].text, "\n")
				slices.Sort(lines)
				entries[i].text = strings.Join(lines, "\n")
			}
		}
		return fmt.Sprint(files)
	}
	m := testMapping()
	m.Roll = files.Roll{Rows: 1 << 20, Bytes: 1 << 30, Age: time.Hour}
	memory, disk := bundleFile(t, spool.SegmentSize, bundled(m), writes...), bundleFile(t, 1000, bundled(m), writes...)
	if a, b := sorted(memory), sorted(disk); len(memory) != 2 || a != b {
		t.Errorf("got %d files in memory of %d bytes, %d on disk of %d, want the same two", len(memory), len(a), len(disk), len(b))
	}
}

// tightGate holds one mapping back.
type tightGate struct {
	mu      sync.Mutex
	waits   map[string]time.Duration
	refused []string
}

func (g *tightGate) Wait(mapping string, _ *contract.Import, _ bool) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waits[mapping]
}

func (g *tightGate) Refused(mapping string, _ time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused = append(g.refused, mapping)
	return 15 * time.Minute
}

func TestBundleWaitsForItsTightestTable(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		gate := &tightGate{waits: map[string]time.Duration{"orders": 10 * time.Second}}
		m := testMapping()
		m.Roll.Rows = 2
		w.open(Config{Gate: gate}, bundled(m)...)
		w.hold = "intend"
		w.run()
		w.append(write(schemas.Upsert, "1"))
		w.said() // the sum of the rows counts
		w.add("orders", write(schemas.Upsert, "2"), w.p, 101)
		time.Sleep(9 * time.Second)
		w.said()
		gate.mu.Lock()
		gate.waits["orders"] = 0
		gate.mu.Unlock()
		time.Sleep(time.Second)
		w.said(`10s intend is held`)
	})
}

func TestRefusedSlotOfABundleCountsForAllOfItsTables(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		gate := &tightGate{}
		m := testMapping()
		m.Roll.Rows = 1
		w.triggers <- &refusal{noSlot: true}
		w.open(Config{Gate: gate}, bundled(m)...)
		w.run()
		w.append(write(schemas.Upsert, "1"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []string{"customers", "orders"}; !slices.Equal(gate.refused, want) {
			t.Errorf("refused: got %q, want %q: nobody says whose imports are used up", gate.refused, want)
		}
	})
}

func TestFailedBundleIsKeptAndReleasedByAnyOfItsMappings(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.results = []contract.Results{{Status: contract.Failed, Cause: "duplicate headers"}}
		m := testMapping()
		m.Roll.Rows, m.RetryFailed = 1, 0
		w.start(bundled(m)...)
		w.append(write(schemas.Upsert, "1"))
		time.Sleep(time.Minute)
		for _, s := range w.b.Status() {
			if !strings.Contains(s.Halted, "duplicate headers") || len(s.Kept) != 1 || s.Import.Step != contract.Halting || s.Bundle != "crm" {
				t.Errorf("%s: got %+v, want it halted with the ZIP kept", s.Mapping, s)
			}
		}
		w.wantSpool("crm-*.upsert.csv.zip.failed")
		w.release("orders")
		time.Sleep(time.Minute)
		w.lastSaid("confirm upsert 1/1")
		if got := w.endings()[len(w.endings())-1].Members; len(got) != 2 || got[0].Rows != 1 || got[1].Rows != 0 {
			t.Errorf("observed: got members %+v, want one row of customers and none of orders", got)
		}
		w.wantSpool()
	})
}

func TestDiscardOfOneMappingIsThatOfItsBundle(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start(bundled(testMapping())...)
		w.append(write(schemas.Upsert, "1"))
		lose(w.b, "orders")
		time.Sleep(2 * time.Hour)
		w.said()
		if s := w.b.Status()[0]; s.Rows != 0 {
			t.Errorf("rows after the discard: got %d, want none: their records are read again", s.Rows)
		}
	})
}
