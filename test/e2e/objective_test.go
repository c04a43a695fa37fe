package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// TestConfirmedRecordsCountUnderTheObjectiveOfTheirRoute: once each, by the way they went,
// as in time or late.
func TestConfirmedRecordsCountUnderTheObjectiveOfTheirRoute(t *testing.T) {
	t.Parallel()
	const many, few = 300, 10 // many of a partition are read ahead
	for name, tc := range map[string]struct {
		routes  string
		records int            // old ones, and as many new ones
		latency time.Duration  // of calls
		refused bool           // calls are
		want    map[string]int // by labels
	}{
		"calls in time": {
			routes: `[{when: 'properties.status == "old"', lane: immediate}, {lane: immediate, within: 1m, name: fresh}]`, records: many,
			want: map[string]int{`kept="yes",mapping="orders",route="fresh"`: many, `kept="no",mapping="orders",route="fresh"`: 0},
		},
		"slow calls": {
			routes: `[{when: 'properties.status == "old"', lane: immediate}, {lane: immediate, within: 1s}]`, records: few, latency: 1200 * time.Millisecond,
			want: map[string]int{`kept="yes",mapping="orders",route="2"`: 0, `kept="no",mapping="orders",route="2"`: few},
		},
		"files": {
			routes: `[{when: 'properties.status == "old"', lane: batch, within: 1h}, {lane: batch, within: 1h, name: rest}]`, records: many,
			want: map[string]int{
				`kept="yes",mapping="orders",route="1"`: 0, `kept="no",mapping="orders",route="1"`: many,
				`kept="yes",mapping="orders",route="rest"`: many, `kept="no",mapping="orders",route="rest"`: 0,
			},
		},
		"calls in the place of rows": {
			routes: `[{lane: auto, within: 1h}]`, records: many,
			want: map[string]int{`kept="yes",mapping="orders",route="1"`: many, `kept="no",mapping="orders",route="1"`: many},
		},
		"rows whose calls come to nothing": {
			routes: `[{lane: auto, within: 1h}]`, records: many, refused: true,
			want: map[string]int{`kept="yes",mapping="orders",route="1"`: many, `kept="no",mapping="orders",route="1"`: many},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withOrdersETL)
			w.service.SetLatency(4, tc.latency)
			if tc.refused {
				w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4}, Answer: sandbox.Status(503)})
			}
			w.produce(aged(tc.records)...)
			sink := w.start(head + deadLetters + strings.Replace(mappings, "    routes: [{lane: immediate}]\n", "    routes: "+tc.routes+`
    imports: {upsert: {etl: "103", mode: CREATE_OR_UPDATE}, columns: [businessKey, seq, status], roll: {age: 1s}, slotsPerDay: 1000}
`, 1))
			told := func() string { return get(t, sink.AdminAddress(), "/metrics") }
			for labels, n := range tc.want {
				if labels = "feedsink_objective_records_total{" + labels + "}"; !strings.Contains(told(), labels+" ") {
					t.Errorf("at the start: want a series %s", labels)
				}
				w.until(fmt.Sprintf("%s is %d", labels, n), func() bool { return strings.Contains(told(), fmt.Sprintf("%s %d\n", labels, n)) })
			}
			if got := strings.Count(told(), "\nfeedsink_objective_records_total{"); got != len(tc.want) {
				t.Errorf("series: got %d, want %d", got, len(tc.want))
			}
		})
	}
}

// aged are as many orders that were written two hours ago, and as many that are new, in
// two partitions.
func aged(n int) (records []*kgo.Record) {
	for i := range 2 * n {
		r := order(fmt.Sprint("O", i), "new", i)
		if i < n {
			r = order(fmt.Sprint("O", i), "old", i)
			r.Timestamp = time.Now().Add(-2 * time.Hour)
		}
		records = append(records, r)
	}
	return records
}
