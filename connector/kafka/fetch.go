package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// fetchError tells lost data from trouble that passes: only the former needs a
// person.
func (s *Source) fetchError(topic string, id int32, err error) {
	p := s.partition(topic, id)
	cut, _ := errors.AsType[*kgo.ErrDataLoss](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, kgo.ErrClientClosed):
	case p == nil:
		s.log.Warn("fetch failed; the client tries again", "error", err)
	case errors.Is(err, kerr.OffsetOutOfRange):
		s.haltLostData(p, "the next offset to read is not in the log: "+deletedUnread)
	case cut != nil:
		s.haltCut(p, fmt.Sprintf("records up to %d were read, but the log now goes on at %d: %s", cut.ConsumedTo, cut.ResetTo, cutOff), cut.ResetTo)
	case errors.Is(err, kgo.ErrMaxDecompress):
		s.halt(p, "batch too large", fmt.Sprintf("%s[%d]: %v. The partition waits. Raise memory.fetched and the memory limit, then restart feedsink",
			topic, id, tooLarge(err)))
	case errors.Is(err, kerr.UnknownTopicID):
		if !slices.Contains(s.staleTopics, topic) {
			s.staleTopics = append(s.staleTopics, topic)
		}
	case !p.ready():
		s.halt(p, "committed offset", fmt.Sprintf("%s[%d]: the committed offset could not be read: %s. The partition waits. "+
			"Fix the cause, then restart feedsink", topic, id, err))
	default:
		// What the client retries by itself does not come here, and the broker
		// says no at once, as often as it is asked.
		p.rest = time.Now().Add(restAfterError)
		s.log.Warn("records can't be fetched; trying again", "topic", topic, "partition", id, "wait", restAfterError, "error", err)
	}
}

// takeUpAgain makes the client read topics that were deleted and created again
// while it read them: to the group they are given back and assigned anew.
func (s *Source) takeUpAgain() {
	for _, topic := range s.staleTopics {
		s.log.Warn("the topic was deleted while it was read; waiting for a new one of this name", "topic", topic)
		s.client.PurgeTopicsFromConsuming(topic)
		s.client.AddConsumeTopics(topic)
	}
	s.staleTopics = nil
}

// Why a position is not in the log.
const (
	deletedUnread = "records were deleted by the topic's retention before they were read"
	cutOff        = "records were lost by the brokers, which may put others at their offsets"
)

func (s *Source) haltLostData(p *Partition, what string) {
	reason := fmt.Sprintf("%s[%d]: %s. The partition waits. To go on without them, stop feedsink and "+
		"set the offset of group %s with kafka-consumer-groups --reset-offsets", p.Topic, p.ID, what, s.cfg.Group)
	s.halt(p, "lost data", reason)
}

func (s *Source) halt(p *Partition, cause, reason string) {
	p.Halt(cause, reason)
	s.log.Error("partition halted", "topic", p.Topic, "partition", p.ID, "reason", reason)
}

// withoutControl leaves out the marks that end transactions. They are polled
// only so that a partition can be confirmed up to its end.
func withoutControl(records []*Record) []*Record {
	if !slices.ContainsFunc(records, isControl) {
		return records
	}
	return slices.DeleteFunc(slices.Clone(records), isControl)
}

func isControl(r *Record) bool { return r.Attrs.IsControl() }

// tooLarge says in our words that a batch unpacks to more than may be fetched.
func tooLarge(err error) error {
	if e, ok := errors.AsType[*kgo.ErrDecompressTooLarge](err); ok {
		return fmt.Errorf("the batch at offset %d unpacks to more than %d times memory.fetched: %w", e.Offset, batchShare, kgo.ErrMaxDecompress)
	}
	return err
}
