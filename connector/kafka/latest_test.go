package kafka_test

import (
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/kafka"
)

func fromEnd(c *kafka.Config) { c.FromEnd, c.MetadataMaxAge = true, 1100*time.Millisecond }

func (b *broker) addPartitions(topic string, all int) {
	b.t.Helper()
	if _, err := b.admin.UpdatePartitions(b.t.Context(), all, topic); err != nil {
		b.t.Fatalf("add partitions: %v", err)
	}
	b.client.PurgeTopicsFromClient(topic) // or it would produce to the partitions it knows
}

func TestPartitionAddedWhileRunningIsReadFromItsStartUnderLatest(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 7)
	m := b.join(autoLane(t), fromEnd)
	b.awaitCommit("a", 0, 7)
	b.addPartitions("a", 2)
	b.produce("a", 1, 5) // before the member knows of the partition
	m.awaitOffsets("a", 1, upTo(0, 5)...)
	b.awaitCommit("a", 1, 5)
	m.awaitOffsets("a", 0)
}

func TestPartitionAddedWhileStoppedIsReadFromItsStartUnderLatest(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	first := b.join(autoLane(t), fromEnd)
	b.awaitCommit("a", 0, 0)
	first.stop()
	b.addPartitions("a", 2)
	b.produce("a", 0, 3)
	b.produce("a", 1, 5)
	second := b.join(autoLane(t), fromEnd)
	second.awaitOffsets("a", 0, upTo(0, 3)...)
	second.awaitOffsets("a", 1, upTo(0, 5)...)
}

func TestTopicMadeWhileRunningIsReadFromItsStartUnderLatest(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	m := b.join(autoLane(t), fromEnd, func(c *kafka.Config) { c.Topics = []string{"a", "b"} })
	b.awaitCommit("a", 0, 0)
	if _, err := b.admin.CreateTopic(t.Context(), 1, 1, nil, "b"); err != nil {
		t.Fatal(err)
	}
	b.produce("b", 0, 5)
	m.awaitOffsets("b", 0, upTo(0, 5)...)
}

// Another member of the first start may have committed already: that does not make
// this one's partitions new ones. And what comes while the group forms is read.
func TestLatestIsWhereTheLogsEndedBeforeTheGroupWasJoined(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 2, "a")
	b.produce("a", 0, 10)
	b.produce("a", 1, 10)
	joining, goOn := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(joining) })
	b.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		once()
		b.SleepControl(func() { <-goOn })
		return nil, nil, false
	})
	m := b.join(autoLane(t), fromEnd)
	<-joining
	b.commit("a", 0, 10, "") // the other member's
	b.produce("a", 1, 3)
	close(goOn)
	m.awaitOffsets("a", 1, 10, 11, 12)
	b.awaitCommit("a", 1, 13)
	m.awaitOffsets("a", 0)
}

func TestEarliestReadsAddedPartitionsFromTheirStart(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	m := b.join(autoLane(t), fromEnd, func(c *kafka.Config) { c.FromEnd = false })
	b.awaitCommit("a", 0, 0)
	b.addPartitions("a", 2)
	b.produce("a", 1, 5)
	m.awaitOffsets("a", 1, upTo(0, 5)...)
}
