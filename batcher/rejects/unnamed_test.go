package rejects_test

import (
	"errors"
	"testing"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/rejects"
)

func TestCountersOfABundleMayBeThoseOfOneOfItsTables(t *testing.T) {
	for _, c := range []struct {
		bundle     string
		read, rows int64
		unread     bool
	}{
		{"", 2, 3, true},
		{"", 3, 3, false},
		{"", -1, 3, false},
		{"b", 2, 3, false},
		{"b", 0, 3, true},
		{"", 5, 0, false}, // rows that are not known
	} {
		imp := &contract.Import{Bundle: c.bundle, Rows: c.rows}
		if err := rejects.ReadAll(contract.Results{Read: c.read}, imp, false); c.unread != (err != nil) {
			t.Errorf("bundle %q, %d of %d rows: got %v, want that rows are missing: %v", c.bundle, c.read, c.rows, err, c.unread)
		}
	}
}

func TestAWaitSaysWhenTheMappingHalts(t *testing.T) {
	at := time.Date(2026, 11, 28, 7, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		of   error
		want string
	}{
		{&rejects.Unnamed{Why: "there are no output files"}, "which rows are in error is not known: there are no output files; "},
		{rejects.ReadAll(contract.Results{Read: 1}, &contract.Import{Rows: 3}, false), "the service has read 1 of the 3 rows that it was sent; "},
	} {
		unnamed, ok := errors.AsType[*rejects.Unnamed](c.of)
		if !ok {
			t.Fatalf("got %v, want an Unnamed", c.of)
		}
		if got := unnamed.Wait(at).Error(); got != c.want+"it is asked again until 2026-11-28T07:00:00Z, and then the mapping halts" {
			t.Errorf("got %q, want it to begin with %q", got, c.want)
		}
	}
}
