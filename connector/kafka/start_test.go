package kafka_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka"
)

// commit writes an offset and metadata for the group, which must be empty.
func (b *broker) commit(topic string, partition int32, offset int64, metadata string) {
	b.t.Helper()
	b.commitOf(group, topic, partition, offset, metadata)
}

// commitOf is the same by another group.
func (b *broker) commitOf(group, topic string, partition int32, offset int64, metadata string) {
	b.t.Helper()
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: topic, Partition: partition, At: offset, LeaderEpoch: -1, Metadata: metadata})
	if err := b.admin.CommitAllOffsets(b.t.Context(), group, os); err != nil {
		b.t.Fatalf("commit: %v", err)
	}
}

// deleteBelow removes the records below offset, as retention does.
func (b *broker) deleteBelow(topic string, partition int32, offset int64) {
	b.t.Helper()
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: topic, Partition: partition, At: offset})
	rs, err := b.admin.DeleteRecords(b.t.Context(), os)
	if err == nil {
		err = rs.Error()
	}
	if err != nil {
		b.t.Fatalf("delete records: %v", err)
	}
}

func (b *broker) recreate(topic string, partitions int32) {
	b.t.Helper()
	if _, err := b.admin.DeleteTopics(b.t.Context(), topic); err != nil {
		b.t.Fatalf("delete topic: %v", err)
	}
	if _, err := b.admin.CreateTopic(b.t.Context(), partitions, 1, nil, topic); err != nil {
		b.t.Fatalf("create topic: %v", err)
	}
}

func (m *member) awaitLog(words string) {
	m.t.Helper()
	eventually(m.t, "the log says: "+words, func() (bool, any) { return m.logs.has(words), m.logs })
}

func (m *member) awaitHalt(topic string, partition int32, words ...string) {
	m.t.Helper()
	eventually(m.t, name(topic, partition)+" is halted", func() (bool, any) {
		for _, p := range m.Partitions() {
			st, _ := p.Status()
			if p.Topic == topic && p.ID == partition && len(st.Halted) == 1 {
				for _, w := range words {
					if !strings.Contains(st.Halted[0], w) {
						m.t.Fatalf("reason of the halt lacks %q: %s", w, st.Halted[0])
					}
				}
				return true, nil
			}
		}
		return false, m.logs
	})
}

func TestRecreatedTopicIsReadFromItsStart(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 10)
	first := b.join(autoLane(t))
	b.awaitCommit("a", 0, 10)
	first.stop()
	old := b.committed("a", 0)
	b.recreate("a", 1)
	b.client.PurgeTopicsFromClient("a")
	// A broker may forget a deleted topic's offsets, or not.
	b.commit("a", 0, old.Offset, old.Metadata)
	b.produce("a", 0, 20)
	second := b.join(autoLane(t))
	second.awaitOffsets("a", 0, upTo(0, 20)...)
	second.awaitLog("belongs to an earlier topic of this name")
	b.awaitCommit("a", 0, 20)
	if _, l := b.ledger("a", 0); l.Topic != ack.TopicID(b.TopicInfo("a").TopicID) {
		t.Errorf("topic id in the ledger: got %x, want that of the new topic", l.Topic)
	}
}

// What the other lane has confirmed of an earlier topic says nothing of the new one: keys that
// both lanes write would not be waited for.
func TestOtherLanesLedgerOfAnEarlierTopicConfirmsNothing(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 10)
	b.otherLeft(10, routes(20, 1, true))
	old := b.otherLedger(10, routes(20, 1, true))
	b.recreate("a", 1)
	b.client.PurgeTopicsFromClient("a")
	b.commitOf(otherGroup, "a", 0, 10, old) // a broker may forget it, or not
	b.produce("a", 0, 5)
	m := b.join(autoLane(t), withRoutes(true))
	m.awaitOffsets("a", 0, upTo(0, 5)...)
	p := m.assignment("a", 0)
	if p.OtherConfirmed(3) || p.OtherPassed("t", 3) || p.OtherWatermark() != 0 {
		t.Errorf("of an earlier topic: got confirmed %v, passed %v and watermark %d, want nothing", p.OtherConfirmed(3), p.OtherPassed("t", 3), p.OtherWatermark())
	}
	b.otherLeft(4, routes(20, 1, true))
	eventually(t, "the new one's is seen", func() (bool, any) { return p.OtherConfirmed(3), p.OtherWatermark() })
}

// slotsLedger has two slots used today.
func slotsLedger(topic ack.TopicID) ack.Ledger {
	return ack.Ledger{Topic: topic, Slots: []ack.Slots{{Table: "customers", Used: []int64{1795000000, 1795003600}}}}
}

// Brokers drop what was committed of a topic together with that.
func TestTopicRecreatedWhileItIsReadKeepsTheDaysSlots(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	l := slotsLedger(ack.TopicID(b.TopicInfo("a").TopicID))
	metadata, _, err := l.Encode(0, ack.MetadataLimit)
	if err != nil {
		t.Fatal(err)
	}
	b.commit("a", 0, 0, metadata)
	b.produce("a", 0, 7)
	m := b.join(autoLane(t))
	b.awaitCommit("a", 0, 7)
	b.recreate("a", 1)
	b.client.PurgeTopicsFromClient("a")
	b.produce("a", 0, 3)
	m.awaitLog("the topic was deleted while it was read")
	b.awaitCommit("a", 0, 3)
	if _, got := b.ledger("a", 0); len(got.Slots) != 1 || len(got.Slots[0].Used) != 2 {
		t.Errorf("slots used today: got %v, want %v", got.Slots, l.Slots)
	}
}

func TestRecreatedTopicKeepsTheDaysSlots(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	l := slotsLedger(ack.TopicID{1})
	metadata, _, err := l.Encode(7, ack.MetadataLimit)
	if err != nil {
		t.Fatal(err)
	}
	b.commit("a", 0, 7, metadata)
	b.join(autoLane(t))
	b.awaitCommit("a", 0, 0)
	if _, got := b.ledger("a", 0); len(got.Slots) != 1 || len(got.Slots[0].Used) != 2 {
		t.Errorf("slots used today: got %v, want %v", got.Slots, l.Slots)
	}
}

func TestUnreadableLedgerRepeatsFromTheCommittedOffset(t *testing.T) {
	t.Parallel()
	good := ack.Ledger{Done: ack.Ranges{{From: 6, To: 8}}}
	damaged, _, err := good.Encode(4, ack.MetadataLimit)
	if err != nil {
		t.Fatal(err)
	}
	for name, metadata := range map[string]string{
		"foreign": "consumer-1-5f6e",
		"damaged": damaged[:len(damaged)-3] + "AAA",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t, 1, "a")
			b.produce("a", 0, 10)
			b.commit("a", 0, 4, metadata)
			m := b.join(autoLane(t))
			m.awaitOffsets("a", 0, upTo(4, 10)...)
			m.awaitLog("the ledger cannot be read")
			b.awaitCommit("a", 0, 10)
			b.ledger("a", 0)
		})
	}
}

func TestPlainCommitOfAToolIsFollowed(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 10)
	b.commit("a", 0, 7, "") // as kafka-consumer-groups --reset-offsets
	m := b.join(autoLane(t))
	m.awaitOffsets("a", 0, 7, 8, 9)
}

func TestLostDataHaltsThePartitionAndNoOther(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 2, "a")
	b.produce("a", 0, 10)
	b.produce("a", 1, 10)
	b.commit("a", 0, 3, "")
	b.deleteBelow("a", 0, 6)
	m := b.join(autoLane(t))
	m.awaitHalt("a", 0, "a[0]", "the committed offset 3 is below the log's start 6", "retention", group, "--reset-offsets")
	b.awaitCommit("a", 1, 10)
	b.produce("a", 1, 5)
	b.awaitCommit("a", 1, 15)
	if got := m.offsets("a", 0); len(got) > 0 {
		t.Errorf("records of the halted partition handed on: got %v, want none", got)
	}
	if got := b.committed("a", 0).Offset; got != 3 {
		t.Errorf("commit of the halted partition: got %d, want 3, where it was", got)
	}
}

func TestOffsetBeyondTheLogHaltsThePartition(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 10)
	b.commit("a", 0, 30, "")
	m := b.join(autoLane(t))
	m.awaitHalt("a", 0, "the committed offset 30 is beyond the log's end 10", "lost by the brokers")
}

func TestRetentionOvertakingARunningReaderHaltsThePartition(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 2, "a")
	m := b.join(autoLane(t))
	b.awaitCommit("a", 0, 0)
	b.awaitCommit("a", 1, 0)
	p := m.assignment("a", 0)
	p.Halt("test", "not read for a while")
	b.produce("a", 1, 1)
	b.awaitCommit("a", 1, 1) // the pause is in place
	b.produce("a", 0, 10)
	b.deleteBelow("a", 0, 5)
	p.Resume("test")
	m.awaitHalt("a", 0, "the next offset to read is not in the log", "retention")
	b.produce("a", 1, 5)
	b.awaitCommit("a", 1, 6)
}

func TestTopicRecreatedWhileItIsReadIsReadFromItsStart(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*kafka.Config){"earliest": func(*kafka.Config) {}, "latest": fromEnd} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t, 2, "a", "b")
			b.produce("a", 0, 10)
			m := b.join(autoLane(t), change)
			b.awaitCommit("a", 0, 10)
			b.awaitCommit("b", 0, 0)
			m.set(func(l *lane) { l.taken = map[string][]int64{} })
			b.recreate("a", 2)
			b.client.PurgeTopicsFromClient("a")
			b.produce("a", 0, 7)
			m.awaitOffsets("a", 0, upTo(0, 7)...)
			b.awaitCommit("a", 0, 7)
			if _, l := b.ledger("a", 0); l.Topic != ack.TopicID(b.TopicInfo("a").TopicID) {
				t.Errorf("topic id in the ledger: got %x, want that of the new topic", l.Topic)
			}
			b.produce("b", 0, 3)
			m.awaitOffsets("b", 0, 0, 1, 2)
		})
	}
}

// A fetch may say nothing of a topic whose id is gone, where the broker's session does not
// know it: that no commit of it is taken is enough.
func TestTopicWhoseCommitsAreRefusedForItsIDIsReadAnew(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	refusals := b.refuseCommits(kerr.UnknownTopicID, -1)
	b.produce("a", 0, 10)
	m := b.join(autoLane(t))
	m.awaitLog("the topic was deleted while it was read")
	refusals.Remove()
	b.awaitCommit("a", 0, 10)
}
