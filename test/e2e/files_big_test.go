//go:build big && linux && !image

package e2e_test

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
)

// TestThreeMillionRowsGoAsSixFilesInOrder: they wait for one slot, and need six.
func TestThreeMillionRowsGoAsSixFilesInOrder(t *testing.T) {
	const rows, most, files = 3_000_000, 500_000, 6
	w := newBigWait(t, fmt.Sprintf("{rows: %d}", most), rows)
	for n := range files {
		w.day(func() bool { return len(w.service.Executions()) > 1+n })
		w.until("a file is in the table", func() bool { return w.loaded() == 1+most*int64(n+1) })
	}
	w.until("all rows are confirmed", func() bool { return w.lag("batch", "customers") == 0 })
	executions := w.service.Executions()
	if len(executions) != 1+files {
		t.Fatalf("imports: got %d, want the first and one for each of %d files", len(executions), files)
	}
	last := map[int]int{} // the last row of each partition
	for _, e := range executions[1:] {
		if e.Results.Read != most {
			t.Errorf("%s: got %d rows, want %d", e.File, e.Results.Read, most)
		}
		newest := map[int]int{}
		for _, key := range e.Loads[0].Keys {
			row, err := strconv.Atoi(strings.TrimPrefix(key, "C"))
			if err != nil {
				t.Fatal(err)
			}
			p := row % partitions
			if before, is := last[p]; is && row <= before {
				t.Fatalf("%s: row %d of partition %d goes in it, behind row %d in a file before", e.File, row, p, before)
			}
			newest[p] = max(newest[p], row)
		}
		maps.Copy(last, newest)
	}
	w.sink.terminate(t)
}
