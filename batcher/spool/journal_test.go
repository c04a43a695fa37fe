package spool

import (
	"math"
	"strconv"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// TestRowsThatStandForNoLimitTakeNoMemoryForAsMany: the bitmap is made with some thousand keys.
func TestRowsThatStandForNoLimitTakeNoMemoryForAsMany(t *testing.T) {
	c := newKeyCounter(math.MaxInt64)
	for i := range fewKeys {
		c.first(xxhash.Sum64String("K" + strconv.Itoa(i)))
	}
	if got := len(c.words) * 8; got > 32<<20 {
		t.Errorf("bitmap: got %d bytes, want 32 MiB at most", got)
	}
}

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

// TestFewKeysNeedNoBitmap: a thousand mappings have as many open files, most of them with
// few rows.
func TestFewKeysNeedNoBitmap(t *testing.T) {
	c := newKeyCounter(500_000)
	hash := func(i int) uint64 { return xxhash.Sum64String("K" + strconv.Itoa(i)) }
	for i := range fewKeys {
		if c.words != nil {
			t.Fatalf("after %d keys: got a bitmap, want none before %d", i, fewKeys)
		}
		if !c.first(hash(i)) || c.first(hash(i)) {
			t.Fatalf("key %d: got it taken for another one, or forgotten", i)
		}
	}
	for i := range fewKeys {
		if !c.has(hash(i)) {
			t.Fatalf("key %d: got forgotten once there is a bitmap, want it known", i)
		}
	}
}
