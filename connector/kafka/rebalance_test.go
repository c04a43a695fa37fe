package kafka_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/kafka"
)

func TestReleaseComesBeforeTheLastCommit(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 5)
	l := newLane(t)
	m := b.join(l, func(c *kafka.Config) { c.CommitEvery = time.Hour })
	m.awaitOffsets("a", 0, upTo(0, 5)...)
	m.set(func(l *lane) {
		l.release = func(ctx context.Context, _ []*kafka.Partition) {
			if ctx.Err() != nil {
				t.Error("release on leaving: its context has ended before")
			}
			l.confirm("a", 0, 0, 1, 3)
		}
	})
	m.stop()
	b.awaitDone("a", 0, "[{3 4}]")
	if offset, _ := b.ledger("a", 0); offset != 2 {
		t.Errorf("last commit: got %d, want 2", offset)
	}
	if got := m.Pending(); got != 0 {
		t.Errorf("pending after the assignment ended: got %d, want 0", got)
	}
}

func TestRebalanceHandsOverWithoutRepeating(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 4, "a")
	for id := range int32(4) {
		b.produce("a", id, 50)
	}
	first := b.join(newLane(t))
	for id := range int32(4) {
		first.awaitOffsets("a", id, upTo(0, 50)...)
		first.confirm("a", id, append(upTo(0, 20), 30, 31)...)
	}
	second := b.join(autoLane(t))
	eventually(t, "two partitions move", func() (bool, any) {
		got := len(second.Partitions())
		return got == 2, got
	})
	for id := range int32(4) {
		if !first.wasReleased("a", id) {
			continue
		}
		second.awaitOffsets("a", id, append(upTo(20, 30), upTo(32, 50)...)...)
		b.awaitCommit("a", id, 50)
		if got := first.confirm("a", id, upTo(40, 50)...); got != 0 {
			t.Errorf("late confirms that counted: got %d, want 0", got)
		}
	}
	// A late confirm must not bring an old offset back with the next commit.
	for _, p := range first.Partitions() {
		first.confirm("a", p.ID, 20)
		b.awaitCommit("a", p.ID, 21)
	}
	for _, p := range second.Partitions() {
		if got := b.committed("a", p.ID).Offset; got != 50 {
			t.Errorf("a[%d] after late confirms of its former owner: got %d, want 50", p.ID, got)
		}
	}
}

func TestFrozenMembersPartitionsMoveAndItsConfirmsAreIgnored(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 10)
	frozen := b.join(newLane(t))
	frozen.awaitOffsets("a", 0, upTo(0, 10)...)
	frozen.confirm("a", 0, 0, 1, 5)
	b.awaitDone("a", 0, "[{5 6}]")
	b.freeze(b.owner("a", 0))
	frozen.confirm("a", 0, 2) // never to be committed
	second := b.join(newLane(t))
	second.awaitOffsets("a", 0, 2, 3, 4, 6, 7, 8, 9)
	second.confirm("a", 0, 2, 3, 4, 6)
	b.awaitCommit("a", 0, 7)
	b.thaw()
	eventually(t, "the frozen member has noticed", func() (bool, any) {
		return frozen.wasReleased("a", 0), frozen.logs
	})
	if got := frozen.confirm("a", 0, 7, 8, 9); got != 0 {
		t.Errorf("confirms after the partition was lost that counted: got %d, want 0", got)
	}
	second.confirm("a", 0, 8)
	b.awaitDone("a", 0, "[{8 9}]")
	if offset, _ := b.ledger("a", 0); offset != 7 {
		t.Errorf("committed: got %d, want 7", offset)
	}
}

// kicked brings a member to where it was thrown out of the group and holds its
// poll, so that it has not noticed: another has, or could have had, its
// partition. Its commits fail, and make it join again under another id.
func kicked(t *testing.T, b *broker) (m *member, letGo func()) {
	t.Helper()
	b.produce("a", 0, 10)
	m = b.join(newLane(t), func(c *kafka.Config) { c.SessionTimeout = 10 * time.Second })
	m.awaitOffsets("a", 0, upTo(0, 10)...)
	m.confirm("a", 0, 0, 1)
	b.awaitCommit("a", 0, 2)
	waiting, letGo := m.hold()
	t.Cleanup(letGo)
	b.produce("a", 0, 1)
	<-waiting
	b.kick(b.owner("a", 0))
	m.confirm("a", 0, 2) // never to be committed by this member
	return m, letGo
}

func TestKickedMemberLeavesItsSuccessorsLedgerAlone(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	m, letGo := kicked(t, b)
	successor := b.join(newLane(t))
	successor.awaitOffsets("a", 0, upTo(2, 11)...)
	successor.confirm("a", 0, append(upTo(2, 6), 8)...)
	b.awaitDone("a", 0, "[{8 9}]")
	m.set(func(l *lane) {
		var first sync.Once // it may be assigned the partition again, and give that back in good order
		l.release = func(ctx context.Context, _ []*kafka.Partition) {
			goesOn := false
			first.Do(func() { goesOn = ctx.Err() == nil })
			if goesOn {
				t.Error("release of what another has by now: its context goes on, and with it the wait for commits that can only fail")
			}
		}
	})
	letGo()
	b.awaitMembers(2)
	eventually(t, "the kicked member has let go", func() (bool, any) {
		return m.wasReleased("a", 0) && m.logs.has("partitions lost"), m.logs
	})
	if offset, l := b.ledger("a", 0); offset != 6 || len(l.Done) != 1 {
		t.Errorf("ledger of the successor: got %d %v, want 6 [{8 9}]", offset, l.Done)
	}
	if got := successor.wasReleased("a", 0); got {
		t.Error("the successor keeps its partition: got released")
	}
}

func TestPartitionKeptUnderANewClientIDReadsItsLedgerAgain(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	m, letGo := kicked(t, b)
	// Another has it meanwhile, gets on, and goes.
	between := b.join(newLane(t))
	between.awaitOffsets("a", 0, upTo(2, 11)...)
	between.confirm("a", 0, append(upTo(2, 6), 8)...)
	b.awaitDone("a", 0, "[{8 9}]")
	between.stop()
	// What it polls while its ledger is read must not count as read.
	b.ControlKey(int16(kmsg.OffsetFetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.DropControl()
		b.SleepControl(func() { b.produce("a", 0, 50) })
		return nil, nil, false
	})
	letGo()
	again := append([]int64{6, 7, 9}, upTo(10, 61)...)
	eventually(t, "what is not confirmed is handed on again", func() (bool, any) {
		got := m.offsets("a", 0)
		return len(got) >= len(again) && slices.Equal(got[len(got)-len(again):], again), got
	})
	m.confirm("a", 0, 6, 7)
	b.awaitCommit("a", 0, 9)
	m.confirm("a", 0, upTo(9, 61)...)
	b.awaitCommit("a", 0, 61)
}
