package spool

import (
	"encoding/csv"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/feedsink/feedsink/schemas"
)

// wide is a write as customers' rows are.
func wide(i int) schemas.Write {
	return write(schemas.Upsert, fmt.Sprintf("C%09d", i),
		"c1", fmt.Sprintf("customer.%d@example.com", i), "c2", fmt.Sprintf("Émilie %x", i*2654435761), "c3", fmt.Sprint("Street ", i%977, " no. ", i%89), "c4", fmt.Sprint(10000+i%80000),
		"c5", "Springfield", "c6", "fr", "c7", "true", "c8", fmt.Sprint("2026-11-", i%28+1), "c9", fmt.Sprint(float64(i%9999)/100))
}

func wideLayout() layout {
	m := testLayout()
	m.Columns = []Column{column1("k")}
	for i := range 9 {
		m.Columns = append(m.Columns, column1(fmt.Sprint("c", i+1)))
	}
	return m
}

func TestMemoryStaysBounded(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	s := opened(t, t.TempDir())
	m := wideLayout()
	r := mustRows(t, m)
	j := NewJournal(s, "test.journal", SegmentSize, 500_000)
	before := heap()
	const keys = 300_000
	w := wide(1)
	for i := range keys {
		w.Key = strconv.Itoa(1e9 + i)
		addTo(t, j, r, &w)
	}
	if got, most := int64(heap()-before), int64(16<<20); got > most {
		t.Errorf("heap with %d keys waiting: got %d bytes, want at most %d", keys, got, most)
	}
	if got := j.Distinct; got < keys*97/100 || got > keys {
		t.Errorf("distinct keys: got %d, want %d less at most 3 %%", got, keys)
	}
	if s.Used() < 30<<20 {
		t.Errorf("on disk: got %d bytes, want most of the rows there", s.Used())
	}
	j.Drop()
	check(t, s.Close())
}

const benchRows = 200_000

// wides are different enough for the compressor not to see through them.
func wides() []schemas.Write {
	writes := make([]schemas.Write, 5000)
	for i := range writes {
		writes[i] = wide(i * 7919)
	}
	return writes
}

// BenchmarkAppendAndSeal is a file whose rows wait on disk.
func BenchmarkAppendAndSeal(b *testing.B) { appendAndSeal(b, benchRows) }

// BenchmarkSmallFiles is one after the other of files whose rows wait in memory.
func BenchmarkSmallFiles(b *testing.B) { appendAndSeal(b, 12_500) }

func appendAndSeal(b *testing.B, rows int) {
	writes := wides()
	m := wideLayout()
	s := opened(b, b.TempDir())
	r := mustRows(b, m)
	b.ReportAllocs()
	var size int64
	for b.Loop() {
		j := NewJournal(s, "test.journal", SegmentSize, int64(rows))
		for i := range rows {
			w := writes[i%len(writes)]
			w.Key = strconv.Itoa(1e9 + i)
			addTo(b, j, r, &w)
		}
		files, err := Seal(b.Context(), Files{Dir: s, Parts: []Part{{Rows: r, Journal: j, Ops: anyOp}}, Name: "customers"})
		if err != nil {
			b.Fatal(err)
		}
		size = files[0].Bytes
		j.Drop()
		s.Remove(files[0].Name)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
	b.ReportMetric(float64(size)/float64(rows), "file-B/row")
	check(b, s.Close())
}

// BenchmarkBareCSVGzip is the floor: the same rows through encoding/csv and the
// same compressor, without keys, disk or steps.
func BenchmarkBareCSVGzip(b *testing.B) {
	var records [][]string
	for _, w := range wides() {
		record := []string{w.Key}
		for _, c := range w.Cells {
			record = append(record, c.Value.Text())
		}
		records = append(records, record)
	}
	for b.Loop() {
		z, err := gzip.NewWriterLevel(io.Discard, level)
		if err != nil {
			b.Fatal(err)
		}
		w := csv.NewWriter(z)
		for i := range benchRows {
			r := records[i%len(records)]
			r[0] = strconv.Itoa(1e9 + i)
			check(b, w.Write(r))
		}
		w.Flush()
		check(b, z.Close())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRows, "ns/row")
}
