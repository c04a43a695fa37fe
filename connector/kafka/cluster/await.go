package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/retry"
)

// peerEvery is the time between two looks at another group's commits, while they are
// waited for.
const peerEvery = time.Second

// AwaitGroup returns once a group has committed everything that the topics
// hold at the time of the call, or all but some records, or with ctx's error. Trouble
// with the broker is waited out.
func AwaitGroup(ctx context.Context, admin *kadm.Client, log *slog.Logger, group string, topics []string, but func() map[RecordPlace]bool) error {
	var ends kadm.ListedOffsets
	for {
		var err error
		if ends == nil {
			ends, err = endsOf(ctx, admin, topics)
		}
		behind := -1
		if err == nil {
			behind, err = partitionsBehind(ctx, admin, group, ends, but)
		}
		switch {
		case behind == 0:
			return nil
		case err != nil && ctx.Err() == nil:
			log.Warn("another group's progress cannot be seen; asking again", "of", group, "error", err)
		}
		if err := retry.Sleep(ctx, peerEvery); err != nil {
			return err
		}
	}
}

func endsOf(ctx context.Context, admin *kadm.Client, topics []string) (kadm.ListedOffsets, error) {
	ends, err := admin.ListEndOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list end offsets of %s: %w", slices.Sorted(slices.Values(topics)), err)
	}
	return ends, nil
}

// partitionsBehind counts the partitions of which the group has not committed the end, and has
// not confirmed all but some records.
func partitionsBehind(ctx context.Context, admin *kadm.Client, group string, ends kadm.ListedOffsets, but func() map[RecordPlace]bool) (n int, err error) {
	committed, err := CommittedBy(ctx, admin, group)
	if err != nil {
		return 0, fmt.Errorf("fetch offsets of %s: %w", group, err)
	}
	places := sync.OnceValue(but) // once a look, and only if something is not committed
	ends.Each(func(end kadm.ListedOffset) {
		o, ok := committed.Lookup(end.Topic, end.Partition)
		if end.Offset > 0 && (!ok || o.At < end.Offset && !confirmedBut(o.Offset, end.Offset, places())) {
			n++
		}
	})
	return n, nil
}

// confirmedBut reports whether the group that committed o has confirmed all records below
// end but some.
func confirmedBut(o kadm.Offset, end int64, places map[RecordPlace]bool) bool {
	ledger, err := ack.Decode(o.Metadata, o.At)
	if err != nil || o.At < 0 || len(places) == 0 {
		return false
	}
	for at := o.At; at < end; at++ {
		if !ledger.Done.Contains(at) && !places[RecordPlace{TopicPartition{o.Topic, o.Partition}, at}] {
			return false
		}
	}
	return true
}

// WrittenBefore is how many offsets of the topic's partitions, in sum, are below their first
// record with a timestamp of at or later. What deletion and compaction have taken counts.
func WrittenBefore(ctx context.Context, admin *kadm.Client, topic string, at time.Time) (sum int64, err error) {
	listed, err := admin.ListOffsetsAfterMilli(ctx, at.UnixMilli(), topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("offsets of %s at %s: %w", topic, at.UTC().Format(time.RFC3339), err)
	}
	listed.Each(func(o kadm.ListedOffset) { sum += o.Offset })
	return sum, nil
}
