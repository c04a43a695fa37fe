package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/ack"
)

// ErrFenced says that a commit was not made because this member does not own
// the partition any more: whatever depended on it must not be done.
var ErrFenced = errors.New("the partition belongs to another member by now")

// commitTimeout bounds one commit: while the group rebalances, the broker may
// let it wait.
const commitTimeout = 15 * time.Second

// releaseTimeout bounds how long a rebalance or shutdown waits for the work under
// way, where the configuration does not.
const releaseTimeout = 35 * time.Second

// smallestLimit is the room of a ledger in characters that is not gone below,
// whatever the broker refuses.
const smallestLimit = 128

func (s *Source) commitRegularly(ctx context.Context) {
	tick := time.NewTicker(s.cfg.CommitEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.soon:
		}
		// Not ended with ctx: a request that was given up may still reach the
		// broker, and must not do so after the last commit.
		if err := s.commit(context.WithoutCancel(ctx), s.Partitions()); err != nil && !errors.Is(err, ErrFenced) {
			s.log.Warn("offsets were not committed; trying again", "error", err)
		}
	}
}

// revoked gives partitions back while the broker still accepts commits: the
// lane finishes what it started, the last commit follows, and only then can
// the next owner read what was committed.
func (s *Source) revoked(ctx context.Context, client *kgo.Client, removed map[string][]int32) {
	ps := s.find(removed)
	if len(ps) == 0 {
		return // the cooperative protocol also calls with nothing to revoke
	}
	// Thrown out, and back under another id before a heartbeat told: the group asks
	// for what it has given to others. Nothing of it can be committed, nor waited for.
	if member, _ := client.GroupMetadata(); slices.ContainsFunc(ps, func(p *Partition) bool { return p.member != member }) {
		s.lost(ctx, client, removed)
		return
	}
	releasing, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.ReleaseTimeout)
	defer cancel()
	s.handler.Release(releasing, ps)
	committing, cancel2 := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel2()
	if err := s.commit(committing, ps); err != nil {
		s.log.Warn("last commit before giving partitions back was refused; their next owner repeats what was confirmed since", "error", err)
	}
	s.forget(ps)
	for topic, ids := range removed {
		s.log.Info("partitions given back", "topic", topic, "partitions", ids)
	}
}

// lost drops partitions that are another member's by now. A commit could only
// fail.
func (s *Source) lost(ctx context.Context, _ *kgo.Client, removed map[string][]int32) {
	ps := s.find(removed)
	if len(ps) == 0 {
		return
	}
	s.joined.Store(false)
	s.drop(ctx, ps)
	for topic, ids := range removed {
		s.log.Warn("partitions lost: the group did without this member for longer than the session timeout", "topic", topic, "partitions", ids)
	}
}

// drop ends assignments in which nothing can be committed any more.
func (s *Source) drop(ctx context.Context, ps []*Partition) {
	for _, p := range ps {
		p.end()
	}
	s.handler.Release(over(ctx), ps)
	s.forget(ps)
}

func (s *Source) find(which map[string][]int32) (ps []*Partition) {
	for topic, ids := range which {
		for _, id := range ids {
			if p := s.partition(topic, id); p != nil {
				ps = append(ps, p)
			}
		}
	}
	return ps
}

func (s *Source) forget(ps []*Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.reckon()
	for _, p := range ps {
		p.end()
		if tp := (topicPartition{p.Topic, p.ID}); s.parts[tp] == p {
			delete(s.parts, tp)
		}
		if p.paused {
			s.client.ResumeFetchPartitions(map[string][]int32{p.Topic: {p.ID}})
		}
	}
}

// snapshot is p's next commit. ok is false if there is nothing new to commit,
// or nothing is known yet of what was committed before.
func (p *Partition) snapshot() (next commit, ok bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.live {
		return next, false, fmt.Errorf("%s[%d]: %w", p.Topic, p.ID, ErrFenced)
	}
	if !p.loaded {
		return next, false, nil
	}
	next.offset = p.tracker.Watermark()
	p.ledger.Done = p.tracker.Confirmed()
	if p.routes.resends { // calls among them may have been overwritten: all are read again, in their order
		p.ledger.Done = nil
	}
	if next.offset >= p.ledger.Routes.Resend {
		p.ledger.Routes.Resend = 0
	}
	p.ledger.Routes.Halted = len(p.halts) > 0
	p.ledger.Imports = p.ledger.Imports[:0]
	for _, table := range slices.Sorted(maps.Keys(p.imports)) {
		if im := p.imports[table]; im.State != ack.SetApart || next.offset < im.UpTo {
			p.ledger.Imports = append(p.ledger.Imports, im)
			continue
		}
		delete(p.imports, table)
	}
	if p.cut {
		next.offset, _ = trim(&p.ledger, next.offset, p.cutAt)
	}
	next.metadata, _, err = p.ledger.Encode(next.offset, p.limit)
	if err != nil {
		p.full = true
		return next, false, fmt.Errorf("%s[%d]: %w", p.Topic, p.ID, err)
	}
	// No new records at three quarters of the room, and until half is free
	// again: what did not fit would be repeated after a crash.
	if p.full {
		p.full = len(next.metadata) > p.limit/2
	} else {
		p.full = len(next.metadata) > p.limit*3/4
	}
	return next, next != p.committed, nil
}

// commit writes the watermark and ledger of those of ps that have changed.
func (s *Source) commit(ctx context.Context, ps []*Partition) error {
	s.commits.Lock()
	defer s.commits.Unlock()
	return s.write(ctx, ps)
}

// write is commit with s.commits held.
func (s *Source) write(ctx context.Context, ps []*Partition) error {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	next := map[topicPartition]commit{}
	owner := map[topicPartition]*Partition{}
	offsets := map[string]map[int32]kgo.EpochOffset{}
	var failed error
	for _, p := range ps {
		c, ok, err := p.snapshot()
		failed = errors.Join(failed, err)
		if !ok {
			continue
		}
		tp := topicPartition{p.Topic, p.ID}
		next[tp], owner[tp] = c, p
		if offsets[p.Topic] == nil {
			offsets[p.Topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[p.Topic][p.ID] = kgo.EpochOffset{Epoch: -1, Offset: c.offset}
	}
	if len(next) == 0 {
		return failed
	}
	// The broker checks the member and its generation, never who owns a
	// partition. The request at hand names the member that would commit;
	// comparing it with the one each partition was assigned to cannot race
	// with a rejoin.
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics {
			t := &req.Topics[i]
			for j := range t.Partitions {
				tp := topicPartition{t.Topic, t.Partitions[j].Partition}
				if p := owner[tp]; p == nil || p.member != req.MemberID || !p.Live() {
					return fmt.Errorf("%s[%d]: %w", tp.topic, tp.id, ErrFenced)
				}
				metadata := next[tp].metadata
				t.Partitions[j].Metadata = &metadata
			}
		}
		return nil
	})
	s.client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err == nil {
			err = committed(req, resp, owner, next)
		}
		failed = errors.Join(failed, err)
	})
	return failed
}

// committed notes what the broker acknowledged and returns what it refused.
func committed(req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, owner map[topicPartition]*Partition, next map[topicPartition]commit) error {
	names := map[[16]byte]string{} // newer brokers answer with the topic's id alone
	for _, t := range req.Topics {
		names[t.TopicID] = t.Topic
	}
	var refused error
	for _, t := range resp.Topics {
		if t.Topic == "" {
			t.Topic = names[t.TopicID]
		}
		for _, answer := range t.Partitions {
			tp := topicPartition{t.Topic, answer.Partition}
			err := kerr.ErrorForCode(answer.ErrorCode)
			if err != nil {
				refused = errors.Join(refused, fmt.Errorf("commit %s[%d] at %d: %w", tp.topic, tp.id, next[tp].offset, err))
			}
			if p := owner[tp]; p != nil {
				p.answered(next[tp], err)
			}
		}
	}
	return refused
}

// answered notes the broker's answer to a commit.
func (p *Partition) answered(c commit, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.committed = c
		if p.other != nil && p.routes.recorded < 0 {
			p.routes.recorded = p.other.looks.Load()
		}
	case errors.Is(err, kerr.OffsetMetadataTooLarge):
		// This broker's offset.metadata.max.bytes is smaller than usual.
		p.limit = max(len(c.metadata)/2, smallestLimit)
	}
}
