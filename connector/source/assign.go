package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/ack"
)

// The client calls these one at a time and not during a poll: assigned, then
// offsetsFetched, then startOffsets, then records; in the end revoked or lost.

// assigned opens assignments. Nothing is committed in them before the broker
// has told what was committed by others: it would be erased.
func (s *Source) assigned(_ context.Context, client *kgo.Client, added map[string][]int32) {
	member, generation := client.GroupMetadata()
	if again := s.find(added); len(again) > 0 { // of topics that were created again
		s.drop(again)
	}
	for topic, ids := range added {
		s.mu.Lock()
		for _, id := range ids {
			s.parts[topicPartition{topic, id}] = s.open(topic, id, member)
		}
		s.mu.Unlock()
		s.log.Info("partitions assigned", "topic", topic, "partitions", ids, "generation", generation)
	}
	s.joined.Store(true)
	if old, kept := s.reopen(member); len(kept) > 0 {
		s.log.Warn("back in the group as a new member; reading the ledger of kept partitions again", "partitions", len(kept))
		s.handler.Release(ended, old)
	}
}

func (s *Source) open(topic string, id int32, member string) *Partition {
	return &Partition{Topic: topic, ID: id, member: member, total: &s.pending, live: true, limit: ack.MetadataLimit}
}

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

// ended is a context that has ended.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

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
	var ps []*Partition
	for topic, ids := range offsets {
		for id := range ids {
			if p := s.partition(topic, id); p != nil {
				ps = append(ps, p)
			}
		}
	}
	starts, err := s.load(ctx, ps)
	if err != nil {
		s.log.Warn("reading the ledgers was disturbed; joining the group again", "error", err)
		return nil, err
	}
	out := map[string]map[int32]kgo.Offset{}
	for p, at := range starts {
		p.begin()
		if out[p.Topic] == nil {
			out[p.Topic] = map[int32]kgo.Offset{}
		}
		out[p.Topic][p.ID] = kgo.NewOffset().At(at)
	}
	return out, nil
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
	set := map[string]map[int32]kgo.EpochOffset{}
	for p, at := range starts {
		if !p.Live() {
			continue
		}
		if set[p.Topic] == nil {
			set[p.Topic] = map[int32]kgo.EpochOffset{}
		}
		set[p.Topic][p.ID] = kgo.EpochOffset{Epoch: -1, Offset: at}
	}
	s.client.SetOffsets(set)
	for p := range starts {
		p.begin()
	}
}

// logEnds is what a partition's log holds, and the id of its topic.
type logEnds struct {
	topics     kadm.TopicDetails
	start, end kadm.ListedOffsets
}

func (s *Source) listEnds(ctx context.Context, ps []*Partition) (l logEnds, err error) {
	seen := map[string]bool{}
	var topics []string
	for _, p := range ps {
		if !seen[p.Topic] {
			seen[p.Topic] = true
			topics = append(topics, p.Topic)
		}
	}
	if l.topics, err = s.admin.ListTopics(ctx, topics...); err != nil {
		return l, fmt.Errorf("list topics: %w", err)
	}
	if l.start, err = s.admin.ListStartOffsets(ctx, topics...); err != nil {
		return l, fmt.Errorf("list start offsets: %w", err)
	}
	if l.end, err = s.admin.ListEndOffsets(ctx, topics...); err != nil {
		return l, fmt.Errorf("list end offsets: %w", err)
	}
	return l, nil
}

// load prepares partitions from what was found committed for them and returns
// where each starts.
func (s *Source) load(ctx context.Context, ps []*Partition) (map[*Partition]int64, error) {
	if len(ps) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	l, err := s.listEnds(ctx, ps)
	if err != nil {
		return nil, err
	}
	starts := make(map[*Partition]int64, len(ps))
	for _, p := range ps {
		topic := l.topics[p.Topic]
		start, ok := l.start.Lookup(p.Topic, p.ID)
		end, ok2 := l.end.Lookup(p.Topic, p.ID)
		if err := errors.Join(topic.Err, start.Err, end.Err); err != nil {
			return nil, fmt.Errorf("list offsets of %s[%d]: %w", p.Topic, p.ID, err)
		}
		found := p.lastFound()
		if !ok || !ok2 || found == nil {
			return nil, fmt.Errorf("list offsets of %s[%d]: the broker's answer lacks the partition", p.Topic, p.ID)
		}
		starts[p] = s.loadOne(p, *found, ack.TopicID(topic.ID), start.Offset, end.Offset)
	}
	return starts, nil
}

// loadOne decides where p starts. What is unreadable or belongs to another
// topic leads to reading records again, never to skipping some.
func (s *Source) loadOne(p *Partition, found commit, topic ack.TopicID, logStart, logEnd int64) int64 {
	at := found.offset
	log := s.log.With("topic", p.Topic, "partition", p.ID)
	var ledger ack.Ledger
	switch {
	case at < 0:
		if at = logStart; s.cfg.FromEnd {
			at = logEnd
		}
		log.Info("nothing committed; starting", "offset", at)
	default:
		var err error
		ledger, err = ack.Decode(found.metadata, at)
		switch {
		case err != nil:
			log.Warn("the ledger cannot be read; records confirmed beyond the committed offset are sent again", "offset", at, "error", err)
		case ledger.Topic != topic && found.metadata != "":
			log.Warn("the committed offset belongs to an earlier topic of this name; reading the new one from its start", "offset", at)
			// The slots are of a table and a day, whatever topic feeds it.
			at, ledger = logStart, ack.Ledger{Slots: ledger.Slots}
		}
	}
	if len(ledger.Imports) > 0 {
		log.Warn("imports were on their way when the partition changed hands; their records are read again", "imports", len(ledger.Imports))
	}
	p.mu.Lock()
	p.ledger = ack.Ledger{Topic: topic, Slots: ledger.Slots}
	p.tracker = ack.New(at, ledger.Done)
	p.committed = found
	p.mu.Unlock()
	switch {
	case at < logStart:
		s.haltLostData(p, fmt.Sprintf("the committed offset %d is below the log's start %d: %s", at, logStart, deletedUnread))
	case at > logEnd:
		s.haltLostData(p, fmt.Sprintf("the committed offset %d is beyond the log's end %d: %s", at, logEnd, cutOff))
	}
	return at
}
