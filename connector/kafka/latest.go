package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/feedsink/feedsink/connector/ack"
)

// latest is where partitions begin that the group has not committed, if it starts
// at the logs' ends: there where they ended before this process joined the group.
// Only topics are in it of which the group had committed nothing by then. What was
// added since, or to a topic that the group had read before, is not in it and is
// read from its start: nobody has seen it. Members that start together agree, in
// whatever order they commit.
type latest struct {
	ids  map[string]ack.TopicID
	ends map[topicPartition]int64
	// open are topics that exist, but whose ends no broker told.
	open map[string]bool
}

// lookBeforeJoining finds out where partitions begin under FromEnd, if that is
// asked for. It returns with an answer, or once ctx has ended.
func (s *Source) lookBeforeJoining(ctx context.Context) {
	for s.cfg.FromEnd && ctx.Err() == nil {
		looking, cancel := context.WithTimeout(ctx, commitTimeout)
		found, err := s.lookForLatest(looking)
		cancel()
		if err == nil {
			s.latest = found
			return
		}
		if ctx.Err() == nil {
			s.log.Warn("where the topics end is not known; the group is joined after that; asking again", "error", err, "wait", reloadEvery)
		}
		select {
		case <-ctx.Done():
		case <-time.After(reloadEvery):
		}
	}
}

func (s *Source) lookForLatest(ctx context.Context) (latest, error) {
	found := latest{ids: map[string]ack.TopicID{}, ends: map[topicPartition]int64{}, open: map[string]bool{}}
	committed, err := committedBy(ctx, s.admin, s.cfg.Group)
	if err == nil {
		err = committed.Error()
	}
	if err != nil {
		return found, fmt.Errorf("fetch offsets of %s: %w", s.cfg.Group, err)
	}
	topics, err := s.admin.ListTopics(ctx, s.cfg.Topics...)
	if err != nil {
		return found, fmt.Errorf("list topics: %w", err)
	}
	var fresh []string
	for name, topic := range topics {
		if len(topic.Partitions) > 0 && !hasCommit(committed[name]) {
			found.ids[name] = ack.TopicID(topic.ID)
			fresh = append(fresh, name)
		}
	}
	if len(fresh) == 0 {
		return found, nil
	}
	ends, err := s.admin.ListEndOffsets(ctx, fresh...)
	if err != nil {
		return found, fmt.Errorf("list end offsets: %w", err)
	}
	ends.Each(func(end kadm.ListedOffset) {
		if end.Err != nil {
			found.open[end.Topic] = true
			return
		}
		found.ends[topicPartition{end.Topic, end.Partition}] = end.Offset
	})
	return found, nil
}

func hasCommit(partitions map[int32]kadm.OffsetResponse) bool {
	for _, o := range partitions {
		if o.At >= 0 {
			return true
		}
	}
	return false
}

// beginning is where a partition starts that the group has committed nothing for.
func (s *Source) beginning(p *Partition, topic ack.TopicID, logStart, logEnd int64) int64 {
	if !s.cfg.FromEnd {
		return logStart
	}
	l := s.latest
	seen, ok := l.ids[p.Topic]
	if !ok || seen.Differs(topic) { // read before, or made since
		return logStart
	}
	if end, ok := l.ends[topicPartition{p.Topic, p.ID}]; ok {
		return max(logStart, min(end, logEnd))
	}
	if l.open[p.Topic] {
		return logEnd
	}
	return logStart
}
