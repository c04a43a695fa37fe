package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

// reread reads spans again and gives what came as `span: topic/partition@offset`.
func reread(t *testing.T, m *member, spans ...cluster.Stretch) (got []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := m.Reread(ctx, spans, func(i int, r *kafka.Record) error {
		got = append(got, fmt.Sprintf("%d: %s/%d@%d", i, r.Topic, r.Partition, r.Offset))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

func stretch(topic string, partition int32, from, to int64) cluster.Stretch {
	return cluster.Stretch{TopicPartition: cluster.TopicPartition{Topic: topic, Partition: partition}, Span: cluster.Span{From: from, To: to}}
}

func TestSpansAreReadAgainOneAfterTheOther(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 2, "a", "b")
	m := b.join(autoLane(t))
	b.produce("a", 0, 10)
	b.produce("a", 1, 10)
	b.produce("b", 0, 3)
	b.awaitCommit("a", 0, 10)
	got := reread(t, m, stretch("a", 0, 2, 4), stretch("a", 0, 7, 8),
		stretch("a", 1, 8, 10), stretch("b", 0, 0, 1))
	want := []string{"0: a/0@2", "0: a/0@3", "1: a/0@7", "2: a/1@8", "2: a/1@9", "3: b/0@0"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := b.committed("a", 0).Offset; got != 10 {
		t.Errorf("committed after reading again: got %d, want 10 as before", got)
	}
	stop := errors.New("enough")
	if err := m.Reread(t.Context(), []cluster.Stretch{stretch("a", 0, 0, 5)}, func(int, *kafka.Record) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v, want the reader's own error", err)
	}
}

func TestWhatTheLogHasLostIsLeftOut(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	m := b.join(autoLane(t))
	b.produce("a", 0, 10)
	b.awaitCommit("a", 0, 10)
	var cut kadm.Offsets
	cut.AddOffset("a", 0, 6, -1)
	if _, err := b.admin.DeleteRecords(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
	got := reread(t, m, stretch("a", 0, 3, 8), stretch("a", 0, 0, 4))
	if want := []string{"0: a/0@6", "0: a/0@7"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestClaimsThatTouchAreReadOnce(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 2, "a")
	m := b.join(autoLane(t))
	b.produce("a", 0, 1)
	b.produce("a", 1, 1)
	b.awaitCommit("a", 0, 1)
	b.awaitCommit("a", 1, 1)
	zero, one := m.assignment("a", 0), m.assignment("a", 1)
	far := zero.Claim(50)
	near := zero.Claim(10)
	near.Extend(20)
	again := zero.Claim(15)
	again.Extend(30)
	other := one.Claim(5)
	got := kafka.Stretches([]*kafka.Claim{far, other, near, again})
	want := []cluster.Stretch{stretch("a", 0, 10, 31), stretch("a", 0, 50, 51), stretch("a", 1, 5, 6)}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
