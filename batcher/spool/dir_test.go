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
	check(t, os.Symlink(t.TempDir(), link))
	s := opened(t, link)
	s.Remove("")
	if _, err := os.Lstat(link); err != nil {
		t.Errorf("got %v, want the link where it was", err)
	}
	check(t, s.Close())
}

// TestDirectoryThatIsNotUsedAnyMoreIsCleared: none of its files is sent any more.
func TestDirectoryThatIsNotUsedAnyMoreIsCleared(t *testing.T) {
	dir := t.TempDir()
	const file = "orders-20260101T043409Z-abcdef.upsert.csv.gz"
	for _, name := range []string{file, file + FailedSuffix, "notes.txt"} {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
	}
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	used := opened(t, dir)
	check(t, os.WriteFile(filepath.Join(dir, file), []byte("x"), 0o600))
	if Clear(dir, log); !has(file) {
		t.Error("another process has the directory: got its file removed")
	}
	check(t, used.Close())
	if Clear(dir, log); has(file) || !has(file+FailedSuffix) || !has("notes.txt") {
		t.Errorf("got file %v, kept one %v, another one %v; want the latter two", has(file), has(file+FailedSuffix), has("notes.txt"))
	}
	none := filepath.Join(dir, "none")
	if Clear(none, log); has("none") || out.Len() > 0 {
		t.Errorf("where there is none: got made %v, logged %q", has("none"), out.String())
	}
}
