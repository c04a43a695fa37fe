package ops

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/flood"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/oneshot"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// counting is a service whose import has FINISHED with these counters.
type counting struct {
	oneshot.Service
	service.Counters
}

func (c counting) Results(context.Context, string) (service.Results, error) {
	return service.Results{Status: service.Finished, Counters: c.Counters}, nil
}

// customers is a mapping with both lanes.
func customers(t *testing.T) *router.Compiled {
	t.Helper()
	t.Setenv("FEEDSINK_SECRETS", t.TempDir()) // which has none
	file, err := config.Read("../../deploy/examples/two-lanes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := file.ForSamples(func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	m, err := compiled(cfg, "customers")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A ledger that no member writes any more still shows a pause that was ended since.
func TestPauseThatWasEndedHoldsUpNoBackfill(t *testing.T) {
	m := customers(t)
	of := &tableImports{mappings: []*router.Compiled{m}}
	said := func(at int64, resumed bool) []ack.Pause {
		return []ack.Pause{{Mapping: flood.HashOf(m.Name), At: at, Resumed: resumed, Reason: "rebuilt"}}
	}
	place := cluster.TopicPartition{Topic: m.Config.Topics[0]}
	l := ledgers{pauses: map[schemas.Lane]map[cluster.TopicPartition][]ack.Pause{
		schemas.Immediate: {place: said(1, false)}, schemas.Batch: {place: said(2, true)},
	}}
	nobodys := func(ack.Pause) bool { return false }
	if why := l.byPerson(of, nobodys); why != "" {
		t.Errorf("resumed: got %q, want nothing", why)
	}
	l.pauses[schemas.Batch][place] = nil
	if l.byPerson(of, nobodys) == "" {
		t.Error("paused: got nothing, want that a person has paused it")
	}
}

func TestBackfillByFileLearnsHowManyRowsWereRead(t *testing.T) {
	m := customers(t)
	const unknown = service.Unknown
	for _, c := range []struct {
		counters            service.Counters
		rows, read, inError int64
		unread              bool
	}{
		{service.Counters{Read: 400, InError: 0, Inserted: 400, Updated: 0, Deleted: 0}, 1000, 400, 0, true},
		{service.Counters{Read: 1000, InError: 3, Inserted: 997, Updated: 0, Deleted: 0}, 1000, 0, 3, false},
		{service.Counters{Read: 400, InError: 0, Inserted: 400, Updated: 0, Deleted: 0}, 0, 0, 0, false},
		{service.Counters{Read: unknown, InError: unknown, Inserted: unknown, Updated: unknown, Deleted: unknown}, 1000, 0, -1, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			im := &tableImports{options: &BackfillOptions{BackfillConfig: replay.BackfillConfig{Mapping: m}}, api: counting{Counters: c.counters}, zone: time.UTC}
			end, err := im.Await(t.Context(), "17", c.rows, func() {})
			if err != nil || end.Unread != c.unread || end.Read != c.read || end.InError != c.inError || end.Failed {
				t.Errorf("%d rows: got %+v, %v, want unread %v, read %d and %d in error", c.rows, end, err, c.unread, c.read, c.inError)
			}
		})
	}
}

// TestBackfillByFilePacksAsOperation8Takes: GZIP is for triggered imports.
func TestBackfillByFilePacksAsOperation8Takes(t *testing.T) {
	for compression, want := range map[string]string{"": "ZIP", "GZIP": "ZIP", "ZIP": "ZIP", "NONE": "NONE"} {
		if got := packedByHand(compression); got != want {
			t.Errorf("%q: got %s, want %s", compression, got, want)
		}
	}
}
