package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrClosed says that the source has ended.
var ErrClosed = kgo.ErrClientClosed

// WrittenBefore is how many offsets of the topic's partitions, in sum, are below their first
// record with a timestamp of at or later. What deletion and compaction have taken counts.
func (s *Source) WrittenBefore(ctx context.Context, topic string, at time.Time) (sum int64, err error) {
	listed, err := s.admin.ListOffsetsAfterMilli(ctx, at.UnixMilli(), topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("offsets of %s at %s: %w", topic, at.UTC().Format(time.RFC3339), err)
	}
	listed.Each(func(o kadm.ListedOffset) { sum += o.Offset })
	return sum, nil
}
