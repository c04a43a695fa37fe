package config_test

import (
	"runtime/debug"
	"testing"
)

func TestMemoryAboveGOMEMLIMITIsRefused(t *testing.T) {
	before := debug.SetMemoryLimit(80 << 20)
	defer debug.SetMemoryLimit(before)
	found := problems(t, base+"memory: {pending: 60MiB}\n")
	if len(found) != 1 || found[0].Path != "memory" || found[0].Line != 14 {
		t.Fatalf("got %+v, want one problem of memory on line 14", found)
	}
	const want = "pending and fetched together are 92 MiB, above GOMEMLIMIT, which is 80 MiB"
	if found[0].Message != want || found[0].Hint == "" {
		t.Errorf("got %q with the hint %q, want %q", found[0].Message, found[0].Hint, want)
	}
}
