package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// peerEvery is how often another group's commits are looked at while somebody
// waits for them.
const peerEvery = time.Second

// How often the other lane's commits are looked at: while records wait for it,
// and while both read the same topics.
const (
	wantedEvery = 200 * time.Millisecond
	followEvery = 3 * time.Second
)

// AwaitGroup returns once another group has committed everything that the topics
// hold at the time of the call, or with ctx's error. Trouble with the broker is
// waited out.
func (s *Source) AwaitGroup(ctx context.Context, group string, topics []string) error {
	var ends kadm.ListedOffsets
	for {
		var err error
		if ends == nil {
			ends, err = s.endsOf(ctx, topics)
		}
		behind := -1
		if err == nil {
			behind, err = s.behind(ctx, group, ends)
		}
		switch {
		case behind == 0:
			return nil
		case err != nil && ctx.Err() == nil:
			s.log.Warn("another group's progress cannot be seen; asking again", "of", group, "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(peerEvery):
		}
	}
}

func (s *Source) endsOf(ctx context.Context, topics []string) (kadm.ListedOffsets, error) {
	ends, err := s.admin.ListEndOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list end offsets of %s: %w", slices.Sorted(slices.Values(topics)), err)
	}
	return ends, nil
}

// behind counts the partitions of which the group has not committed the end.
func (s *Source) behind(ctx context.Context, group string, ends kadm.ListedOffsets) (n int, err error) {
	committed, err := committedBy(ctx, s.admin, group)
	if err != nil {
		return 0, fmt.Errorf("fetch offsets of %s: %w", group, err)
	}
	ends.Each(func(end kadm.ListedOffset) {
		if o, ok := committed.Lookup(end.Topic, end.Partition); end.Offset > 0 && (!ok || o.At < end.Offset) {
			n++
		}
	})
	return n, nil
}

// committedBy is what a group has committed; one that nobody has joined yet has
// committed nothing.
func committedBy(ctx context.Context, admin *kadm.Client, group string) (kadm.OffsetResponses, error) {
	committed, err := admin.FetchOffsets(ctx, group)
	if missingGroup(err) {
		err = nil
	}
	return committed, err
}

// missingGroup reports whether the error says that no member has joined the group yet.
func missingGroup(err error) bool { return errors.Is(err, kerr.GroupIDNotFound) }
