package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// binary is feedsink as a user runs it.
var binary string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	// The tests mostly wait; -parallel on the command line is read later, and wins.
	if err := flag.Set("test.parallel", "8"); err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "feedsink-e2e-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	zoneDir = filepath.Join(dir, "zones")
	if err := os.Setenv("ZONEINFO", zoneDir); err != nil {
		return 1, err
	}
	if binary, err = program(dir); err != nil {
		return 1, err
	}
	stop, err := startBroker()
	if err != nil {
		return 1, err
	}
	defer stop()
	return m.Run(), nil
}
