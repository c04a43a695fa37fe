//go:build big && linux && !image

package e2e_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// TestThreeMillionRowsGoAsSixFilesInOrder: they wait for one slot, and need six.
func TestThreeMillionRowsGoAsSixFilesInOrder(t *testing.T) {
	const rows, most, files = 3_000_000, 500_000, 6
	w := newWorld(t, func(c *sandbox.Config) {
		c.Tables = slices.Clone(c.Tables)
		c.Tables[0].Discard = true
	})
	w.patience = bigPatience
	config := strings.Replace(mappings, "slotsPerDay: 1000", "slotsPerDay: 2\n      reserve: 1\n      maxFile: {rows: "+strconv.Itoa(most)+"}", 1)
	sink, advance := w.runWithClock(strings.Replace(head, "timeout: 2s", "timeout: 30s", 1) + deadLetters + config)
	address := sink.admin(w)
	w.produce(customer("first", "basic", 1))
	w.until("the day's one import is done", func() bool { return w.loaded() == 1 && w.lag("batch", "customers") == 0 })
	w.produceMany(rows)
	w.until("all rows wait", func() bool {
		return gauge(t, address, "feedsink_unconfirmed_records", `state="waiting for a slot"`) == rows
	})

	for n := range files {
		for range 24 * time.Hour / clockStep {
			if len(w.service.Executions()) > 1+n {
				break
			}
			advance(clockStep)
			gauge(t, address, "feedsink_import_slots_remaining", `table="customers"`)
		}
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
	sink.terminate(t)
}
