package spool

import (
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/feedsink/feedsink/schemas"
)

// noRoomBeyond has no file take more than size bytes, until end is called.
func noRoomBeyond(t *testing.T, size uint64) (end func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	check(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	check(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: before.Max}))
	return func() {
		check(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before))
		signal.Reset(syscall.SIGXFSZ)
	}
}

// TestWhatIsNotWrittenWholeTakesNoRoom: a disk that is full is not full of what counts
// nowhere.
func TestWhatIsNotWrittenWholeTakesNoRoom(t *testing.T) {
	n, dir := newNotes(t)
	j, rows := NewJournal(dir, "test.journal", 1, 1000), mustRows(t, testLayout())
	dir.notes.Store(notesInMemory) // notes go to disk
	for _, c := range []struct {
		name  string
		write func() error
	}{
		{"journal", func() error {
			w := write(schemas.Upsert, "1", "a", strings.Repeat("a", 200), "b", strings.Repeat("b", 200))
			if _, err := j.Add(rows, &w); err != nil {
				return err
			}
			return j.flush()
		}},
		{"notes", func() error { return n.Append(make([]byte, 3*notesPieceSize)) }},
	} {
		for range 2 { // the second finds what the first has left in memory
			if err := c.write(); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		used := dir.Used()
		end := noRoomBeyond(t, uint64(used)+100)
		err := c.write()
		end()
		if err == nil || dir.Used() != used || onDisk(t, dir) != used {
			t.Errorf("%s that finds no room: got %v, %d bytes that count, %d on disk, want an error and %d", c.name, err, dir.Used(), onDisk(t, dir), used)
		}
		if err := c.write(); err != nil || dir.Used() <= used || onDisk(t, dir) != dir.Used() {
			t.Errorf("%s with room again: got %v, %d bytes that count, %d on disk, want more of them", c.name, err, dir.Used(), onDisk(t, dir))
		}
	}
}

// onDisk is how large the directory's files are.
func onDisk(t *testing.T, dir *Dir) (bytes int64) {
	t.Helper()
	all, err := os.ReadDir(dir.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		bytes += info.Size()
	}
	return bytes
}
