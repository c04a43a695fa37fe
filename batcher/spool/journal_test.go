package spool

import (
	"strconv"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// TestFewKeysAreTakenForOthers: a key that is taken for one of a file's is sent
// again without need.
func TestFewKeysAreTakenForOthers(t *testing.T) {
	const rows = 100_000
	c := newKeyCounter(rows)
	hash := func(i int) uint64 { return xxhash.Sum64String("K" + strconv.Itoa(i)) }
	counted := 0
	for i := range rows {
		if c.first(hash(i)) {
			counted++
		}
		if !c.has(hash(i)) || c.first(hash(i)) {
			t.Fatalf("key %d: got forgotten, want it known", i)
		}
	}
	if counted < rows*995/1000 {
		t.Errorf("distinct keys: got %d counted, want at least 99.5 %% of %d", counted, rows)
	}
	wrong := 0
	for i := range rows {
		if c.has(hash(rows + i)) {
			wrong++
		}
	}
	if wrong > rows/200 {
		t.Errorf("keys taken for others: got %d of %d, want at most 0.5 %%", wrong, rows)
	}
	t.Logf("%d of %d counted, %d of %d taken for others", counted, rows, wrong, rows)
}
