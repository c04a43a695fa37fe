package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
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

func TestInterruptHasAShellsExitCode(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, dial := new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:1")
	for _, err := range []error{context.Canceled, fmt.Errorf("read topic crm: %w", context.Canceled), errors.Join(dial, errors.New("and more")), asUsage(context.Canceled)} {
		if got := exitCode(err); got != exitInterrupted {
			t.Errorf("%v: got code %d, want %d", err, got, exitInterrupted)
		}
		if got := cancellation.Replace(err.Error()); strings.Contains(got, "cancel") {
			t.Errorf("%v: got %q, want it to say interrupted", err, got)
		}
	}
	d := newHost(t)
	d.change(`upsert: {mode`, `upsert: {etl: "8", mode`)
	root := newRoot()
	root.SetArgs([]string{"check", "--online"})
	if got := exitCode(root.ExecuteContext(ctx)); got != exitInterrupted {
		t.Errorf("check --online: got code %d, want %d", got, exitInterrupted)
	}
	if got := exitCode(context.DeadlineExceeded); got != exitFailed {
		t.Errorf("what takes too long: got code %d, want %d", got, exitFailed)
	}
}
