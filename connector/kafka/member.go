package kafka

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/retry"
)

// A member that was frozen, or cut off from the group, for longer than its
// session finds out some time after it goes on: until then it holds records that
// another member has by now, and newer ones of the same keys. The broker fences
// its commits, but its calls are not fenced. So a member keeps a lease: it counts
// on its partitions only for as long as the group cannot have given it up, from
// the sending of the last heartbeat that the group answered.

// leaseShare is the part of the session that a lease lasts, in fifths. The rest
// is left to calls that start at its end to get where they go.
const leaseShare = 4

// Leased reports whether no other member can have this member's partitions by now.
// What another owner must not be overtaken by is not to be started otherwise. It
// may be called for each record.
func (s *Source) Leased() bool {
	return !s.fenced.yes.Load() && s.lease.Holds()
}

// stayMember keeps the lease beyond the end of ctx, until the function that it returns
// is called: while a member that leaves gives its partitions back, the client has no
// heartbeats of its own any more, and the group would give them to another.
func (s *Source) stayMember(ctx context.Context) (left func()) {
	var kept sync.WaitGroup
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	kept.Go(func() { s.keepLease(ctx) })
	return func() {
		cancel()
		kept.Wait()
	}
}

// keepLease renews the lease until ctx ends, three times as often as it would run out. The
// client has heartbeats of its own, which tell it of a rebalance, but does not tell of their
// answers.
func (s *Source) keepLease(ctx context.Context) {
	for {
		wait := s.heartbeat()
		if s.renew(ctx) {
			wait = max(wait, s.leaseLasts()/3)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		case <-s.lease.Wanted():
		}
	}
}

// heartbeat is the time between two heartbeats of the client.
func (s *Source) heartbeat() time.Duration {
	return min(s.cfg.SessionTimeout/10, max(3*time.Second, s.cfg.LookEvery))
}

func (s *Source) leaseLasts() time.Duration { return s.cfg.SessionTimeout * leaseShare / 5 }

// renew sends a heartbeat and reports whether the lease runs from it.
func (s *Source) renew(ctx context.Context) bool {
	member, generation := s.client.GroupMetadata()
	if member == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 2*s.heartbeat())
	defer cancel()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = s.cfg.Group, member, generation
	if s.cfg.InstanceID != "" {
		req.InstanceID = &s.cfg.InstanceID
	}
	sent := s.lease.Now()
	resp, err := req.RequestWith(ctx, s.client)
	if err != nil {
		return false // nothing is known: the lease runs on, and out
	}
	switch err := kerr.ErrorForCode(resp.ErrorCode); {
	case err == nil, errors.Is(err, kerr.RebalanceInProgress): // who rebalances is known to be alive
		s.lease.Renew(sent, s.leaseLasts())
		return true
	case errors.Is(err, kerr.FencedInstanceID):
		s.fence(member)
	case errors.Is(err, kerr.UnknownMemberID):
		if now, _ := s.client.GroupMetadata(); now == member {
			s.lease.End()
		}
	}
	return false
}

// releaseTimeout bounds how long a rebalance or shutdown waits for the work under
// way, where the configuration does not.
const releaseTimeout = 35 * time.Second

// revoked gives partitions back while the broker still accepts commits: the
// lane finishes what it started, the last commit follows, and only then can
// the next owner read what was committed.
func (s *Source) revoked(ctx context.Context, client *kgo.Client, removed map[string][]int32) {
	ps := s.find(removed)
	if len(ps) == 0 {
		return // the cooperative protocol also calls with nothing to revoke
	}
	s.leaving.giving.Add(1)
	defer s.leaving.giving.Add(-1)
	if s.leaving.gone.Load() {
		s.drop(ctx, ps)
		s.log.Warn("leaving while the group takes its members in again: partitions are given up without a last commit; their next owner repeats what was confirmed since", "partitions", len(ps))
		return
	}
	// Thrown out, and back under another id before a heartbeat told: the group asks
	// for what it has given to others. Nothing of it can be committed, nor waited for.
	if member, _ := client.GroupMetadata(); slices.ContainsFunc(ps, func(p *Partition) bool { return p.member != member }) {
		s.lost(ctx, client, removed)
		return
	}
	releasing, cancel := context.WithDeadline(context.WithoutCancel(ctx), s.leaving.until(s.cfg.ReleaseTimeout))
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
	s.placed.Store(false)
	s.drop(ctx, ps)
	for topic, ids := range removed {
		s.log.Warn("partitions lost: "+s.lossReason(), "topic", topic, "partitions", ids)
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

// over is a context that has ended: nothing can be committed any more.
func over(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
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
	defer s.updateShare()
	for _, p := range ps {
		had := p.end()
		if tp := (topicPartition{p.Topic, p.ID}); s.parts[tp] == p {
			delete(s.parts, tp)
			if len(had.Slots)+len(had.Imports) > 0 {
				s.left[tp] = had
			}
		}
		if p.paused != 0 {
			s.client.ResumeFetchPartitions(map[string][]int32{p.Topic: {p.ID}})
		}
	}
}

// leaveTimeout bounds the request of a member that leaves before it has a place.
const leaveTimeout = 5 * time.Second

// closeTimeout is what the client may take to end its sessions with the brokers.
const closeTimeout = 2 * time.Second

// LeaveTime is what a member that stops may take, if work under way is waited for as
// long as release.
func LeaveTime(release time.Duration) time.Duration {
	return release + commitTimeout + leaveTimeout + closeTimeout
}

// leaving is how far a member is that stops.
type leaving struct {
	by     atomic.Pointer[time.Time] // no work is waited for later; nil: it does not stop
	giving atomic.Int32              // partitions are being given back
	gone   atomic.Bool               // it does not wait for the group any more
}

// until bounds the wait for work under way, by the member's end too.
func (l *leaving) until(wait time.Duration) time.Time {
	end := time.Now().Add(wait)
	if by := l.by.Load(); by != nil && by.Before(end) {
		return *by
	}
	return end
}

// Close gives the connections up, of a source that was never run, too.
//
// The client leaves the group only when its own request to join was answered,
// which takes as long as the slowest member needs to join again. A member that has
// partitions waits for that as long as for its work under way, since only then it can
// commit; after that its partitions are lost. One without any has nothing to wait for.
// The client ends at once then, and the group is told by another.
func (s *Source) Close() {
	s.closing.Do(func() {
		if len(s.Partitions()) > 0 {
			by := time.Now().Add(s.cfg.ReleaseTimeout)
			s.leaving.by.Store(&by)
			defer time.AfterFunc(s.cfg.ReleaseTimeout, s.stopWaiting).Stop()
		} else {
			s.leaving.gone.Store(true)
			s.end()
		}
		s.client.CloseAllowingRebalance() // runs revoked: the last commit
		s.end()
		// The client does not leave for a member with an instance id, as it might be back soon;
		// one that stops in order is not.
		member, _ := s.client.GroupMetadata()
		if (s.leaving.gone.Load() || s.cfg.InstanceID != "") && member != "" && !s.fenced.yes.Load() {
			s.leave(member)
		}
	})
}

// stopWaiting ends the client of a member that stops and still waits for the group. If
// partitions are being given back, their last commit is waited for.
func (s *Source) stopWaiting() {
	if s.leaving.giving.Load() > 0 {
		committing := time.NewTimer(commitTimeout)
		defer committing.Stop()
		<-committing.C
	}
	s.leaving.gone.Store(true)
	s.end()
}

// leave tells the group that a member has gone, which would otherwise wait for it
// for as long as a session lasts.
func (s *Source) leave(member string) {
	client, err := s.cfg.Connection.NewClient()
	if err != nil {
		return // it could connect before; a file has changed since
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = s.cfg.Group, member
	gone := kmsg.NewLeaveGroupRequestMember()
	gone.MemberID = member
	gone.Reason = new("client leaving group for good")
	req.Members = append(req.Members, gone)
	if _, err := req.RequestWith(ctx, client); err != nil {
		s.log.Warn("the group was not told that this member leaves; it waits for it until the session timeout", "error", err)
	}
}

// What the whole deployment may do in a span of time, its members share by their
// partitions: each knows its own and how many there are, so that none has to
// ask another. While partitions move they have no owner, and so has their part.

// The time between two looks whether topics have got more partitions, and how soon
// again while it is not known how many there are.
const (
	countEvery = 10 * time.Second
	countAgain = time.Second
)

// share is this member's part of the group's partitions.
type share struct {
	all  int64         // partitions of the group's topics, 0: not known; guarded by Source.mu
	part atomic.Uint64 // float64 bits
}

// Share is the part of the group's partitions that are this member's, from 0 to
// 1; 0 while it is not known. The shares of all members add up to at most 1, or a
// little more for some seconds after a topic has got more partitions. It may
// be called for each record.
func (s *Source) Share() float64 { return math.Float64frombits(s.portion.part.Load()) }

// updateShare brings the share up to date. s.mu is held.
func (s *Source) updateShare() {
	part := 0.0
	if s.portion.all > 0 {
		part = float64(len(s.parts)) / float64(max(s.portion.all, int64(len(s.parts))))
	}
	s.portion.part.Store(math.Float64bits(part))
}

// countPartitions keeps the number of the group's partitions until ctx ends.
func (s *Source) countPartitions(ctx context.Context) {
	for wait := time.Duration(0); retry.Sleep(ctx, wait) == nil; {
		wait = max(countEvery, s.cfg.LookEvery)
		if err := s.count(ctx); err != nil {
			wait = countAgain
			if ctx.Err() == nil {
				// The client itself is silent where a broker closes the line, as one does
				// to whom a login or a certificate is not good enough.
				s.log.Debug("no broker says which partitions there are; asking again", "error", err, "wait", wait)
			}
		}
	}
}

// count asks once. A topic that does not exist has no partitions to share.
func (s *Source) count(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, countEvery)
	defer cancel()
	topics, err := cluster.ListTopics(ctx, s.admin, s.now.Load().Topics)
	s.conditions.Asked(topics, err)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.portion.all = 0
	for _, t := range topics {
		s.portion.all += int64(len(t.Partitions))
	}
	s.updateShare()
	return nil
}
