package kafka

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/ack"
)

// The client calls these one at a time: assigned, then offsetsFetched, then
// startOffsets, then records; in the end revoked or lost. Of these, assigned,
// revoked and lost wait until no poll holds the group.

// assigned opens assignments. Nothing is committed in them before the broker
// has told what was committed by others: it would be erased.
func (s *Source) assigned(ctx context.Context, client *kgo.Client, added map[string][]int32) {
	member, generation := client.GroupMetadata()
	if again := s.find(added); len(again) > 0 { // of topics that were created again
		s.drop(ctx, again)
	}
	for topic, ids := range added {
		s.mu.Lock()
		for _, id := range ids {
			s.parts[topicPartition{topic, id}] = s.open(topic, id, member)
		}
		s.reckon()
		s.mu.Unlock()
		s.log.Info("partitions assigned", "topic", topic, "partitions", ids, "generation", generation)
	}
	s.joined.Store(true)
	s.lease.assigned()
	if old, kept := s.reopen(member); len(kept) > 0 {
		s.log.Warn("back in the group as a new member; reading the ledger of kept partitions again", "partitions", len(kept))
		s.handler.Release(over(ctx), old)
	}
}

func (s *Source) open(topic string, id int32, member string) *Partition {
	p := &Partition{Topic: topic, ID: id, member: member, begun: time.Now(), total: &s.pending, memory: s.cfg.Pending, live: true, limit: ack.MetadataLimit}
	s.cfg.Pending.partitions.Add(1)
	if p.routes = (agreement{TopicRoutes: s.topic(topic), recorded: -1, looks: &s.other.looks}); p.routes.Shared {
		p.other = s.other
	}
	return p
}

// Assigned is when the assignment began.
func (p *Partition) Assigned() time.Time { return p.begun }

// reopen begins a new assignment for partitions that were kept over a change
// of member id. A member that was thrown out and came back may keep some
// without any further callback for them, though another could have had them in
// between. Their ledgers are read again by the poll loop: offsets can't be set
// from within a callback.
func (s *Source) reopen(member string) (old, kept []*Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tp, p := range s.parts {
		if p.member == member {
			continue
		}
		p.end()
		fresh := s.open(tp.topic, tp.id, member)
		fresh.paused = p.paused
		s.parts[tp] = fresh
		old, kept = append(old, p), append(kept, fresh)
	}
	s.kept = append(s.kept, kept...)
	return old, kept
}

// over is a context that has ended: nothing can be committed any more.
func over(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

// offsetsFetched notes what was committed before, for startOffsets.
func (s *Source) offsetsFetched(_ context.Context, _ *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			for _, got := range t.Partitions {
				p := s.partition(t.Topic, got.Partition)
				if p == nil || got.ErrorCode != 0 {
					continue
				}
				metadata := ""
				if got.Metadata != nil {
					metadata = *got.Metadata
				}
				p.found(commit{got.Offset, metadata})
			}
		}
	}
	return nil
}

// startOffsets reads the ledgers and decides where each partition starts. An
// error sends the member back to joining the group.
func (s *Source) startOffsets(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	ps, begun := s.toLoad(offsets)
	starts, err := s.load(ctx, ps)
	if err != nil {
		s.log.Warn("reading the ledgers was disturbed; joining the group again", "error", err)
		return nil, err
	}
	s.mu.Lock()
	s.fresh = append(s.fresh, ps...)
	s.mu.Unlock()
	out := map[string]map[int32]kgo.Offset{}
	for _, p := range begun {
		starts[p] = p.position()
	}
	for p, at := range starts {
		if out[p.Topic] == nil {
			out[p.Topic] = map[int32]kgo.Offset{}
		}
		out[p.Topic][p.ID] = kgo.NewOffset().At(at)
	}
	return out, nil
}

// toLoad are the partitions whose ledgers are to be read, and those that have
// begun: the client asks again when a rebalance has cut the group's session short.
func (s *Source) toLoad(offsets map[string]map[int32]kgo.Offset) (ps, begun []*Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, ids := range offsets {
		for id := range ids {
			switch p := s.parts[topicPartition{topic, id}]; {
			case p == nil:
			case p.ready():
				begun = append(begun, p)
			default:
				ps = append(ps, p)
			}
		}
	}
	s.fresh = slices.DeleteFunc(s.fresh, func(p *Partition) bool { return slices.Contains(ps, p) })
	return ps, begun
}

// welcome begins assignments whose ledgers were read and tells the handler. It
// is called by the poll loop while it holds the group and before it hands on
// what it has polled, which may be their first records.
func (s *Source) welcome() {
	s.mu.Lock()
	fresh := slices.DeleteFunc(s.fresh, func(p *Partition) bool { return !p.Live() })
	s.fresh = nil
	for _, p := range fresh {
		p.begin()
	}
	s.mu.Unlock()
	if len(fresh) > 0 {
		agree(fresh)
		s.afterRetention(fresh)
		s.handler.Assigned(fresh)
		s.CommitSoon()
	}
}

// reload is startOffsets for partitions that were kept over a change of
// member id, for which the client fetches nothing. It is called by the poll
// loop before a poll; the starts it returns take effect with rewind.
func (s *Source) reload(ctx context.Context) map[*Partition]int64 {
	s.mu.Lock()
	kept := slices.DeleteFunc(s.kept, func(p *Partition) bool { return !p.Live() || p.ready() })
	s.kept = nil
	s.mu.Unlock()
	if len(kept) == 0 {
		return nil
	}
	loading, cancel := context.WithTimeout(ctx, s.cfg.SessionTimeout)
	defer cancel()
	committed, err := s.admin.FetchOffsets(loading, s.cfg.Group)
	if err == nil {
		err = committed.Error()
	}
	var starts map[*Partition]int64
	if err == nil {
		for _, p := range kept {
			found := commit{offset: -1}
			if o, ok := committed.Lookup(p.Topic, p.ID); ok {
				found = commit{o.At, o.Metadata}
			}
			p.found(found)
		}
		starts, err = s.load(loading, kept)
	}
	if err != nil {
		s.mu.Lock()
		s.kept = append(s.kept, kept...)
		s.mu.Unlock()
		if ctx.Err() == nil {
			s.log.Warn("reading the ledgers was disturbed; trying again", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(reloadEvery):
		}
	}
	return starts
}

// rewind makes reloaded partitions start where their ledgers say. It is called
// by the poll loop once it is done with what it has polled: records polled
// before, from wherever the partition stood, must not be taken for those that
// follow the ledger.
func (s *Source) rewind(starts map[*Partition]int64) {
	// Those that were revoked meanwhile are another member's: the handler was
	// told that they go, and would hear of no second end.
	maps.DeleteFunc(starts, func(p *Partition, _ int64) bool { return !p.Live() })
	if len(starts) == 0 {
		return
	}
	s.setOffsets(starts)
	ps := slices.Collect(maps.Keys(starts))
	for _, p := range ps {
		p.begin() // before the handler's word: it may have something to commit at once
	}
	agree(ps)
	s.afterRetention(ps)
	s.handler.Assigned(ps)
	s.CommitSoon()
}
