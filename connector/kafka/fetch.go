package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/kafka/memory"
)

// fetchError tells lost data from trouble that passes: only the former needs a
// person.
func (s *Source) fetchError(ctx context.Context, topic string, id int32, err error) {
	p := s.partition(topic, id)
	cut, _ := errors.AsType[*kgo.ErrDataLoss](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, kgo.ErrClientClosed):
	case p == nil:
		s.log.Warn("fetch failed; the client tries again", "error", err)
	case errors.Is(err, kerr.OffsetOutOfRange):
		s.haltOutside(ctx, p)
	case cut != nil:
		s.haltCut(p, fmt.Sprintf("records up to %d were read, but the log now goes on at %d", cut.ConsumedTo, cut.ResetTo), cut.ResetTo)
	case errors.Is(err, kgo.ErrMaxDecompress):
		s.halt(p, "batch too large", fmt.Sprintf("%s[%d]: %v. The partition waits. Raise memory.fetched and the memory limit, then restart feedsink",
			topic, id, cluster.TooLarge(err)))
	case errors.Is(err, kerr.UnknownTopicID):
		s.noteStale(topic)
	case p.in(assigned): // its offset was asked for, and nothing else
		s.halt(p, "committed offset", fmt.Sprintf("%s[%d]: the committed offset could not be read: %s. The partition waits. "+
			"Fix the cause, then restart feedsink", topic, id, err))
	default:
		// What the client retries by itself does not come here, and the broker
		// refuses at once, each time it is asked.
		p.rest = time.Now().Add(restAfterError)
		s.conditions.Refused(topic, err)
		s.log.Warn("records can't be fetched; trying again", "topic", topic, "partition", id, "wait", restAfterError, "error", err)
	}
}

// haltOutside halts a partition whose next offset to read is not in the log: the log has lost its
// beginning, or its end. Where the brokers do not say which, it is asked for again.
func (s *Source) haltOutside(ctx context.Context, p *Partition) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	logs, err := cluster.ListLogs(ctx, s.admin, []string{p.Topic}, kadm.OffsetForLeaderEpochRequest{p.Topic: {p.ID: p.epoch}})
	switch end := logs.KnownEnd(p.Topic, p.ID); {
	case err != nil:
		p.rest = time.Now().Add(restAfterError)
	case p.polled > end:
		s.haltCut(p, fmt.Sprintf("records up to %d were read, but the log ends at %d", p.polled, end), end)
	default:
		s.haltLostData(p, "the next offset to read is not in the log", "")
	}
}

// refusedIDs is how many commits in a row a broker refuses because no topic has the id, until
// that is believed: of a new topic it may not have heard yet.
const refusedIDs = 3

// noteStale notes that the client knows a topic by an id that is gone.
func (s *Source) noteStale(topic string) {
	if !slices.Contains(s.staleTopics, topic) {
		s.staleTopics = append(s.staleTopics, topic)
	}
}

// resubscribe makes the client read other topics where the subscription has changed,
// and topics that were deleted and created again while it read them: to the group they
// are given back and assigned anew. It is called while nothing holds the group.
func (s *Source) resubscribe(ctx context.Context) {
	if s.former != nil {
		s.followSubscription(ctx, s.former)
		s.former = nil
	}
	if s.unknownID.Swap(false) { // a fetch may say nothing of it: its session knows no such topic
		for _, p := range s.Partitions() {
			if p.unknownID.Load() >= refusedIDs {
				s.noteStale(p.Topic)
			}
		}
	}
	for _, topic := range s.staleTopics {
		s.log.Warn("the topic was deleted while it was read; waiting for a new one of this name", "topic", topic)
		s.client.PurgeTopicsFromConsuming(topic)
		s.client.AddConsumeTopics(topic)
	}
	s.staleTopics = nil
}

// hold notes what a pending record takes, or gives back; p.mu is held.
func (p *Partition) hold(bytes int64) {
	p.held.Add(bytes)
	p.memory.Hold(bytes)
}

// HasRoom reports whether the record may become pending.
func (p *Partition) HasRoom(r *Record) bool {
	return p.memory.Used() == 0 || p.memory.Fits(memory.Held(r, 1), p.held.Load())
}

// Keep is a record as the handler is to have it. What comes in one batch lies in one piece of memory:
// where that is more than the partition's part, a record that is kept has memory of its own, or
// partitions with one pending record each would hold all that they have polled.
func (p *Partition) Keep(r *Record) *Record {
	if p.beside <= p.memory.Part() {
		return r
	}
	return memory.Own(r)
}

// shed gives backlogs back to the brokers while all of them together take too
// much. A partition that is full is fetched again once it has room, another one a
// little later. Partitions that have room are read on meanwhile.
func (s *Source) shed() {
	ps := s.Partitions()
	var waiting int64
	for _, p := range ps {
		waiting += p.waiting
	}
	most := s.cfg.Connection.Fetched / 2
	if waiting <= most {
		return
	}
	slices.SortFunc(ps, func(a, b *Partition) int { return cmp.Compare(b.waiting, a.waiting) })
	starts := map[*Partition]int64{}
	for _, p := range ps {
		if p.waiting == 0 || waiting <= most {
			break
		}
		if p.in(reading) {
			waiting -= p.waiting
			s.sheds.Add(1)
			if p.shed = memory.Held(p.backlog[0], 1); !p.full && p.memory.Fits(p.shed, p.held.Load()) {
				p.rest = time.Now().Add(restAfterShed) // it is not for want of room that they were not taken
			}
			starts[p] = p.dropBacklog()
		}
	}
	s.setOffsets(starts)
}

// restAfterShed is how soon records that were given back are fetched again at the earliest.
const restAfterShed = time.Second

// dropBacklog empties the backlog and returns where it began.
func (p *Partition) dropBacklog() (from int64) {
	from = p.backlog[0].Offset
	p.backlog, p.waiting = nil, 0
	p.mu.Lock()
	defer p.mu.Unlock()
	p.polled = from
	return from
}

// setBacklog makes records the backlog: polled and not taken.
func (p *Partition) setBacklog(records []*Record) {
	p.backlog = records
	if len(records) > 0 {
		p.setUntaken(records[0])
	} else {
		p.setUntaken(nil)
	}
	p.waiting = memory.SizeOfAll(records)
}

// setOffsets has the client fetch partitions from given offsets on.
func (s *Source) setOffsets(starts map[*Partition]int64) {
	if len(starts) == 0 {
		return
	}
	set := map[string]map[int32]kgo.EpochOffset{}
	for p, at := range starts {
		if set[p.Topic] == nil {
			set[p.Topic] = map[int32]kgo.EpochOffset{}
		}
		set[p.Topic][p.ID] = kgo.EpochOffset{Epoch: -1, Offset: at}
	}
	s.client.SetOffsets(set)
}
