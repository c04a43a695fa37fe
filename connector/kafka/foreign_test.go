package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/feedsink/feedsink/connector/ack"
)

func TestWhatGoesWithALedgerIsSaid(t *testing.T) {
	t.Parallel()
	for name, metadata := range map[string]string{"reset by another tool": "", "written by another one": "consumer-1-5f6e"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t, 1, "a")
			b.produce("a", 0, 10)
			b.commit("a", 0, 7, metadata)
			m := b.join(autoLane(t))
			m.awaitOffsets("a", 0, 7, 8, 9)
			for _, words := range []string{"Forgotten", "beyond it are confirmed", "which imports run", "the day's slots", "which mappings were paused, or halted", "offset=7"} {
				m.awaitLog(words)
			}
		})
	}
}

// A broker that tells no topic ids answers zero; after its upgrade it tells them.
func TestTopicIDThatIsNotKnownIsNotAnotherTopic(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 10)
	metadata, _, err := (&ack.Ledger{Done: ack.Ranges{{From: 8, To: 9}}}).Encode(7, ack.MetadataLimit)
	if err != nil {
		t.Fatal(err)
	}
	b.commit("a", 0, 7, metadata)
	m := b.join(autoLane(t))
	m.awaitOffsets("a", 0, 7, 9)
	b.awaitCommit("a", 0, 10)
	if _, l := b.ledger("a", 0); l.Topic != ack.TopicID(b.TopicInfo("a").TopicID) {
		t.Errorf("topic id in the ledger: got %x, want the one that is known by now", l.Topic)
	}
}

func TestBrokerWithoutTopicIDsReadsTheLedgerOfOneWithThem(t *testing.T) {
	t.Parallel()
	b := newBrokerOf(t, kfake.SeedTopics(1, "a"), kfake.MaxVersions(kversion.V2_7_0()))
	b.produce("a", 0, 10)
	before := ack.Ledger{Topic: ack.TopicID{1}, Done: ack.Ranges{{From: 8, To: 9}}}
	metadata, _, err := before.Encode(7, ack.MetadataLimit)
	if err != nil {
		t.Fatal(err)
	}
	b.commit("a", 0, 7, metadata)
	m := b.join(autoLane(t))
	m.awaitOffsets("a", 0, 7, 9)
	b.awaitCommit("a", 0, 10)
	if _, l := b.ledger("a", 0); l.Topic != before.Topic {
		t.Errorf("topic id in the ledger: got %x, want the one that was known", l.Topic)
	}
}
