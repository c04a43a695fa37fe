package source

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// leaveTimeout bounds the request of a member that leaves before it has a place.
const leaveTimeout = 5 * time.Second

// Close gives the connections up, of a source that was never run, too.
//
// The client leaves the group only when its own request to join was answered,
// which takes as long as the slowest member needs to join again. A member that has
// partitions waits for that, since only then it can commit. One without any has
// nothing to wait for: its client ends at once, and the group is told by another.
func (s *Source) Close() {
	s.closing.Do(func() {
		waits := len(s.Partitions()) > 0
		if !waits {
			s.end()
		}
		s.client.CloseAllowingRebalance() // runs revoked: the last commit
		s.end()
		if member, _ := s.client.GroupMetadata(); !waits && member != "" {
			s.leave(member)
		}
	})
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
	gone.Reason = new("client leaving group before it has partitions")
	req.Members = append(req.Members, gone)
	if _, err := req.RequestWith(ctx, client); err != nil {
		s.log.Warn("the group was not told that this member leaves; it waits for it until the session timeout", "error", err)
	}
}
