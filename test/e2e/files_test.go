package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// TestBacklogGoesAsFilesThatFit: whatever waits, no file is larger than maxFile; a
// restart among the files repeats none and leaves none out.
func TestBacklogGoesAsFilesThatFit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const customers, most = 600, 50
	for i := range customers {
		w.produce(customer(fmt.Sprint("C", i), "basic", 1))
	}
	config := head + deadLetters + strings.Replace(mappings, "slotsPerDay: 1000", "slotsPerDay: 1000\n      maxFile: {rows: 50}", 1)
	sink := w.start(config)
	for _, files := range []int{2, 5} {
		w.until(fmt.Sprint(files, " files were sent"), func() bool { return len(w.service.Executions()) >= files })
		sink.stop()
		sink = w.start(config)
	}
	w.settled()
	loaded := int64(0)
	for _, e := range w.service.Executions() {
		loaded += e.Results.Read
		if e.Results.Read > most || e.Status != sandbox.Finished {
			t.Errorf("execution %s: got %d rows, %s, want at most %d, FINISHED", e.ID, e.Results.Read, e.Status, most)
		}
	}
	if loaded != customers {
		t.Errorf("rows of all imports: got %d, want each of %d customers once", loaded, customers)
	}
	for i := range customers {
		if _, ok := w.service.Row("customers", fmt.Sprint("C", i)); !ok {
			t.Errorf("C%d: got no row, want one", i)
		}
	}
}
