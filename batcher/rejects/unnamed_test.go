package rejects_test

import (
	"testing"

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
