package main

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"
)

func TestHangUpStopsUnlessItIsIgnored(t *testing.T) {
	hangUp := os.Signal(syscall.SIGHUP)
	if got, ignored := slices.Contains(stops(), hangUp), signal.Ignored(hangUp); got == ignored {
		t.Errorf("SIGHUP that is ignored %v: got a signal to stop %v", ignored, got)
	}
	signal.Ignore(syscall.SIGHUP) // as nohup starts a command
	defer signal.Reset(syscall.SIGHUP)
	if got := slices.Contains(stops(), hangUp); got {
		t.Error("SIGHUP that was ignored: got a signal to stop, want none")
	}
}
