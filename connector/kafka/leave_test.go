package kafka_test

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/kafka"
)

// TestMemberThatWaitsToJoinLeavesAtOnce: the group waits for a member that does not
// answer; one that is still to get its place does not wait with it.
func TestMemberThatWaitsToJoinLeavesAtOnce(t *testing.T) {
	b := newBroker(t, 2, "a")
	long := func(c *kafka.Config) { c.SessionTimeout = time.Minute }
	first := b.join(newLane(t), long)
	b.awaitMembers(1)
	eventually(t, "both partitions are assigned", func() (bool, any) { n := len(first.Partitions()); return n == 2, n })
	slow := b.owner("a", 0)
	b.freeze(slow)
	second := b.join(newLane(t), long)
	eventually(t, "the group waits for the first", func() (bool, any) {
		g := b.GroupInfo(group)
		return g.State == "PreparingRebalance" && len(g.Members) == 2, g.State
	})
	left := make(chan struct{})
	go func() {
		second.stop()
		close(left)
	}()
	select {
	case <-left:
	case <-time.After(patience):
		t.Fatalf("the second member has not left after %v; group: %s", patience, b.GroupInfo(group).State)
	}
	members := func() (ids []string) {
		for _, m := range b.GroupInfo(group).Members {
			ids = append(ids, m.MemberID)
		}
		return ids
	}
	if got := members(); !slices.Equal(got, []string{slow}) {
		t.Errorf("members: got %q, want the first alone, %q", got, slow)
	}
	b.thaw()
	if g := b.awaitMembers(1); len(g.Members) != 1 {
		t.Errorf("got %d members, want 1", len(g.Members))
	}
}

// TestMemberThatJoinsAgainLeavesWithinTheDrainTime: it has partitions, and the group
// waits for a member that does not answer.
func TestMemberThatJoinsAgainLeavesWithinTheDrainTime(t *testing.T) {
	b := newBroker(t, 2, "a")
	long := func(c *kafka.Config) { c.SessionTimeout, c.ReleaseTimeout = time.Minute, time.Second }
	first := b.join(newLane(t), long)
	eventually(t, "both partitions are assigned", func() (bool, any) { n := len(first.Partitions()); return n == 2, n })
	second := b.join(newLane(t), long)
	b.awaitMembers(2)
	eventually(t, "each has a partition", func() (bool, any) {
		n, m := len(first.Partitions()), len(second.Partitions())
		return n == 1 && m == 1, []int{n, m}
	})
	quick := b.owner("a", second.Partitions()[0].ID)
	slow := b.owner("a", first.Partitions()[0].ID)
	b.freeze(slow)
	again := make(chan struct{}, 100)
	b.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		if req.(*kmsg.JoinGroupRequest).MemberID == quick {
			again <- struct{}{}
		}
		return nil, nil, false
	})
	b.join(newLane(t), long)
	left := make(chan struct{})
	go func() {
		<-again // the second joins again, as the third comes
		second.stop()
		close(left)
	}()
	select {
	case <-left:
	case <-time.After(patience):
		t.Fatalf("the second member has not left after %v; group: %s", patience, b.GroupInfo(group).State)
	}
	if got := len(second.Partitions()); got != 0 {
		t.Errorf("got %d partitions, want none", got)
	}
	eventually(t, "the group knows that it has gone", func() (bool, any) {
		n := len(b.GroupInfo(group).Members)
		return n == 2, n
	})
}

// TestMemberThatCannotReachTheGroupEndsAtOnce: there is nothing to leave.
func TestMemberThatCannotReachTheGroupEndsAtOnce(t *testing.T) {
	b := newBroker(t, 1, "a")
	m := b.join(newLane(t), func(c *kafka.Config) { c.Connection.Brokers = []string{"127.0.0.1:1"} })
	m.stop()
	if got := len(m.Partitions()); got != 0 {
		t.Errorf("got %d partitions, want none", got)
	}
}
