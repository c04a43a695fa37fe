package spool

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

// TestImportWithoutAFileLeavesTheDirectory has a spool.dir that is a link, as to a volume.
func TestImportWithoutAFileLeavesTheDirectory(t *testing.T) {
	link := filepath.Join(t.TempDir(), "spool")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	s, err := Open(link)
	if err != nil {
		t.Fatal(err)
	}
	s.Remove("")
	if _, err := os.Lstat(link); err != nil {
		t.Errorf("got %v, want the link where it was", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestDirectoryThatIsNotUsedAnyMoreIsCleared: none of its files is sent any more.
func TestDirectoryThatIsNotUsedAnyMoreIsCleared(t *testing.T) {
	dir := t.TempDir()
	const file = "orders-20260101T043409Z-abcdef.upsert.csv.gz"
	for _, name := range []string{file, file + FailedSuffix, "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	used, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if Clear(dir, log); !has(file) {
		t.Error("another process has the directory: got its file removed")
	}
	if err := used.Close(); err != nil {
		t.Fatal(err)
	}
	if Clear(dir, log); has(file) || !has(file+FailedSuffix) || !has("notes.txt") {
		t.Errorf("got file %v, kept one %v, another one %v; want the latter two", has(file), has(file+FailedSuffix), has("notes.txt"))
	}
	none := filepath.Join(dir, "none")
	if Clear(none, log); has("none") || out.Len() > 0 {
		t.Errorf("where there is none: got made %v, logged %q", has("none"), out.String())
	}
}
