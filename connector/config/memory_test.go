package config_test

import (
	"runtime/debug"
	"strings"
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

func TestMemoryForWhatIsUnchangedCountsWhereItIsUsed(t *testing.T) {
	before := debug.SetMemoryLimit(100 << 20)
	defer debug.SetMemoryLimit(before)
	const sizes = "memory: {pending: 60MiB, unchanged: 20MiB}\n"
	parse(t, base+sizes)
	skipping := strings.Replace(base, "    routes:", "    unchanged: skip\n    routes:", 1)
	found := problems(t, skipping+sizes)
	const want = "pending, fetched and unchanged together are 112 MiB, above GOMEMLIMIT, which is 100 MiB"
	if len(found) != 1 || found[0].Message != want {
		t.Errorf("with it: got %+v, want %s", found, want)
	}
}
