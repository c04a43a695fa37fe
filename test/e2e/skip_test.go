//go:build !image

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/schemas"
)

const (
	testsSkipped = `[{when: 'headers.lane == "none"', lane: skip}, {when: 'headers.lane == "now"', lane: immediate}, {lane: batch}]`
	testsByCall  = `[{when: 'headers.lane in ["none", "now"]', lane: immediate}, {lane: batch}]`
	testsByFile  = `[{when: 'headers.lane == "now"', lane: immediate}, {lane: batch}]`
)

// none has a record be skipped.
func none(r *kgo.Record) *kgo.Record {
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: "lane", Value: []byte("none")})
	return r
}

// counts waits for a line of the metrics.
func (w *world) counts(sink *running, outcome string, n int) {
	w.t.Helper()
	line := fmt.Sprintf(`feedsink_records_total{outcome=%q,topic=%q} %d`, outcome, w.topic("orders"), n)
	w.until(line, func() bool { return strings.Contains(get(w.t, sink.AdminAddress(), "/metrics"), line+"\n") })
}

func TestSkippedRecordsAreConfirmedAndCountedByOneLane(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	immediate := w.only(schemas.Immediate, testsSkipped)
	// The lane that is alone does not wait for the other one with what is skipped.
	gone := order("o3", "NONE", 1)
	gone.Value = nil
	w.produce(none(order("o1", "NONE", 1)), none(change("delete", "o2", "")), none(gone))
	w.arrived("immediate")
	w.counts(immediate, "skipped", 3)
	batch := w.only(schemas.Batch, testsSkipped)
	w.arrived("batch") // before the other lane can have gone on: it begins where that one stands
	w.produce(now(order("o4", "NOW", 1)), order("o5", "FILE", 1), none(order("o5", "NONE", 2)), none(order("o4", "NONE", 2)))
	w.bothSettled()
	w.ordersAre(map[string]string{"o1": "", "o4": "1 NOW", "o5": "1 FILE"})
	w.noDeadLetters()
	w.counts(immediate, "skipped", 5)
	w.counts(batch, "other_lane", 3)
}

// TestRoutesThatDoNotSkipAnyMoreLoseNothing changes the routes of a lane that is
// behind: the other one has skipped what is its own now.
func TestRoutesThatDoNotSkipAnyMoreLoseNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, routes string
		ahead        schemas.Lane
	}{
		{"call-immediate-ahead", testsByCall, schemas.Immediate},
		{"call-batch-ahead", testsByCall, schemas.Batch},
		{"row-immediate-ahead", testsByFile, schemas.Immediate},
		{"row-batch-ahead", testsByFile, schemas.Batch},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, withBothETLs)
			both := w.start(routed(testsSkipped))
			w.produce(now(order("o1", "NOW", 1)), order("o2", "FILE", 1))
			w.bothSettled()
			both.stop()
			ahead := w.only(c.ahead, testsSkipped)
			w.produce(none(order("o3", "NONE", 1)))
			w.arrived(c.ahead.String())
			ahead.stop()
			w.start(routed(c.routes))
			w.bothSettled()
			w.ordersAre(map[string]string{"o1": "1 NOW", "o2": "1 FILE", "o3": "1 NONE"})
			w.noDeadLetters()
		})
	}
}

func TestRecordThatNoMappingTakesIsSkipped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withBothETLs)
	yaml := strings.Replace(routed(nowByCall), "    key: businessKey", "    key: businessKey\n    when: 'properties.status != \"DRAFT\"'", 1)
	sink := w.start(yaml)
	w.produce(now(order("o1", "NOW", 1)), order("o2", "FILE", 1))
	w.bothSettled() // neither lane begins behind the drafts, where the other one stands
	w.produce(order("o3", "DRAFT", 1), now(order("o1", "DRAFT", 2)))
	w.bothSettled()
	w.ordersAre(map[string]string{"o1": "1 NOW", "o2": "1 FILE", "o3": ""})
	w.noDeadLetters()
	w.counts(sink, "skipped", 2)
}
