package cluster_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

const (
	patience = time.Minute     // of a step that must come
	session  = 2 * time.Second // of a member of a group
)

// broker is an in-process Kafka with a client that writes to chosen partitions.
type broker struct {
	*kfake.Cluster
	t      *testing.T
	client *kgo.Client
	frozen atomic.Pointer[string] // the member that the group hears nothing from
}

func newBroker(t *testing.T, partitions int32, topics ...string) *broker {
	t.Helper()
	c, err := kfake.NewCluster(kfake.SeedTopics(partitions, topics...), kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	b := &broker{Cluster: c, t: t, client: client}
	c.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return nil, errors.New("frozen"), b.isFrozen(req)
	})
	return b
}

// freeze keeps the group from hearing from a member, as if it were stopped; "": from none.
func (b *broker) freeze(member string) { b.frozen.Store(&member) }

func (b *broker) isFrozen(req kmsg.Request) bool {
	from := ""
	switch r := req.(type) {
	case *kmsg.HeartbeatRequest:
		from = r.MemberID
	case *kmsg.JoinGroupRequest:
		from = r.MemberID
	case *kmsg.SyncGroupRequest:
		from = r.MemberID
	case *kmsg.LeaveGroupRequest:
		if len(r.Members) > 0 {
			from = r.Members[0].MemberID
		}
	}
	frozen := b.frozen.Load()
	return from != "" && frozen != nil && from == *frozen
}

func newReader(t *testing.T, b *broker) *cluster.Reader {
	t.Helper()
	r, err := cluster.NewReader(cluster.Connection{Brokers: b.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// produce writes n records to a partition.
func (b *broker) produce(topic string, partition int32, n int) {
	b.t.Helper()
	rs := make([]*kgo.Record, n)
	for i := range rs {
		rs[i] = &kgo.Record{Topic: topic, Partition: partition, Value: []byte("{}")}
	}
	if err := b.client.ProduceSync(b.t.Context(), rs...).FirstErr(); err != nil {
		b.t.Fatalf("produce: %v", err)
	}
}
