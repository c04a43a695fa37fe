package source_test

import (
	"slices"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/source"
)

// TestMemberThatWaitsToJoinLeavesAtOnce: the group waits for a member that does not
// answer; one that is still to get its place does not wait with it.
func TestMemberThatWaitsToJoinLeavesAtOnce(t *testing.T) {
	b := newBroker(t, 2, "a")
	long := func(c *source.Config) { c.SessionTimeout = time.Minute }
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

// TestMemberThatCannotReachTheGroupEndsAtOnce: there is nothing to leave.
func TestMemberThatCannotReachTheGroupEndsAtOnce(t *testing.T) {
	b := newBroker(t, 1, "a")
	m := b.join(newLane(t), func(c *source.Config) { c.Connection.Brokers = []string{"127.0.0.1:1"} })
	m.stop()
	if got := len(m.Partitions()); got != 0 {
		t.Errorf("got %d partitions, want none", got)
	}
}
