package kafka

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

// smallestLimit is the room of a ledger in characters that is not gone below,
// whatever the broker refuses.
const smallestLimit = 128

// commit is one offset commit of a partition: offset and metadata are written
// together.
type commit struct {
	offset   int64
	epoch    int32 // leader epoch of the records that were read last; -1: not known
	metadata string
}

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
		if err := s.commit(context.WithoutCancel(ctx), s.Partitions()); !errors.Is(err, ErrFenced) && s.conditions.NotCommitted(err) {
			s.log.Warn("offsets were not committed; trying again", "error", err)
		}
	}
}

// CommitSoon has the offsets committed now instead of in their turn.
func (s *Source) CommitSoon() { notify(s.soon) }

// notify has who waits for c go on; c has room for one.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it has not looked since the last one
	}
}

// snapshot is p's next commit. ok is false if there is nothing new to commit,
// or nothing is known yet of what was committed before.
func (p *Partition) snapshot() (next commit, ok bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == ended {
		return next, false, fmt.Errorf("%s[%d]: %w", p.Topic, p.ID, ErrFenced)
	}
	if p.state != reading {
		return next, false, nil
	}
	next.offset, next.epoch = p.tracker.Watermark(), p.epoch
	p.ledger.Done = p.tracker.Confirmed()
	if p.routes.redo {
		p.ledger.Done = nil
	}
	if next.offset >= p.ledger.Routes.Resend {
		p.ledger.Routes.Resend = 0
	}
	p.ledger.Routes.Halted = len(p.halts) > 0 || p.pausedHere()
	p.ledger.Imports = p.ledger.Imports[:0]
	for _, table := range slices.Sorted(maps.Keys(p.imports)) {
		if im := p.imports[table]; im.State != ack.SetApart || next.offset < im.UpTo {
			p.ledger.Imports = append(p.ledger.Imports, im)
			continue
		}
		delete(p.imports, table)
	}
	next.offset, _ = p.ledger.Trim(next.offset, p.cut)
	if next.metadata, err = p.encode(next.offset); err != nil {
		return next, false, fmt.Errorf("%s[%d]: %w", p.Topic, p.ID, err)
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
		offsets[p.Topic][p.ID] = kgo.EpochOffset{Epoch: c.epoch, Offset: c.offset}
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
		if errors.Is(err, kerr.FencedInstanceID) {
			s.fence(req.MemberID)
		}
		if errors.Is(err, kerr.UnknownTopicID) {
			s.unknownID.Store(true)
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
		p.unknownID.Store(0)
		if c.offset != p.committed.offset {
			p.standing = time.Now()
		}
		p.committed = c
		if p.routes.recorded < 0 {
			p.routes.recorded = p.routes.looks.Load()
		}
	case errors.Is(err, kerr.UnknownTopicID):
		p.unknownID.Add(1)
	case errors.Is(err, kerr.OffsetMetadataTooLarge):
		// This broker's offset.metadata.max.bytes is smaller than usual.
		p.limit = max(len(c.metadata)/2, smallestLimit)
	}
}

// KeepHalt keeps a mapping's halt in the partition's ledger, from the next commit on.
func (p *Partition) KeepHalt(h ack.Halt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ledger.Halts = append(without(p.ledger.Halts, h.Mapping), h)
}

// ForgetHalt takes a mapping's halt off the partition's ledger.
func (p *Partition) ForgetHalt(mapping uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ledger.Halts = without(p.ledger.Halts, mapping)
}

// KeptHalts are the mappings' halts in the partition's ledger.
func (p *Partition) KeptHalts() []ack.Halt {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.ledger.Halts)
}

func without(halts []ack.Halt, mapping uint64) []ack.Halt {
	return slices.DeleteFunc(halts, func(h ack.Halt) bool { return h.Mapping == mapping })
}

// WriteAgain commits that writes of the other lane below these ends are to be written
// again, as soon as both lanes apply the same routes: they were not read before an
// import ended that may have overwritten them.
func (s *Source) WriteAgain(ctx context.Context, ends map[*Partition]int64) error {
	s.commits.Lock()
	defer s.commits.Unlock()
	for p, end := range ends {
		if !p.writeAgain(end) {
			return ErrFenced
		}
	}
	return s.write(ctx, slices.Collect(maps.Keys(ends)))
}

// writeAgain notes that on the partition's ledger; false if the assignment has ended.
func (p *Partition) writeAgain(end int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ledger.Routes.Resend = max(p.ledger.Routes.Resend, end)
	return p.state != ended
}
