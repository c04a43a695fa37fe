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
	s := opened(t, dir)
	held, err := syscall.Dup(int(s.lock.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(held) }()
	check(t, s.Close())
	next := opened(t, dir)
	check(t, next.Close())
}
