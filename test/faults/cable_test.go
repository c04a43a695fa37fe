package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// newTestCable leads to a broker that sends every line back.
func newTestCable(t *testing.T) *cable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
		}
	}()
	c, err := newCable(t.Context(), l.Addr().String)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.close(), l.Close()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// say sends a line and returns what comes back within the time.
func say(t *testing.T, conn net.Conn, line string, within time.Duration) (string, error) {
	t.Helper()
	if _, err := io.WriteString(conn, line); err != nil {
		return "", err
	}
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	return bufio.NewReader(conn).ReadString('\n')
}

func TestCutCableIsSilentUntilItIsMendedAndResetsThen(t *testing.T) {
	c := newTestCable(t)
	conn, err := net.Dial("tcp", c.address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got, err := say(t, conn, "one\n", time.Minute); got != "one\n" {
		t.Fatalf("whole cable: got %q, %v, want the line back", got, err)
	}
	c.set(silent)
	// Silence has no sign of its own.
	if got, err := say(t, conn, "two\n", 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("cut cable: got %q, %v, want silence", got, err)
	}
	c.set(passing)
	if got, err := say(t, conn, "three\n", time.Minute); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("mended cable, old connection: got %q, %v, want it reset", got, err)
	}
	again, err := net.Dial("tcp", c.address())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got, err := say(t, again, "four\n", time.Minute); got != "four\n" {
		t.Errorf("mended cable: got %q, %v, want the line back", got, err)
	}
}
