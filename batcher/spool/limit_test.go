package spool

import (
	"archive/zip"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/schemas"
)

// sealedWithin seals the writes of one part, or of two in a bundle, in files within
// the limit.
func sealedWithin(t *testing.T, limit Limit, compression string, bundle bool, segment int, writes ...[]schemas.Write) (*Dir, []File) {
	t.Helper()
	s := opened(t, t.TempDir())
	t.Cleanup(func() { _ = s.Close() })
	r := mustRows(t, testLayout())
	files := Files{Dir: s, Bundle: bundle, Compression: compression, Name: "customers", Limit: limit}
	for n := range writes {
		j := NewJournal(s, fmt.Sprint("test", n, ".journal"), segment, 1000)
		for i := range writes[n] {
			addTo(t, j, r, &writes[n][i])
		}
		files.Parts = append(files.Parts, Part{Rows: r, Journal: j, Ops: anyOp, Entry: fmt.Sprint("part", n, ".csv")})
		t.Cleanup(j.Drop)
	}
	sealed, err := Seal(t.Context(), files)
	if err != nil {
		t.Fatal(err)
	}
	return s, sealed
}

// customersOf are n upserts whose cells can be compressed, or not.
func customersOf(n int, compressible bool) (writes []schemas.Write) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		text := strings.Repeat("abc", 30)
		if !compressible {
			text = fmt.Sprintf("%016x%016x%016x", rnd.Uint64(), rnd.Uint64(), rnd.Uint64())
		}
		writes = append(writes, write(schemas.Upsert, fmt.Sprintf("C%05d", i), "a", text))
	}
	return writes
}

func TestNoFileHasMoreRowsThanTheLimit(t *testing.T) {
	s, files := sealedWithin(t, Limit{Rows: 500}, "GZIP", false, SegmentSize, customersOf(3000, true))
	if len(files) != 6 {
		t.Fatalf("got %d files, want 6", len(files))
	}
	next := 0
	for i, f := range files {
		lines := strings.Split(strings.TrimSpace(plain(t, s, f)), "\n")
		if f.Rows != 500 || len(lines) != 501 || f.Split != i || f.Op != schemas.Upsert {
			t.Errorf("%s: got %d rows, %d lines, split %d, want 500, 501, %d", f.Name, f.Rows, len(lines), f.Split, i)
		}
		for _, line := range lines[1:] {
			if key := fmt.Sprintf("C%05d,", next); !strings.HasPrefix(line, key) {
				t.Fatalf("%s: got %q, want the row of %s", f.Name, line, key)
			}
			next++
		}
	}
}

// TestNoFileIsLargerThanTheLimit: whatever the rows compress to, the files fill most of
// the limit.
func TestNoFileIsLargerThanTheLimit(t *testing.T) {
	for _, compression := range []string{"GZIP", "ZIP", "NONE"} {
		for _, compressible := range []bool{true, false} {
			for _, bytes := range []int64{9000, 150_000} {
				t.Run(fmt.Sprint(compression, compressible, bytes), func(t *testing.T) {
					const all = 4000
					_, files := sealedWithin(t, Limit{Bytes: bytes}, compression, false, SegmentSize, customersOf(all, compressible))
					rows := int64(0)
					for i, f := range files {
						rows += f.Rows
						if f.Bytes > bytes || i < len(files)-1 && f.Bytes < bytes*8/10 {
							t.Errorf("%s: got %d bytes with %d rows, want at most %d and not much less", f.Name, f.Bytes, f.Rows, bytes)
						}
					}
					if rows != all {
						t.Errorf("got %d rows in all files, want %d", rows, all)
					}
				})
			}
		}
	}
}

// TestDividedBundleHasEveryEntryInEveryFile: a bundle's files continue where the one
// before has ended, and parents stay before children.
func TestDividedBundleHasEveryEntryInEveryFile(t *testing.T) {
	for _, limit := range []Limit{{Rows: 400}, {Bytes: 10_000}} {
		s, files := sealedWithin(t, limit, "ZIP", true, SegmentSize, customersOf(1000, false), customersOf(300, false))
		total, parentsDone := [2]int64{}, false
		for _, f := range files {
			archive, err := os.Open(s.Path(f.Name))
			if err != nil {
				t.Fatal(err)
			}
			z, err := zip.NewReader(archive, f.Bytes)
			if err != nil || len(z.File) != 2 {
				t.Fatalf("%s: got %v, %v, want two entries", f.Name, z, err)
			}
			for i, entry := range z.File {
				r, err := entry.Open()
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(r)
				if err != nil {
					t.Fatal(err)
				}
				if lines := int64(strings.Count(string(text), "\n")); lines != f.Counts[i]+1 {
					t.Errorf("%s in %s: got %d lines, want %d rows and a header", entry.Name, f.Name, lines, f.Counts[i])
				}
				total[i] += f.Counts[i]
			}
			_ = archive.Close()
			if parentsDone && f.Counts[0] > 0 {
				t.Errorf("%s: got rows of the parent behind the child's", f.Name)
			}
			parentsDone = parentsDone || f.Counts[1] > 0
			if limit.Rows > 0 && f.Rows > limit.Rows || limit.Bytes > 0 && f.Bytes > limit.Bytes {
				t.Errorf("%s: got %d rows and %d bytes, want no more than %+v", f.Name, f.Rows, f.Bytes, limit)
			}
		}
		if total != [2]int64{1000, 300} || len(files) < 3 {
			t.Errorf("limit %+v: got %v rows in %d files, want 1000 and 300 in three or more", limit, total, len(files))
		}
	}
}

// TestDividedFilesKeepTheOrderOfOperations: all files of deletes come before the first
// one of upserts.
func TestDividedFilesKeepTheOrderOfOperations(t *testing.T) {
	var writes []schemas.Write
	for i := range 30 {
		key := fmt.Sprint("C", i)
		writes = append(writes, write(schemas.Upsert, key, "a", "x"), write(schemas.Delete, key), write(schemas.Upsert, key, "a", "y"))
	}
	for _, segment := range []int{SegmentSize, 100} { // in memory, and on disk
		_, files := sealedWithin(t, Limit{Rows: 12}, "GZIP", false, segment, writes)
		got := ""
		for _, f := range files {
			if !ours.MatchString(strings.Replace(f.Name, "customers", NewName("customers", rand.New(rand.NewPCG(1, 2))), 1)) {
				t.Errorf("%s: got a name that the next start does not know as one of the spool's", f.Name)
			}
			got += fmt.Sprintf("%v %d %d %s\n", f.Op, f.Split, f.Rows, f.Name)
		}
		want := `delete 0 12 customers.delete.csv.gz
delete 1 12 customers.delete-2.csv.gz
delete 2 6 customers.delete-3.csv.gz
upsert 0 12 customers.upsert.csv.gz
upsert 1 12 customers.upsert-2.csv.gz
upsert 2 6 customers.upsert-3.csv.gz
`
		if got != want {
			t.Errorf("files\n got %s\nwant %s", got, want)
		}
	}
}
