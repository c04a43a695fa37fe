package replay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/schemas"
)

// routed has the immediate lane commit all of a topic, with the mapping's routes counting from an offset on.
func (w *world) routed(mapping, topic string, from, upTo int64) {
	w.t.Helper()
	routes := ack.Routes{Changed: 1000, Epochs: []ack.Epoch{{Fingerprint: w.router.Mapping(mapping).Routes, From: from}}}
	metadata, _, err := (&ack.Ledger{Routes: routes}).Encode(upTo, 4096)
	if err != nil {
		w.t.Fatal(err)
	}
	commits := map[cluster.TopicPartition]cluster.Commit{{Topic: topic}: {Offset: upTo, Metadata: metadata}}
	if err := w.reader.Commit(w.t.Context(), schemas.Immediate.Group("sink"), commits); err != nil {
		w.t.Fatal(err)
	}
}

// A newer record of the key that the mapping does not take now may have been applied under its former routes.
func TestLetterBehindARecordOfFormerRoutesIsLeft(t *testing.T) {
	sale := func(key, properties string) *kgo.Record {
		r := order(key, "upsert", properties)
		r.Topic = divided
		return r
	}
	for name, c := range map[string]struct {
		since int64 // the present routes count from there on; -1: no ledger says so
		newer []*kgo.Record
		tried bool
		left  int
	}{
		"under the present routes":       {since: 0, newer: []*kgo.Record{sale("C", `{"a":2,"file":1}`)}},
		"under former routes":            {since: 2, newer: []*kgo.Record{sale("C", `{"a":2,"file":1}`)}, left: 1},
		"nobody knows":                   {since: -1, newer: []*kgo.Record{sale("C", `{"a":2,"file":1}`)}, left: 1},
		"of another key":                 {since: 2, newer: []*kgo.Record{sale("D", `{"a":2,"file":1}`)}},
		"before one that replaces it":    {since: 2, newer: []*kgo.Record{sale("C", `{"a":2,"file":1}`), sale("C", `{"a":3}`)}},
		"before one that replaces a try": {since: 2, newer: []*kgo.Record{sale("C", `{"a":2,"file":1}`), sale("C", `{"a":3}`)}, tried: true},
		"behind one that replaces a try": {since: 3, newer: []*kgo.Record{sale("C", `{"a":3}`), sale("C", `{"a":2,"file":1}`)}, tried: true, left: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			why := refused
			why.Mapping = "called"
			w.deadLetter(w.produce(sale("C", `{"a":1}`))[0], why)
			w.caughtUp()
			if c.tried {
				w.killed()
			}
			w.produce(c.newer...)
			w.caughtUp()
			if c.since >= 0 {
				w.routed("called", divided, c.since, int64(1+len(c.newer)))
			}
			report := w.run(nil)
			if got := report.Left[replay.Unknowable]; got != c.left {
				t.Errorf("got %+v, want %d left", report, c.left)
			}
			if c.left == 0 {
				return
			}
			if n := report.Notes[0]; !strings.Contains(n.Message, "former routes") || !strings.Contains(n.Message, "--assume-newest") {
				t.Errorf("got note %+v, want the reason and what to do", n)
			}
			if report = w.run(func(r *replay.Replay) { r.AssumeNewest = true }); !report.Ended() {
				t.Errorf("assumed to be the newest: got %+v, want it ended", report)
			}
		})
	}
}

// After partitions were added a key's newer records are in another one.
func TestLetterWhoseKeyGoesToAnotherPartitionSinceIsLeft(t *testing.T) {
	for name, newer := range map[string]bool{"with newer records there": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			moved, stays := "", "" // keys
			for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
				if cluster.PartitionOf([]byte(key), 4) == 0 {
					stays = key
				} else {
					moved = key
				}
			}
			r := w.produce(order(moved, "upsert", `{"a":1}`), order(stays, "upsert", `{"a":1}`))
			w.deadLetter(r[0], refused)
			w.deadLetter(r[1], refused)
			if _, err := w.admin.UpdatePartitions(t.Context(), 4, custom); err != nil {
				t.Fatal(err)
			}
			w.client.PurgeTopicsFromClient(custom)
			w.shows(4)
			if newer {
				late := order(moved, "upsert", `{"a":2}`)
				late.Timestamp = time.Now().Add(time.Second)
				w.produce(late)
			}
			w.caughtUp()
			report, left := w.run(nil), 0
			if newer {
				left = 1
			}
			if report.Left[replay.Unknowable] != left || report.Applied != 2-left {
				t.Fatalf("got %+v, want %d left", report, left)
			}
			if !newer {
				return
			}
			if n := report.Notes[0]; !strings.Contains(n.Message, "partitions were added") || !strings.Contains(n.Message, "--assume-newest") {
				t.Errorf("got note %+v, want the reason and what to do", n)
			}
			if report = w.run(func(r *replay.Replay) { r.AssumeNewest = true }); report.Applied != 1 {
				t.Errorf("assumed to be the newest: got %+v, want it applied", report)
			}
		})
	}
}

// What former routes may have applied of the span is said.
func TestBackfillSaysWhereFormerRoutesMayHaveApplied(t *testing.T) {
	for since, want := range map[int64]int{0: 0, 1: 0, 2: 1} {
		w := newWorld(t)
		for _, properties := range []string{`{"a":1}`, `{"a":2,"file":1}`, `{"a":3,"file":1}`} {
			r := order("C", "upsert", properties)
			r.Topic = divided
			w.produce(r)
		}
		w.caughtUp()
		w.routed("called", divided, since, 3)
		report := w.filled("called", nil)
		if len(report.Former) != want || want > 0 && (!strings.HasPrefix(report.Former[0], "sales[0]@1 is not taken") || !strings.Contains(report.Text(), report.Former[0])) {
			t.Errorf("routes that count from offset %d: got %q, want %d", since, report.Former, want)
		}
	}
}

// The state of a key behind which former routes may have applied a record is not sent, and no difference.
func TestBackfillLeavesKeysBehindRecordsOfFormerRoutes(t *testing.T) {
	for since, left := range map[int64]int{0: 0, 4: 1} {
		w := newWorld(t)
		for _, r := range []*kgo.Record{order("C", "upsert", `{"a":1}`), order("C", "upsert", `{"a":2,"file":1}`), order("D", "upsert", `{"a":2,"file":1}`), order("D", "upsert", `{"a":3}`)} {
			r.Topic = divided
			w.produce(r)
		}
		w.caughtUp()
		w.routed("called", divided, since, 4)
		judged, _, err := w.looked(replay.Looking{}, func(b *replay.Backfill) { b.Mapping = w.router.Mapping("called") }, nil)
		if err != nil || len(judged) != 2-left {
			t.Errorf("routes that count from offset %d: got %q judged, %v, want %d", since, judged, err, 2-left)
		}
		report := w.filled("called", nil)
		if report.Left[replay.Unknowable] != int64(left) || report.Sent != int64(2-left) || w.value("D", "a") != "3" {
			t.Errorf("routes that count from offset %d: got %+v and calls %q, want %d left", since, report, w.calls, left)
		}
		if left == 0 {
			continue
		}
		if n := report.Notes[0]; n.Record != "sales[0]@0" || !strings.Contains(n.Message, "sales[0]@1") || !strings.Contains(n.Message, "--assume-newest") {
			t.Errorf("got note %+v, want the reason and what to do", n)
		}
		if report = w.filled("called", func(b *replay.Backfill) { b.Replay.AssumeNewest = true }); report.Sent != 2 {
			t.Errorf("assumed to be the newest: got %+v, want both sent", report)
		}
	}
}
