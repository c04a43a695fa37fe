package spool

import (
	"archive/zip"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/feedsink/feedsink/schemas"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sealed appends writes to a journal and seals it.
func sealed(t testing.TB, m layout, segment int, writes []schemas.Write) (*Dir, []File) {
	t.Helper()
	s := opened(t, t.TempDir())
	t.Cleanup(func() { _ = s.Close() })
	r := mustRows(t, m)
	j := NewJournal(s, "test.journal", segment, 1000)
	for i := range writes {
		addTo(t, j, r, &writes[i])
	}
	files, err := Seal(t.Context(), Files{Dir: s, Parts: []Part{{Rows: r, Journal: j, Ops: anyOp}}, Compression: m.CSV.Compression, Name: "customers"})
	if err != nil {
		t.Fatal(err)
	}
	j.Drop()
	return s, files
}

func anyOp(schemas.Op) bool { return true }

// opened is a spool in that directory.
func opened(tb testing.TB, dir string) *Dir {
	tb.Helper()
	s, err := Open(dir)
	check(tb, err)
	return s
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func addTo(t testing.TB, j *Journal, r *Rows, w *schemas.Write) {
	check(t, j.MakeRoom())
	entry, err := j.Add(r, w)
	if err != nil {
		t.Fatal(err)
	}
	j.Count(entry)
}

func plain(t testing.TB, s *Dir, f File) string {
	t.Helper()
	content, err := os.ReadFile(s.Path(f.Name))
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(content)) != f.Bytes {
		t.Errorf("%s: %d bytes on disk, announced %d", f.Name, len(content), f.Bytes)
	}
	switch filepath.Ext(f.Name) {
	case ".gz":
		return unzipped(t, content)
	case ".zip":
		z, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
		if err != nil || len(z.File) != 1 || z.File[0].Name+".zip" != f.Name {
			t.Fatalf("%s: got %v, %v, want one file of the same name", f.Name, z, err)
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
		{Place: &schemas.Place{Section: schemas.Segments, Name: "tier"}, Value: schemas.StringValue("gold")},
		{Place: &schemas.Place{Section: schemas.Subscriptions, Name: "newsletter"}, Value: schemas.BoolValue(true)},
		{Place: &schemas.Place{Section: schemas.Attributes, Name: "languages"}, Value: list},
		{Place: &schemas.Place{Section: schemas.Attributes, Name: "score"}, Value: schemas.NumberValue("-12.50")},
		{Place: &schemas.Place{Section: schemas.Attributes, Name: "city"}, Value: schemas.NullValue()},
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

func goldenLayout() layout {
	m := testLayout()
	m.Key.Name = "customerNumber"
	m.Columns = []Column{
		{Header: "customerNumber", Section: schemas.Attributes, Name: "customerNumber"},
		{Header: "city", Section: schemas.Attributes, Name: "city"},
		{Header: "score", Section: schemas.Attributes, Name: "score"},
		{Header: "languages", Section: schemas.Attributes, Name: "languages"},
		{Header: "subscriptions#newsletter", Section: schemas.Subscriptions, Name: "newsletter"},
		{Header: "S_tier", Section: schemas.Segments, Name: "tier"},
	}
	return m
}

func TestFilesAreAsTheGoldenOnes(t *testing.T) {
	for _, compression := range []string{"", "GZIP", "zip", "NONE"} {
		m := goldenLayout()
		m.CSV.Compression = compression
		s, files := sealed(t, m, SegmentSize, goldenWrites())
		for _, f := range files {
			name, _, _ := strings.Cut(f.Name, ".csv")
			golden := filepath.Join("testdata", name+".csv")
			got := plain(t, s, f)
			if *update {
				check(t, os.WriteFile(golden, []byte(got), 0o600))
			}
			want, err := os.ReadFile(golden)
			if err != nil || got != string(want) {
				t.Errorf("%s, compression %q\n got %q\nwant %q, %v", f.Name, compression, got, want, err)
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
	sm, memory := sealed(t, testLayout(), SegmentSize, writes)
	sd, disk := sealed(t, testLayout(), 1000, writes)
	_, again := sealed(t, testLayout(), 1000, writes)
	if len(memory) != len(disk) || !reflect.DeepEqual(disk, again) {
		t.Fatalf("files: in memory %+v, on disk %+v, again %+v, want the same", memory, disk, again)
	}
	for i := range memory {
		a, b := strings.Split(plain(t, sm, memory[i]), "\n"), strings.Split(plain(t, sd, disk[i]), "\n")
		slices.Sort(a)
		slices.Sort(b)
		if !slices.Equal(a, b) || memory[i].Rows != disk[i].Rows || int(memory[i].Rows) != len(a)-2 {
			t.Errorf("%s: %d rows in memory, %d on disk, want the same", memory[i].Name, len(a), len(b))
		}
	}
}

func TestSealLeavesNothingWhenItIsStopped(t *testing.T) {
	for name, first := range map[string]bool{"before its first file": true, "while the disk keeps the first of two": false} {
		t.Run(name, func(t *testing.T) {
			s := opened(t, t.TempDir())
			r := mustRows(t, testLayout())
			j := NewJournal(s, "test.journal", SegmentSize, 1000)
			for _, w := range []schemas.Write{write(schemas.Upsert, "1"), write(schemas.Delete, "2")} {
				addTo(t, j, r, &w)
			}
			ctx, cancel := context.WithCancel(t.Context())
			syncs := 0
			syncFile = func(f *os.File) error {
				syncs++
				cancel()
				return f.Sync()
			}
			defer func() { syncFile = (*os.File).Sync }()
			if first {
				cancel()
			}
			if files, err := Seal(ctx, Files{Dir: s, Parts: []Part{{Rows: r, Journal: j, Ops: anyOp}}, Name: "customers"}); err == nil || syncs > 2 {
				t.Errorf("seal: got %v, want an error, and no more than a file and its name to wait for: got %d", files, syncs)
			}
			entries, err := os.ReadDir(s.dir)
			if err != nil || len(entries) != 1 {
				t.Errorf("spool: got %v, %v, want the lock alone", entries, err)
			}
			check(t, s.Close())
		})
	}
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

// Rows that waited on disk are in the order of their records, so that the oldest are in the
// first of several files, and no file is larger than what a plain loop writes of them.
func TestRowsAreInTheOrderOfTheirRecords(t *testing.T) {
	const rows = 40_000
	var writes []schemas.Write
	lines := header(wideLayout())
	for i := range rows {
		w := wide(i)
		writes = append(writes, w)
		if i%100 == 50 { // said again: its last record counts
			again := wide(i - 10)
			writes = append(writes, again)
		}
	}
	last := map[string]int{}
	for i := range writes {
		last[writes[i].Key] = i
	}
	r := mustRows(t, wideLayout())
	for i := range writes {
		if last[writes[i].Key] == i {
			entry, err := r.AppendEntry(nil, &writes[i])
			if err != nil {
				t.Fatal(err)
			}
			lines = r.appendLine(lines, entry)
		}
	}
	var floor bytes.Buffer
	z, err := gzip.NewWriterLevel(&floor, gzip.DefaultCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(lines); err != nil {
		t.Fatal(err)
	}
	check(t, z.Close())
	s, files := sealed(t, wideLayout(), 256<<10, writes)
	if got := plain(t, s, files[0]); len(files) != 1 || got != string(lines) {
		t.Errorf("got %d files, the first of %d bytes, want all lines in the order of their records", len(files), len(got))
	}
	if got, most := files[0].Bytes, int64(floor.Len())*1005/1000; got > most {
		t.Errorf("got a file of %d bytes, want %d, as a plain loop writes, and half a percent at most", got, floor.Len())
	}
}

func header(m layout) (line []byte) {
	for i, c := range m.Columns {
		if i > 0 {
			line = append(line, ',')
		}
		line = append(line, c.Header...)
	}
	return append(line, '\n')
}

// TestFilesAreTheSameWhetherTheirRowsWereOnDisk writes the same writes from memory and from
// a journal on disk.
func TestFilesAreTheSameWhetherTheirRowsWereOnDisk(t *testing.T) {
	m := testLayout()
	m.CSV.Compression = "NONE"
	m.Columns[1].Kept = true
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		var writes []schemas.Write
		for i := range rnd.IntN(12) {
			var pairs []string
			for _, name := range []string{"a", "b"} {
				if n := rnd.IntN(3); n > 0 {
					pairs = append(pairs, name, []string{"", fmt.Sprint(i)}[n-1])
				}
			}
			writes = append(writes, write(order[rnd.IntN(len(order))], fmt.Sprint(rnd.IntN(2)), pairs...))
		}
		var all [2]string
		for i, segment := range []int{1 << 20, 1} {
			s, files := sealed(t, m, segment, writes)
			for _, f := range files {
				lines := strings.SplitAfter(plain(t, s, f), "\n")
				slices.Sort(lines)
				all[i] += fmt.Sprintln(f.Op, lines)
			}
		}
		if all[0] != all[1] {
			t.Fatalf("seed %d: writes %v\n from disk %s\nfrom memory %s", seed, writes, all[1], all[0])
		}
	}
}
