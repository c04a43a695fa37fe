package imports

import (
	"testing"
	"time"

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

// How long an import takes is told by when it was sent, however often it has changed hands.
func TestAdoptedImportBeganWhenItWasSent(t *testing.T) {
	at := func(clock string) time.Time {
		t, _ := time.Parse(time.TimeOnly, clock)
		return t.AddDate(2026, 0, 0)
	}
	const file = "orders-20260101T120000Z-abcdef.upsert.csv.gz"
	now := at("15:00:00")
	for what, c := range map[string]struct {
		file string
		used []time.Time
		want time.Time
	}{
		"by the last slot":              {file, []time.Time{at("08:00:00"), at("12:30:00"), at("14:30:00")}, at("14:30:00")},
		"a slot of the next day beside": {file, []time.Time{at("12:30:00"), at("23:59:00")}, at("12:30:00")},
		"slots from before it":          {file, []time.Time{at("08:00:00")}, at("12:00:00")},
		"without slots":                 {file, nil, at("12:00:00")},
		"named by a clock ahead":        {"orders-20260101T160000Z-abcdef.upsert.csv.gz", nil, now},
		"with a name of another kind":   {"orders.csv", nil, time.Time{}},
		"with a time that is none":      {"orders-20269901T120000Z-abcdef.upsert.csv.gz", nil, time.Time{}},
	} {
		if got := began(c.file, c.used, now); !got.Equal(c.want) {
			t.Errorf("%s: got %v, want %v", what, got, c.want)
		}
	}
}
