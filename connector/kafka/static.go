package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
)

// A member with an instance id is a static one: a process that was killed and begins again
// gets a new member id and the partitions that it had, without waiting for the session of
// the old id to end. Its assignments begin anew like any others.
//
// The broker gives the place to the process that joins with the id last, and fences the process that
// had it, which cannot commit any more. It stops: joining again would only fence the other.

// fenced is whether another process has joined with this one's instance id.
type fenced struct {
	yes  atomic.Bool
	stop atomic.Pointer[context.CancelFunc] // ends Run; nil: it has not begun
}

// OnGroupManageError is the client's: the membership has ended.
func (f *fenced) OnGroupManageError(err error) {
	if !errors.Is(err, kerr.FencedInstanceID) {
		return
	}
	f.yes.Store(true)
	if stop := f.stop.Load(); stop != nil {
		(*stop)()
	}
}

// fence notes that a broker has fenced a member. It may be what this process was before:
// one that was thrown out comes back under another id.
func (s *Source) fence(member string) {
	if now, _ := s.client.GroupMetadata(); now == member {
		s.fenced.OnGroupManageError(kerr.FencedInstanceID)
	}
}

// fencedError is for the person who runs two processes with one instance id.
func (s *Source) fencedError() error {
	if !s.fenced.yes.Load() {
		return nil
	}
	return fmt.Errorf("another process has joined group %s with kafka.instanceId %q (%s). This one stops, and nothing is lost: "+
		"the other one reads on from the committed offsets. Give each process an id of its own, such as the name of its pod, or none",
		s.cfg.Group, s.cfg.InstanceID, kerr.FencedInstanceID.Message)
}

// lossReason is what a member cannot tell more exactly when its partitions are gone.
func (s *Source) lossReason() string {
	const silent = "the group did without this member for longer than the session timeout, or has refused it something (then the lines that follow say what)"
	if s.cfg.InstanceID == "" {
		return silent
	}
	return silent + ", or another process has joined with its kafka.instanceId"
}

// shareAnew asks for a rebalance once a member with an instance id has its partitions. What
// it got are those that it had when it was killed: without this, topics that are new in its
// configuration, and partitions that it had just given up, would have no owner until the group
// has another cause to share its partitions. No partition that stays stops being read.
func (s *Source) shareAnew() {
	if s.cfg.InstanceID != "" && !s.sharedAnew && s.Joined() {
		s.sharedAnew = true
		s.client.ForceRebalance()
	}
}
