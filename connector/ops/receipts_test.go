package ops

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/receipt"
	"github.com/feedsink/feedsink/schemas"
)

func TestErrorsOfTheReceiptsTopicSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{kerr.UnknownTopicOrPartition, "create the topic, or correct receipts.topic"},
		{kerr.TopicAuthorizationFailed, "grant the login READ and DESCRIBE on the topic feedsink.receipts"},
		{context.DeadlineExceeded, "nothing answers in time; check address and port, and firewalls and network policies in between"},
		{io.EOF, "the broker closed the connection, as some do with a login or certificate that they refuse; check kafka.sasl and kafka.tls"},
	} {
		if got := receiptsAdvice("feedsink.receipts", fmt.Errorf("start of [feedsink.receipts]: %w", c.err)); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}

// A login that may only write and see the receipts, as a sink's, is told so at once, and
// one that may read them reads those since a time.
func TestReceiptsAreReadByWhoMayReadThem(t *testing.T) {
	t.Parallel()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "receipts"), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser("PLAIN", "root", "root"),
		kfake.User("PLAIN", "nobody", "nobody"),
		kfake.User("PLAIN", "sink", "sink", onReceipts(kmsg.ACLOperationWrite), onReceipts(kmsg.ACLOperationDescribe)),
		kfake.User("PLAIN", "reader", "reader", onReceipts(kmsg.ACLOperationRead), onReceipts(kmsg.ACLOperationDescribe)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.SASL(plain.Auth{User: "root", Pass: "root"}.AsMechanism()),
		kgo.DefaultProduceTopic("receipts"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for i := range 4 {
		r := receipt.Receipt{Topic: "orders", Offset: int64(i), Parts: 1, Lane: schemas.Immediate, Ended: noon.Add(time.Duration(i) * time.Hour)}
		if err := client.ProduceSync(t.Context(), &kgo.Record{Partition: int32(i % 2), Value: r.Append(nil), Timestamp: r.Ended}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		login      string
		since      time.Time
		partitions map[int32]bool
		want       int // receipts; -1: refused
	}{
		{"nobody", time.Time{}, map[int32]bool{0: true, 1: true}, -1},
		{"sink", time.Time{}, map[int32]bool{0: true, 1: true}, -1},
		{"reader", time.Time{}, map[int32]bool{0: true, 1: true}, 4},
		{"reader", noon.Add(2 * time.Hour), map[int32]bool{0: true, 1: true}, 2},
		{"reader", time.Time{}, map[int32]bool{1: true}, 2},
		{"reader", noon.Add(3 * time.Hour), map[int32]bool{0: true}, 0},
		{"reader", noon.Add(4 * time.Hour), map[int32]bool{0: true, 1: true}, 0},
	} {
		password := func() (string, error) { return c.login, nil }
		reader, err := cluster.NewReader(cluster.Connection{Brokers: broker.ListenAddrs(), SASL: &cluster.SASL{Mechanism: "PLAIN", Username: c.login, Password: password}})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		topic, err := openReceipts(t.Context(), reader, "receipts", c.since)
		if err == nil {
			err = topic.read(t.Context(), func(p int32) bool { return c.partitions[p] }, func(*receipt.Receipt, time.Time) { n++ })
		}
		reader.Close()
		if refused := cluster.Denied(err); refused != (c.want < 0) || !refused && (err != nil || n != c.want) {
			t.Errorf("%s, since %v, partitions %v: got %d and %v, want %d", c.login, c.since, c.partitions, n, err, c.want)
		}
	}
}

func onReceipts(operation kmsg.ACLOperation) kfake.ACL {
	return kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: "receipts", Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: operation, Allow: true}
}
