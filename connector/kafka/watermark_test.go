package kafka_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka"
)

func TestOnlyTheWatermarkIsCommitted(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 10)
	m := b.join(newLane(t))
	m.awaitOffsets("a", 0, upTo(0, 10)...)
	m.confirm("a", 0, 0, 1, 4, 5, 9)
	b.awaitDone("a", 0, "[{4 6} {9 10}]")
	if offset, _ := b.ledger("a", 0); offset != 2 {
		t.Errorf("committed with 2 and 3 pending: got %d, want 2", offset)
	}
	m.confirm("a", 0, 3, 2)
	b.awaitDone("a", 0, "[{9 10}]")
	if offset, _ := b.ledger("a", 0); offset != 6 {
		t.Errorf("committed with 6 to 8 pending: got %d, want 6", offset)
	}
}

func TestRestartSkipsExactlyWhatWasConfirmed(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 12)
	first := b.join(newLane(t))
	first.awaitOffsets("a", 0, upTo(0, 12)...)
	first.confirm("a", 0, 0, 1, 3, 4, 8)
	first.stop() // the last commit carries what no tick has committed yet
	b.awaitDone("a", 0, "[{3 5} {8 9}]")

	second := b.join(autoLane(t))
	second.awaitOffsets("a", 0, 2, 5, 6, 7, 9, 10, 11)
	b.awaitCommit("a", 0, 12)
	b.awaitDone("a", 0, "[]")
}

func TestEveryCommitCarriesALedger(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 3, "a")
	var mu sync.Mutex
	var bad []string
	commits := 0
	b.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		for _, topic := range req.(*kmsg.OffsetCommitRequest).Topics {
			for _, p := range topic.Partitions {
				commits++
				if p.Metadata == nil {
					bad = append(bad, "none")
				} else if l, err := ack.Decode(*p.Metadata, p.Offset); err != nil || l.Topic == (ack.TopicID{}) {
					bad = append(bad, fmt.Sprintf("%q: %v", *p.Metadata, err))
				}
			}
		}
		return nil, nil, false
	})
	b.produce("a", 0, 100)
	first := b.join(autoLane(t))
	b.awaitCommit("a", 0, 100)
	second := b.join(autoLane(t))
	b.awaitMembers(2)
	b.produce("a", 0, 100)
	b.produce("a", 1, 100)
	b.awaitCommit("a", 0, 200)
	b.awaitCommit("a", 1, 100)
	first.stop()
	second.stop()
	mu.Lock()
	defer mu.Unlock()
	if commits == 0 || len(bad) > 0 {
		t.Errorf("commits without a ledger: got %d of %d %v, want none", len(bad), commits, bad)
	}
	topic := b.TopicInfo("a").TopicID
	for id := range int32(3) {
		if _, l := b.ledger("a", id); l.Topic != ack.TopicID(topic) {
			t.Errorf("topic id in the ledger of a[%d]: got %x, want %x", id, l.Topic, topic)
		}
	}
}

func TestStartAtLatestSkipsTheLogOnlyOnce(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 5)
	fromEnd := func(c *kafka.Config) { c.FromEnd = true }
	first := b.join(autoLane(t), fromEnd)
	b.awaitCommit("a", 0, 5)
	first.stop()
	b.produce("a", 0, 3) // while nobody is there: not to be skipped
	second := b.join(autoLane(t), fromEnd)
	second.awaitOffsets("a", 0, 5, 6, 7)
	if got := first.offsets("a", 0); len(got) > 0 {
		t.Errorf("records handed on from before the start: got %v, want none", got)
	}
}

func TestStatusTellsOffsetsAndPending(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 4)
	m := b.join(newLane(t))
	m.awaitOffsets("a", 0, 0, 1, 2, 3)
	m.confirm("a", 0, 0, 2)
	b.awaitDone("a", 0, "[{2 3}]")
	want := kafka.PartitionStatus{Topic: "a", Committed: 1, Watermark: 1, Position: 4, Pending: 2}
	eventually(t, "status", func() (bool, any) {
		got, ok := m.Partitions()[0].Status()
		return ok && fmt.Sprint(got) == fmt.Sprint(want), fmt.Sprintf("%+v", got)
	})
	if got := m.Pending(); got != 2 {
		t.Errorf("pending of the source: got %d, want 2", got)
	}
	if !m.Joined() {
		t.Error("joined with its ledger read: got false, want true")
	}
}
