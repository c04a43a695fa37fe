package batcher

import (
	"strings"
	"testing"
	"testing/synctest"
)

// TestFinalStatesAreThoseOfTheLogThoughImportsDoNotWaitForRoutes explores routes that
// change until imports of each kind of table were confirmed while a record waited.
func TestFinalStatesAreThoseOfTheLogThoughImportsDoNotWaitForRoutes(t *testing.T) {
	const most, times = 200, 3
	for name, custom := range map[string]bool{"profiles": false, "table records": true} {
		t.Run(name, func(t *testing.T) {
			unread := 0
			for seed := uint64(1000); unread < times; seed++ {
				l := &lanes{t: t, custom: custom, flips: &flips{}}
				synctest.Test(t, func(*testing.T) { l.exploreFlips(seed) })
				if t.Failed() {
					t.Fatalf("seed %d\n%s", seed, strings.Join(l.tale, "\n"))
				}
				if unread += l.unread; seed > 1000+most {
					t.Fatalf("imports confirmed while a record waited: got %d in %d runs, want %d", unread, most, times)
				}
			}
		})
	}
}
