package spool

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
)

func newNotes(t *testing.T) (*Notes, *Dir) {
	t.Helper()
	dir := opened(t, t.TempDir())
	t.Cleanup(func() { _ = dir.Close() })
	rnd := rand.New(rand.NewPCG(1, 2))
	return NewNotes(dir, func() string { return NewName("m", rnd) }), dir
}

// Whatever is appended, withdrawn and taken in between, each entry is taken once and in order.
func TestNotesAreTakenOnceAndInOrder(t *testing.T) {
	n, dir := newNotes(t)
	const others = notesInMemory - 4*notesPieceSize
	dir.notes.Store(others)
	rnd := rand.New(rand.NewPCG(3, 4))
	var model []string
	onDisk := false
	for i := range 200_000 {
		switch entry := fmt.Sprintf("entry %d of them", i); rnd.IntN(2000) {
		case 0:
			most := rnd.IntN(6000)
			if err := n.Take(func(got []byte) bool {
				if most == 0 {
					return false
				}
				if len(model) == 0 || string(got) != model[0] {
					t.Fatalf("got %q, want %.20q first", got, model)
				}
				most, model = most-1, model[1:]
				return true
			}); err != nil {
				t.Fatal(err)
			}
		case 1:
			check(t, n.Append([]byte("withdrawn")))
			n.Withdraw()
		default:
			model = append(model, entry)
			check(t, n.Append([]byte(entry)))
		}
		onDisk = onDisk || dir.Used() > 0
	}
	if !onDisk {
		t.Error("nothing was ever on disk, or the directory did not count it")
	}
	left := 0
	if err := n.Take(func([]byte) bool { left++; return true }); err != nil || left != len(model) {
		t.Errorf("got %d at the end, %v, want %d", left, err, len(model))
	}
	if dir.Used() != 0 || dir.notes.Load() != others {
		t.Errorf("all is taken: got %d bytes on disk and %d in memory, want none", dir.Used(), dir.notes.Load()-others)
	}
}

func TestNotesThatCannotBeWrittenTakeNoMore(t *testing.T) {
	n, dir := newNotes(t)
	entry := make([]byte, 1000)
	dir.notes.Store(notesInMemory)
	n.newName = func() string { return "no/such" }
	var err error
	for range 2 * notesPieceSize / len(entry) {
		if err = n.Append(entry); err != nil {
			break
		}
	}
	if err == nil {
		t.Fatal("got no error, want the disk's")
	}
	n.newName = func() string { return NewName("m", rand.New(rand.NewPCG(1, 2))) }
	if err := n.Append(entry); err != nil {
		t.Fatalf("the disk is there again: %v", err)
	}
	if err := n.Take(func([]byte) bool { return true }); err != nil {
		t.Errorf("what was noted cannot be taken: %v", err)
	}
	n.Drop()
	if entries, err := os.ReadDir(dir.dir); err != nil || len(entries) > 1 { // the lock
		t.Errorf("dropped: got %v, %v, want nothing but the lock", entries, err)
	}
}

func TestNotesOfTheLastProcessAreRemoved(t *testing.T) {
	n, dir := newNotes(t)
	dir.notes.Store(notesInMemory)
	for range 2 * notesPieceSize / 100 {
		check(t, n.Append(make([]byte, 100)))
	}
	check(t, dir.Close())
	again := opened(t, dir.dir)
	defer func() { _ = again.Close() }()
	if again.Lacks(n.pieces[0].name) != true || again.Used() != 0 {
		t.Errorf("got the file, or %d bytes, want both gone", again.Used())
	}
}
