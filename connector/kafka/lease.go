package kafka

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A member that was frozen, or cut off from the group, for longer than its
// session finds out some time after it goes on: until then it holds records that
// another member has by now, and newer ones of the same keys. The broker fences
// its commits, but nobody fences its calls. So a member keeps a lease: it counts
// on its partitions only for as long as the group cannot have given it up, from
// the sending of the last heartbeat that the group answered.

// leaseShare is the part of the session that a lease lasts, in fifths. The rest
// is left to calls that start at its end to get where they go.
const leaseShare = 4

// lease is how long the member's partitions are its own for certain. It runs by two
// clocks and ends with the first: a machine that was suspended goes on with a
// monotonic clock that did not, and the machine's clock may be moved back.
type lease struct {
	began time.Time                  // of the monotonic clock
	wall  func() time.Time           // the machine's clock
	until atomic.Pointer[expiration] // nil: there is none
	wake  chan struct{}              // partitions were assigned: there should be a lease
}

// expiration is when a lease ends.
type expiration struct {
	after time.Duration // since the monotonic clock began
	at    time.Time     // by the machine's clock
}

func newLease() *lease {
	return &lease{
		began: time.Now(), wake: make(chan struct{}, 1),
		wall: func() time.Time { return time.Now().Round(0) },
	}
}

// renew lets the lease last so long from now, as it was when a heartbeat was sent.
func (l *lease) renew(sent expiration, lasts time.Duration) {
	l.until.Store(&expiration{sent.after + lasts, sent.at.Add(lasts)})
}

func (l *lease) now() expiration { return expiration{time.Since(l.began), l.wall()} }

func (l *lease) holds() bool {
	until, now := l.until.Load(), l.now()
	return until != nil && now.after < until.after && now.at.Before(until.at)
}

func (l *lease) assigned() {
	select {
	case l.wake <- struct{}{}:
	default: // told already
	}
}

// Leased reports whether nobody else can have this member's partitions by now.
// What another owner must not be overtaken by is not to be started otherwise. It
// may be called from any goroutine, and often.
func (s *Source) Leased() bool {
	return s.lease.holds()
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

// keepLease renews the lease until ctx ends. The client has heartbeats of its
// own, but tells nobody of their answers.
func (s *Source) keepLease(ctx context.Context) {
	tick := time.NewTicker(s.heartbeat())
	defer tick.Stop()
	for {
		s.renew(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.lease.wake:
		}
	}
}

// heartbeat is how often the group hears of us.
func (s *Source) heartbeat() time.Duration { return min(s.cfg.SessionTimeout/10, 3*time.Second) }

func (s *Source) renew(ctx context.Context) {
	member, generation := s.client.GroupMetadata()
	if member == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*s.heartbeat())
	defer cancel()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = s.cfg.Group, member, generation
	sent := s.lease.now()
	resp, err := req.RequestWith(ctx, s.client)
	if err != nil {
		return // nothing is known: the lease runs on, and out
	}
	switch err := kerr.ErrorForCode(resp.ErrorCode); {
	case err == nil, errors.Is(err, kerr.RebalanceInProgress): // who rebalances is known to be alive
		s.lease.renew(sent, s.cfg.SessionTimeout*leaseShare/5)
	case errors.Is(err, kerr.UnknownMemberID):
		if now, _ := s.client.GroupMetadata(); now == member {
			s.lease.until.Store(nil)
		}
	}
}
