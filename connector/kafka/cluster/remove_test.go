package cluster_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

func TestCleanupIsWhatTheTopicSays(t *testing.T) {
	b := newBroker(t, 1, "orders")
	r := newReader(t, b)
	for _, c := range []struct {
		policy, ms, bytes string
		want              cluster.Cleanup
	}{
		{"delete", "60000", "-1", cluster.Cleanup{Deleted: true, Retention: time.Minute}},
		{"delete", "-1", "1000", cluster.Cleanup{Deleted: true}},
		{"delete", "9223372036854775807", "-1", cluster.Cleanup{Deleted: true, Retention: 9223372036854 * time.Millisecond}},
		{"compact", "60000", "1000", cluster.Cleanup{Compacted: true}},
		{"compact,delete", "60000", "-1", cluster.Cleanup{Compacted: true, Deleted: true, Retention: time.Minute}},
	} {
		_, err := kadm.NewClient(b.client).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{
			{Name: "cleanup.policy", Value: &c.policy}, {Name: "retention.ms", Value: &c.ms}, {Name: "retention.bytes", Value: &c.bytes},
		}, "orders")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.Cleanup(t.Context(), "orders"); got != c.want || err != nil {
			t.Errorf("%s, %s, %s: got %+v, %v, want %+v", c.policy, c.ms, c.bytes, got, err, c.want)
		}
	}
	if _, err := r.Cleanup(t.Context(), "nowhere"); err == nil {
		t.Error("of a topic that is not there: got no error")
	}
}

func TestRecordsBeforeAnOffsetAreDeleted(t *testing.T) {
	b := newBroker(t, 2, "dlq")
	r := newReader(t, b)
	b.produce("dlq", 0, 3)
	b.produce("dlq", 1, 3)
	p := cluster.TopicPartition{Topic: "dlq", Partition: 1}
	if err := r.DeleteBefore(t.Context(), p, 2); err != nil {
		t.Fatal(err)
	}
	if err := r.Tombstone(t.Context(), p, []byte("K")); err != nil {
		t.Fatal(err)
	}
	spans, err := r.Spans(t.Context(), "dlq")
	if err != nil {
		t.Fatal(err)
	}
	if got := spans[p]; got != (cluster.Span{From: 2, To: 4}) {
		t.Errorf("its partition: got %v, want from 2 to 4, the tombstone at its end", got)
	}
	if got := spans[cluster.TopicPartition{Topic: "dlq"}]; got != (cluster.Span{From: 0, To: 3}) {
		t.Errorf("the other partition: got %v, want all of it", got)
	}
	if err := r.DeleteBefore(t.Context(), p, 100); err == nil {
		t.Error("beyond the end: got no error")
	}
}
