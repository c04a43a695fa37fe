//go:build unix

package spool

import (
	"syscall"
	"testing"
)

// TestClosedSpoolIsFreeThoughAProgramHoldsItsFile copies the lock's file as a program
// does that is about to be started.
func TestClosedSpoolIsFreeThoughAProgramHoldsItsFile(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	held, err := syscall.Dup(int(s.lock.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(held) }()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	next, err := Open(dir)
	if err != nil {
		t.Fatalf("open again: %v", err)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}
