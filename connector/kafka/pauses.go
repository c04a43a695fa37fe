package kafka

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/feedsink/feedsink/connector/ack"
)

// ChangePauses shows the pauses in the partition's ledger and keeps those that change
// returns, from the next commit on: they are not to be changed. change must not call back.
func (p *Partition) ChangePauses(change func(kept []ack.Pause) []ack.Pause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ledger.Pauses = change(p.ledger.Pauses)
}

// pausedHere reports whether a mapping that reads the partition is paused in this lane:
// what is not confirmed may stay so until a person acts. p.mu is held.
func (p *Partition) pausedHere() bool {
	return slices.ContainsFunc(p.ledger.Pauses, func(x ack.Pause) bool { return x.Batch == p.routes.Batch && !x.Resumed })
}

// CommitNow commits what is confirmed, and what the ledgers keep, and returns once the
// broker has it. An error means that it may not have it; the next commit, within a
// second, tries again.
func (s *Source) CommitNow(ctx context.Context) error { return s.commit(ctx, s.Partitions()) }

// OtherPauses are the pauses in the ledgers of the other lane's group when that was last
// looked at, which it is before an assignment's first record.
func (s *Source) OtherPauses() (all []ack.Pause) {
	s.other.mu.Lock()
	defer s.other.mu.Unlock()
	for _, c := range s.other.known {
		all = append(all, c.pauses...)
	}
	return all
}

// OwnPauses are the pauses in the ledgers of the lane's own group, and how soon it is to be
// looked again. It makes one attempt.
func (s *Source) OwnPauses(ctx context.Context) (all []ack.Pause, again time.Duration, err error) {
	ledgers, err := s.ownLedgers(ctx, func(l *ack.Ledger) { all = append(all, l.Pauses...) })
	return all, s.lookEvery(ledgers), err
}

// ownLedgers shows each ledger of the lane's own group that can be read, and counts all of them.
// It makes one attempt.
func (s *Source) ownLedgers(ctx context.Context, each func(*ack.Ledger)) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	committed, err := s.own.Fetch(ctx)
	if err != nil {
		return 0, fmt.Errorf("fetch offsets of %s: %w", s.cfg.Group, err)
	}
	committed.Each(func(o kadm.OffsetResponse) {
		n++
		if ledger, err := s.decode(o.Topic, commit{o.At, o.LeaderEpoch, o.Metadata}); err == nil && o.Err == nil {
			each(&ledger)
		}
	})
	return n, nil
}
