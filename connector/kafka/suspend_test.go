package kafka_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/kafka"
)

// suspend has the member's handler let go.
func (m *member) suspend() (resume func(kafka.Subscription, kafka.Handler)) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	resume, err := m.Suspend(ctx)
	if err != nil {
		m.t.Fatalf("suspend: %v", err)
	}
	return resume
}

// TestSuspendedSourceGoesOnFromItsLedgers: what was confirmed is committed and not handed
// on again, the rest is handed to the next handler; what the former one confirms later
// counts for nothing; the member keeps its place.
func TestSuspendedSourceGoesOnFromItsLedgers(t *testing.T) {
	b := newBroker(t, 1, "a")
	first := newLane(t)
	m := b.join(first, func(c *kafka.Config) { c.CommitEvery = time.Hour })
	b.produce("a", 0, 4)
	first.awaitOffsets("a", 0, 0, 1, 2, 3)
	first.confirm("a", 0, 0, 2)
	id := b.awaitMembers(1).Members[0].MemberID

	resume := m.suspend()
	b.awaitDone("a", 0, "[{2 3}]")
	b.awaitCommit("a", 0, 1)
	if got := first.confirm("a", 0, 1); got != 0 {
		t.Errorf("what the former handler confirms later: got %d that count, want none", got)
	}
	second := newLane(t)
	resume(kafka.Subscription{Topics: []string{"a"}}, second)
	second.awaitOffsets("a", 0, 1, 3)
	second.confirm("a", 0, 1, 3)
	m.suspend()(kafka.Subscription{Topics: []string{"a"}}, autoLane(t))
	b.awaitCommit("a", 0, 4)
	if got := b.awaitMembers(1).Members[0].MemberID; got != id {
		t.Errorf("member: got %s, want %s, which has not left", got, id)
	}
}

// TestSuspendedSourceGoesOnWithOtherTopics: one that is read no more is given up with its
// ledger, and read on from there when it comes back.
func TestSuspendedSourceGoesOnWithOtherTopics(t *testing.T) {
	b := newBroker(t, 1, "a", "b")
	first := autoLane(t)
	m := b.join(first, func(c *kafka.Config) { c.Topics = []string{"a"} })
	b.produce("a", 0, 3)
	b.produce("b", 0, 2)
	b.awaitCommit("a", 0, 3)
	m.suspend()(kafka.Subscription{Topics: []string{"b"}}, autoLane(t))
	b.awaitCommit("b", 0, 2)
	b.produce("a", 0, 1)
	eventually(t, "the topic that is not read any more has no owner", func() (bool, any) { owner := b.owner("a", 0); return owner == "", owner })
	last := autoLane(t)
	m.suspend()(kafka.Subscription{Topics: []string{"a", "b"}}, last)
	b.awaitCommit("a", 0, 4)
	if got := last.offsets("a", 0); len(got) != 1 || got[0] != 3 {
		t.Errorf("offsets of the topic that came back: got %v, want 3", got)
	}
}

// TestSourceThatEndsWhileItIsSuspendedLeavesTheGroup: what is still to be built may take
// long, or fail.
func TestSourceThatEndsWhileItIsSuspendedLeavesTheGroup(t *testing.T) {
	b := newBroker(t, 1, "a")
	m := b.join(autoLane(t), func(c *kafka.Config) { c.SessionTimeout = time.Minute })
	b.produce("a", 0, 3)
	b.awaitCommit("a", 0, 3)
	resume := m.suspend()
	m.stop()
	resume(kafka.Subscription{Topics: []string{"a"}}, newLane(t))
	eventually(t, "the member has left", func() (bool, any) { n := len(b.GroupInfo(group).Members); return n == 0, n })
	if got := b.committed("a", 0).Offset; got != 3 {
		t.Errorf("committed: got %d, want 3 still", got)
	}
}

// TestSuspendThatIsGivenUpLeavesTheHandler: a loop that waits for brokers takes no requests.
func TestSuspendThatIsGivenUpLeavesTheHandler(t *testing.T) {
	b := newBroker(t, 1, "a")
	l := autoLane(t)
	m := b.join(l)
	b.awaitMembers(1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if resume, err := m.Suspend(ctx); !errors.Is(err, context.Canceled) || resume != nil {
		t.Errorf("suspend: got %v, want an interrupt and nothing to resume", err)
	}
	b.produce("a", 0, 3)
	b.awaitCommit("a", 0, 3)
	if l.wasReleased("a", 0) {
		t.Error("the handler was told to let go, want it to go on")
	}
}
