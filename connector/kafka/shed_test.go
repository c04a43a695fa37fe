package kafka_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/kafka/memory"
)

// large writes n records that compress to nearly nothing.
func (b *broker) large(topic string, partition int32, n, size int) {
	b.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.MaxBufferedRecords(10))
	if err != nil {
		b.t.Fatal(err)
	}
	defer client.Close()
	for i := range n {
		client.Produce(b.t.Context(), &kgo.Record{Topic: topic, Partition: partition, Key: fmt.Append(nil, i), Value: bytes.Repeat([]byte("x"), size)}, nil)
	}
	if err := client.Flush(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// Records that are refused for want of room go back to the brokers, once there are
// too many bytes of them, and come again in their order.
func TestRecordsThatFindNoRoomAreReadAgainInOrder(t *testing.T) {
	const n, size = 120, 20_000
	b := newBroker(t, 4, "a")
	for p := range int32(3) {
		b.large("a", p, n, size)
	}
	l := newLane(t)
	m := b.join(l, func(c *kafka.Config) {
		c.Pending, c.Connection.Fetched = memory.New(1<<20), 1<<20
	})
	eventually(t, "large records wait for room", func() (bool, any) {
		return m.Config().Pending.Used() > 700_000, m.Config().Pending.Used()
	})
	// The partition of small records goes on beside three that are stuck.
	b.produce("a", 3, 50)
	l.awaitOffsets("a", 3, upTo(0, 50)...)
	l.confirm("a", 3, upTo(0, 50)...)
	most := int64(0)
	var confirmed [3]int
	eventually(t, "all large records are handed on", func() (bool, any) {
		most = max(most, m.Config().Pending.Used())
		for p := range int32(3) {
			offsets := l.offsets("a", p)
			l.confirm("a", p, offsets[confirmed[p]:]...)
			confirmed[p] = len(offsets)
		}
		return confirmed == [3]int{n, n, n}, confirmed
	})
	for p := range int32(3) {
		l.awaitOffsets("a", p, upTo(0, n)...)
	}
	if most > 1<<20+3*size {
		t.Errorf("pending at once: got %d bytes, want at most %d", most, 1<<20+3*size)
	}
	if got := m.Shed(); got == 0 {
		t.Error("nothing was given back: the test shows nothing")
	}
}
