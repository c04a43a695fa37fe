package cluster

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
)

// Logs are what topics' logs hold, and the topics' ids.
type Logs struct {
	Topics     kadm.TopicDetails
	Start, End kadm.ListedOffsets

	epochs kadm.OffsetsForLeaderEpochs // where those that were asked for end
}

// ListLogs asks the brokers for the topics' logs, and where in them leader epochs end. Brokers that do
// not know these tell where the logs end all the same.
func ListLogs(ctx context.Context, admin *kadm.Client, topics []string, epochs kadm.OffsetForLeaderEpochRequest) (l Logs, err error) {
	if l.Topics, err = admin.ListTopics(ctx, topics...); err != nil {
		return l, fmt.Errorf("list topics: %w", err)
	}
	if l.Start, err = admin.ListStartOffsets(ctx, topics...); err != nil {
		return l, fmt.Errorf("list start offsets: %w", err)
	}
	if l.End, err = admin.ListEndOffsets(ctx, topics...); err != nil {
		return l, fmt.Errorf("list end offsets: %w", err)
	}
	if len(epochs) > 0 {
		l.epochs, _ = admin.OffsetForLeaderEpoch(ctx, epochs) // what is not answered is not known
	}
	return l, ctx.Err()
}

// KnownEnd is the end of the log of a partition that is listed, or of the leader epoch that was asked for
// where the log goes on behind that: records of a newer epoch. Who has read further in the older one has
// read records that an unclean leader election took out, and others have come in their place.
func (l Logs) KnownEnd(topic string, partition int32) int64 {
	start, _ := l.Start.Lookup(topic, partition)
	end, _ := l.End.Lookup(topic, partition)
	if epoch, ok := l.epochs[topic][partition]; ok && epoch.Err == nil && epoch.EndOffset >= start.Offset {
		return min(epoch.EndOffset, end.Offset)
	}
	return end.Offset // not known; or retention has removed all of that epoch
}
