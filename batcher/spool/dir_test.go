package spool

import (
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
