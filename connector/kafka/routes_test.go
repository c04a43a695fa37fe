package kafka_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka"
)

const otherGroup = "feedsink-other"

// routes is what a ledger says that applies the routes with this fingerprint.
func routes(changed int64, fingerprint uint64, shared bool) ack.Routes {
	return ack.Routes{Changed: changed, Shared: shared, Epochs: []ack.Epoch{{Fingerprint: fingerprint}}}
}

// otherLedger is the metadata of a commit of the other lane.
func (b *broker) otherLedger(at int64, r ack.Routes) string {
	b.t.Helper()
	l := ack.Ledger{Topic: ack.TopicID(b.TopicInfo("a").TopicID), Routes: r}
	metadata, _, err := l.Encode(at, ack.MetadataLimit)
	if err != nil {
		b.t.Fatal(err)
	}
	return metadata
}

// otherLeft commits a ledger of the other lane, which has no members.
func (b *broker) otherLeft(at int64, r ack.Routes) {
	b.t.Helper()
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: "a", At: at, LeaderEpoch: -1, Metadata: b.otherLedger(at, r)})
	if err := b.admin.CommitAllOffsets(b.t.Context(), otherGroup, os); err != nil {
		b.t.Fatal(err)
	}
}

// withRoutes are the routes of the topic, fingerprint 1, for a lane that shares it or
// is alone.
func withRoutes(shared bool) func(*kafka.Config) {
	return func(c *kafka.Config) {
		l := ack.LaneRoutes{Fingerprints: []uint64{1}, Shared: shared}
		if !shared {
			l.Alone = l.Fingerprints
		}
		c.Other, c.TopicOf = otherGroup, func(string) kafka.TopicRoutes { return kafka.TopicRoutes{LaneRoutes: l} }
	}
}

func (m *member) awaitWaiting(words string) {
	m.t.Helper()
	eventually(m.t, "the partition waits: "+words, func() (bool, any) {
		for _, p := range m.Partitions() {
			if st, ok := p.Status(); ok {
				return strings.Contains(st.Waiting, words), st.Waiting
			}
		}
		return false, nil
	})
}

func TestLaneWaitsWhileTheOtherOneTakesEverything(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 5)
	b.left(0, 2, ack.Ledger{Routes: routes(20, 1, true)})
	b.otherLeft(3, routes(30, 2, false))
	m := b.join(autoLane(t), withRoutes(true))
	m.awaitWaiting("takes all records of the partition")
	if got := m.offsets("a", 0); len(got) > 0 {
		t.Errorf("offsets handed on: got %v, want none", got)
	}
	b.otherLeft(3, routes(40, 1, true)) // it shares the partition, though it waits itself
	m.awaitOffsets("a", 0, 2, 3, 4)
	if st, _ := m.assignment("a", 0).Status(); st.Waiting != "" {
		t.Errorf("waits for: got %q, want nothing", st.Waiting)
	}
}

// TestLaneThatIsToBeAloneLooksForMembersOnceThatIsOnRecord: one that joins the other
// group before sees nothing that would have it wait.
func TestLaneThatIsToBeAloneLooksForMembersOnceThatIsOnRecord(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 5)
	var refuses atomic.Bool
	var looks atomic.Int64
	refuses.Store(true)
	b.ControlKey(kmsg.OffsetCommit.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		return nil, errors.New("refused"), refuses.Load()
	})
	b.ControlKey(kmsg.OffsetFetch.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		looks.Add(1)
		return nil, nil, false
	})
	m := b.join(autoLane(t), withRoutes(false))
	t.Cleanup(func() { refuses.Store(false) })
	eventually(t, "the lane looks at the other one again and again", func() (bool, any) {
		got := looks.Load()
		return got > 10, got
	})
	if got := m.offsets("a", 0); len(got) > 0 {
		t.Errorf("offsets handed on before the ledger is on record: got %v, want none", got)
	}
	refuses.Store(false)
	m.awaitOffsets("a", 0, upTo(0, 5)...)
	if m.logs.has("has let go") {
		t.Error("log: got a word of the other lane, want none where nothing was waited for")
	}
}

func TestLaneThatIsToBeAloneReadsAgainWhatTheOtherHasGoneBackTo(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 10)
	b.left(0, 8, ack.Ledger{Routes: routes(20, 2, true)})
	b.otherLeft(6, ack.Routes{Changed: 30, Shared: true, Epochs: []ack.Epoch{{Fingerprint: 2}}, Peer: ack.Peer{Changed: 20, Watermark: 8}})
	client, err := kgo.NewClient(kgo.SeedBrokers(b.ListenAddrs()...), kgo.ConsumerGroup(otherGroup), kgo.ConsumeTopics("a"), kgo.DisableAutoCommit())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	client.PollFetches(t.Context())
	m := b.join(autoLane(t), withRoutes(false))
	m.awaitWaiting("still owns the partition")
	if got := m.offsets("a", 0); len(got) > 0 {
		t.Errorf("offsets handed on: got %v, want none", got)
	}
	back := b.otherLedger(4, ack.Routes{Changed: 40, Shared: true, Epochs: []ack.Epoch{{Fingerprint: 3}}, Peer: ack.Peer{Changed: 20, Watermark: 8}})
	ctx := kgo.PreCommitFnContext(t.Context(), func(req *kmsg.OffsetCommitRequest) error {
		req.Topics[0].Partitions[0].Metadata = &back
		return nil
	})
	client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{"a": {0: {Epoch: -1, Offset: 4}}},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			if err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
				t.Errorf("commit of the other lane: %v, %+v", err, resp)
			}
		})
	client.Close()
	m.awaitOffsets("a", 0, upTo(4, 10)...)
}

// TestRecordsThatAFileOfFormerRoutesMayHaveOverwrittenAreReadAgain: they may have been
// left to the other lane, and be in the ledger as confirmed, before that file landed.
func TestRecordsThatAFileOfFormerRoutesMayHaveOverwrittenAreReadAgain(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 10)
	b.left(0, 5, ack.Ledger{Imports: []ack.Import{running("customers", 7)}, Routes: routes(20, 1, true)})
	b.otherLeft(3, routes(30, 1, true))
	m := b.join(autoLane(t), withRoutes(true))
	b.awaitDone("a", 0, "[{5 10}]")
	p := m.assignment("a", 0)
	if err := m.StartOver(t.Context(), ack.Import{Table: "customers"}, []*kafka.Claim{p.Adopted()[0].Claim}, true); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the records are handed on again", func() (bool, any) {
		got := m.offsets("a", 0)
		n := 0
		for _, offset := range got {
			if offset >= 7 {
				n++
			}
		}
		return n == 6, got
	})
}

func TestRecordMayBeTheOtherLanesIfItIsOlderThanTheRoutesOfOneOfThem(t *testing.T) {
	t.Parallel()
	const changed = 1_795_000_000_000
	before, since := time.UnixMilli(changed-1), time.UnixMilli(changed+1)
	first := routes(changed, 1, true)
	first.First = true
	epoch := first
	epoch.Epochs = []ack.Epoch{{Fingerprint: 1, From: 4}}
	for name, c := range map[string]struct {
		own, other ack.Routes
		written    time.Time
		offset     int64
		want       bool
	}{
		"both began with these routes":              {first, first, before, 4, false},
		"the other lane has changed its routes":     {first, routes(changed, 1, true), before, 4, true},
		"it had when the record was written":        {first, routes(changed, 1, true), since, 4, false},
		"this lane has changed its routes":          {routes(changed, 1, true), first, before, 4, true},
		"it had, too, when the record was written":  {routes(changed, 1, true), first, since, 4, false},
		"the other lane applies other routes":       {first, routes(changed, 2, true), since, 4, true},
		"the other lane applies them from there on": {first, epoch, since, 4, false},
		"and not before":                            {first, epoch, since, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t, 1, "a")
			b.produce("a", 0, 5)
			b.left(0, 3, ack.Ledger{Routes: c.own})
			b.otherLeft(3, c.other)
			m := b.join(autoLane(t), withRoutes(true))
			m.awaitOffsets("a", 0, 3, 4)
			if got := m.assignment("a", 0).OtherRouted(c.offset, c.written); got != c.want {
				t.Errorf("may be the other lane's: got %v, want %v", got, c.want)
			}
		})
	}
}
