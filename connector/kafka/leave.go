package kafka

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

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
			defer time.AfterFunc(s.cfg.ReleaseTimeout, s.goWithout).Stop()
		} else {
			s.leaving.gone.Store(true)
			s.end()
		}
		s.client.CloseAllowingRebalance() // runs revoked: the last commit
		s.end()
		if member, _ := s.client.GroupMetadata(); s.leaving.gone.Load() && member != "" {
			s.leave(member)
		}
	})
}

// goWithout ends the client of a member that stops and still waits for the group. If
// partitions are being given back, their last commit is waited for.
func (s *Source) goWithout() {
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
	opts, err := s.cfg.Connection.Options()
	if err != nil {
		return // it could connect before; a file has changed since
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = s.cfg.Group, member
	gone := kmsg.NewLeaveGroupRequestMember()
	gone.MemberID = member
	gone.Reason = new("client leaving group without waiting for it")
	req.Members = append(req.Members, gone)
	if _, err := req.RequestWith(ctx, client); err != nil {
		s.log.Warn("the group was not told that this member leaves; it waits for it until the session timeout", "error", err)
	}
}
