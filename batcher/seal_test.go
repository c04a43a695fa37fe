package batcher

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/feedsink/feedsink/schemas"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sealed appends writes to a journal and seals it.
func sealed(t testing.TB, m Mapping, segment int, writes []schemas.Write) (*spool, []sealedFile) {
	t.Helper()
	s, err := openSpool(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.close() })
	r := mustRows(t, m)
	j := newJournal(s, "test.journal", segment, m.Roll.Rows)
	for i := range writes {
		addTo(t, j, r, &writes[i])
	}
	sealing := sealing{spool: s, rows: r, compression: m.CSV.Compression, name: "customers"}
	files, err := sealing.seal(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	j.drop()
	return s, files
}

func addTo(t testing.TB, j *journal, r *rows, w *schemas.Write) {
	t.Helper()
	if err := j.makeRoom(); err != nil {
		t.Fatal(err)
	}
	start := len(j.memory)
	var err error
	if j.memory, err = r.appendEntry(j.memory, w); err != nil {
		t.Fatal(err)
	}
	j.added(start)
}

func plain(t testing.TB, s *spool, f sealedFile) string {
	t.Helper()
	content, err := os.ReadFile(s.path(f.name))
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(content)) != f.bytes {
		t.Errorf("%s: %d bytes on disk, announced %d", f.name, len(content), f.bytes)
	}
	switch filepath.Ext(f.name) {
	case ".gz":
		return unzipped(t, content)
	case ".zip":
		z, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
		if err != nil || len(z.File) != 1 || z.File[0].Name+".zip" != f.name {
			t.Fatalf("%s: got %v, %v, want one file of the same name", f.name, z, err)
		}
		r, err := z.File[0].Open()
		if err != nil {
			t.Fatal(err)
		}
		inner, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(inner)
	}
	return string(content)
}

func goldenWrites() []schemas.Write {
	list := schemas.ListValue([]schemas.Field{{Value: schemas.StringValue("fr")}, {Value: schemas.StringValue("en")}})
	mixed := schemas.Write{Op: schemas.Upsert, Key: "C3", Cells: []schemas.Cell{
		{Section: schemas.Segments, Name: "tier", Value: schemas.StringValue("gold")},
		{Section: schemas.Subscriptions, Name: "newsletter", Value: schemas.BoolValue(true)},
		{Section: schemas.Attributes, Name: "languages", Value: list},
		{Section: schemas.Attributes, Name: "score", Value: schemas.NumberValue("-12.50")},
		{Section: schemas.Attributes, Name: "city", Value: schemas.NullValue()},
	}}
	return []schemas.Write{
		write(schemas.Upsert, "C1", "city", "Łódź, PL", "score", "1"),
		write(schemas.Upsert, "C2", "city", "said \"hi\"\nand left"),
		mixed,
		write(schemas.Delete, "C4"),
		write(schemas.Patch, "C5", "city", ""),
		write(schemas.Upsert, "C1", "city", "東京"),
		write(schemas.Patch, "C1", "score", "2"),
	}
}

func goldenMapping() Mapping {
	m := testMapping()
	m.Key.Name = "customerNumber"
	m.Columns = []Column{
		{Header: "customerNumber", Section: schemas.Attributes, Name: "customerNumber"},
		{Header: "city", Section: schemas.Attributes, Name: "city", Null: "∅"},
		{Header: "score", Section: schemas.Attributes, Name: "score", Absent: "n/a"},
		{Header: "languages", Section: schemas.Attributes, Name: "languages"},
		{Header: "subscriptions#newsletter", Section: schemas.Subscriptions, Name: "newsletter"},
		{Header: "S_tier", Section: schemas.Segments, Name: "tier", Absent: "empty"},
	}
	return m
}

func TestFilesAreAsTheGoldenOnes(t *testing.T) {
	for _, compression := range []string{"", "GZIP", "zip", "NONE"} {
		m := goldenMapping()
		m.CSV.Compression = compression
		s, files := sealed(t, m, segmentSize, goldenWrites())
		for _, f := range files {
			name, _, _ := strings.Cut(f.name, ".csv")
			golden := filepath.Join("testdata", name+".csv")
			got := plain(t, s, f)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || got != string(want) {
				t.Errorf("%s, compression %q\n got %q\nwant %q, %v", f.name, compression, got, want, err)
			}
		}
		if len(files) != 3 {
			t.Errorf("files: got %+v, want one each of delete, upsert, patch", files)
		}
	}
}

// TestSegmentsOnDiskYieldTheSameRows compares a journal that stayed in memory
// with one that went to disk piece by piece.
func TestSegmentsOnDiskYieldTheSameRows(t *testing.T) {
	var writes []schemas.Write
	for i := range 5000 {
		key := fmt.Sprint("k", i*7919%1500)
		switch i % 11 {
		case 3:
			writes = append(writes, write(schemas.Patch, key, "a", fmt.Sprint(i)))
		case 7:
			writes = append(writes, write(schemas.Delete, key))
		default:
			writes = append(writes, write(schemas.Upsert, key, "a", "x", "b", fmt.Sprint(i)))
		}
	}
	sm, memory := sealed(t, testMapping(), segmentSize, writes)
	sd, disk := sealed(t, testMapping(), 1000, writes)
	_, again := sealed(t, testMapping(), 1000, writes)
	if len(memory) != len(disk) || !slices.Equal(disk, again) {
		t.Fatalf("files: in memory %+v, on disk %+v, again %+v, want the same", memory, disk, again)
	}
	for i := range memory {
		a, b := strings.Split(plain(t, sm, memory[i]), "\n"), strings.Split(plain(t, sd, disk[i]), "\n")
		slices.Sort(a)
		slices.Sort(b)
		if !slices.Equal(a, b) || memory[i].rows != disk[i].rows || int(memory[i].rows) != len(a)-2 {
			t.Errorf("%s: %d rows in memory, %d on disk, want the same", memory[i].name, len(a), len(b))
		}
	}
}

func TestSealLeavesNothingWhenItIsStopped(t *testing.T) {
	s, err := openSpool(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := mustRows(t, testMapping())
	j := newJournal(s, "test.journal", segmentSize, 1000)
	w := write(schemas.Upsert, "1")
	addTo(t, j, r, &w)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	sealing := sealing{spool: s, rows: r, name: "customers"}
	if files, err := sealing.seal(ctx, j); err == nil {
		t.Errorf("seal: got %v, want an error", files)
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("spool: got %v, %v, want the lock alone", entries, err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}

// wide is a write of about 170 bytes, as measured for customers' rows.
func wide(i int) schemas.Write {
	return write(schemas.Upsert, fmt.Sprintf("C%09d", i),
		"c1", fmt.Sprintf("customer.%d@example.com", i), "c2", "Émilie", "c3", fmt.Sprint("Street ", i%977, " no. ", i%89), "c4", fmt.Sprint(10000+i%80000),
		"c5", "Springfield", "c6", "fr", "c7", "true", "c8", fmt.Sprint("2026-11-", i%28+1), "c9", fmt.Sprint(float64(i%9999)/100))
}

func wideMapping() Mapping {
	m := testMapping()
	m.Columns = []Column{column1("k")}
	for i := range 9 {
		m.Columns = append(m.Columns, column1(fmt.Sprint("c", i+1)))
	}
	m.Roll.Rows = 500_000
	return m
}

func TestMemoryStaysBounded(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	s, err := openSpool(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := wideMapping()
	r := mustRows(t, m)
	j := newJournal(s, "test.journal", segmentSize, m.Roll.Rows)
	before := heap()
	const keys = 300_000
	for i := range keys {
		w := wide(i)
		addTo(t, j, r, &w)
	}
	if got, most := int64(heap()-before), int64(16<<20); got > most {
		t.Errorf("heap with %d keys waiting: got %d bytes, want at most %d", keys, got, most)
	}
	if got := j.distinct; got < keys*97/100 || got > keys {
		t.Errorf("distinct keys: got %d, want %d less at most 3 %%", got, keys)
	}
	if s.used() < 30<<20 {
		t.Errorf("on disk: got %d bytes, want most of the rows there", s.used())
	}
	j.drop()
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkAppendAndSeal(b *testing.B) {
	writes := make([]schemas.Write, 200_000)
	for i := range writes {
		writes[i] = wide(i)
	}
	m := wideMapping()
	s, err := openSpool(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	r := mustRows(b, m)
	b.ReportAllocs()
	var size int64
	for b.Loop() {
		j := newJournal(s, "test.journal", segmentSize, m.Roll.Rows)
		for i := range writes {
			addTo(b, j, r, &writes[i])
		}
		sealing := sealing{spool: s, rows: r, name: "customers"}
		files, err := sealing.seal(b.Context(), j)
		if err != nil {
			b.Fatal(err)
		}
		size = files[0].bytes
		j.drop()
		s.remove(files[0].name)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(writes)), "ns/row")
	b.ReportMetric(float64(size)/float64(len(writes)), "file-B/row")
	if err := s.close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkBareCSVGzip is the floor: the same rows through encoding/csv and the
// same compressor, without keys, disk or steps.
func BenchmarkBareCSVGzip(b *testing.B) {
	records := make([][]string, 200_000)
	for i := range records {
		w := wide(i)
		records[i] = []string{w.Key}
		for _, c := range w.Cells {
			records[i] = append(records[i], c.Value.Text())
		}
	}
	for b.Loop() {
		z, err := gzip.NewWriterLevel(io.Discard, level)
		if err != nil {
			b.Fatal(err)
		}
		w := csv.NewWriter(z)
		for _, r := range records {
			if err := w.Write(r); err != nil {
				b.Fatal(err)
			}
		}
		w.Flush()
		if err := z.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(records)), "ns/row")
}
