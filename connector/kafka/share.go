package kafka

import (
	"context"
	"math"
	"sync/atomic"
	"time"
)

// What the whole deployment may do in a span of time, its members share by their
// partitions: each knows its own and how many there are, so that nobody has to
// ask anybody. While partitions move they are nobody's, and so is their part.

// How often it is looked whether topics have got more partitions, and how soon
// again while it is not known how many there are.
const (
	countEvery = time.Minute
	countAgain = time.Second
)

// portion is this member's part of the group's partitions.
type portion struct {
	all  int64         // partitions of the group's topics, 0: not known; guarded by Source.mu
	part atomic.Uint64 // float64 bits
}

// Share is the part of the group's partitions that are this member's, from 0 to
// 1; 0 while it is not known. The shares of all members add up to at most 1, or a
// little more for up to a minute after a topic has got more partitions. It may
// be called from any goroutine, and often.
func (s *Source) Share() float64 { return math.Float64frombits(s.portion.part.Load()) }

// reckon brings the share up to date. s.mu is held.
func (s *Source) reckon() {
	part := 0.0
	if s.portion.all > 0 {
		part = float64(len(s.parts)) / float64(max(s.portion.all, int64(len(s.parts))))
	}
	s.portion.part.Store(math.Float64bits(part))
}

// countPartitions keeps the number of the group's partitions until ctx ends.
func (s *Source) countPartitions(ctx context.Context) {
	for {
		wait := countEvery
		if err := s.count(ctx); err != nil {
			wait = countAgain
			if ctx.Err() == nil {
				// The client itself is silent where a broker closes the line, as one does
				// to whom a login or a certificate is not good enough.
				s.log.Warn("no broker says which partitions there are; asking again. If it stays so: are kafka.brokers, tls and sasl right? feedsink check --online tells",
					"err", err, "wait", wait)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// count asks once. A topic that does not exist has no partitions to share.
func (s *Source) count(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, countEvery)
	defer cancel()
	topics, err := s.admin.ListTopics(ctx, s.cfg.Topics...)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.portion.all = 0
	for _, t := range topics {
		s.portion.all += int64(len(t.Partitions))
	}
	s.reckon()
	return nil
}
