package imports

import (
	"testing"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka"
)

// An import of which one partition's ledger says that its records were routed in
// another way (it has no fingerprint there) must not confirm records of any.
func TestAnImportReroutedInOnePartitionIsReroutedInAll(t *testing.T) {
	const routes = 42
	for what, c := range map[string]struct {
		fingerprints []uint64
		want         uint64
	}{
		"in none":           {[]uint64{routes, routes}, routes},
		"in the first one":  {[]uint64{0, routes, routes}, 0},
		"in the last one":   {[]uint64{routes, routes, 0}, 0},
		"in the middle one": {[]uint64{routes, 0, routes}, 0},
	} {
		to := &batcher.Adopted{UpTo: map[batcher.Partition]int64{}}
		for _, f := range c.fingerprints {
			im := ack.Import{State: ack.Running, Table: "orders", File: "orders-1.csv.gz", Execution: "4711", Part: 1, Parts: 1, Attempt: 1, Fingerprint: f}
			gather(to, &kafka.Partition{}, kafka.Adopted{Import: im})
		}
		if to.Fingerprint != c.want || len(to.Claims) != len(c.fingerprints) {
			t.Errorf("%s: got fingerprint %d of %d claims, want %d of %d", what, to.Fingerprint, len(to.Claims), c.want, len(c.fingerprints))
		}
	}
}
