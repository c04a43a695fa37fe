package kafka_test

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/ack"
)

func TestRecordsNotTakenAreOfferedAgain(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 2, "a")
	b.produce("a", 0, 30)
	l := autoLane(t)
	l.room[0] = 7
	m := b.join(l)
	m.awaitOffsets("a", 0, upTo(0, 7)...)
	b.awaitCommit("a", 0, 7)
	b.produce("a", 0, 1)
	b.produce("a", 1, 40)
	m.awaitOffsets("a", 1, upTo(0, 40)...) // the other partition goes on
	fetched := b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "a", Partitions: []int32{0}, Count: -1, Observe: true})
	for n := range int64(5) {
		b.produce("a", 0, 1)
		b.produce("a", 1, 1)
		b.awaitCommit("a", 1, 41+n)
	}
	if got := fetched.Hits(); got > 1 { // one may have been on its way
		t.Errorf("fetches of the partition while its records are not taken: got %d, want none", got)
	}
	b.produce("a", 0, 4)
	m.awaitOffsets("a", 0, upTo(0, 7)...)
	m.set(func(l *lane) { l.room[0] = 5 })
	m.awaitOffsets("a", 0, upTo(0, 12)...)
	m.set(func(l *lane) { delete(l.room, 0) })
	m.awaitOffsets("a", 0, upTo(0, 40)...)
	b.produce("a", 0, 5) // fetching goes on as well
	m.awaitOffsets("a", 0, upTo(0, 45)...)
	b.awaitCommit("a", 0, 45)
}

func TestFullLaneStopsPollingButNotRebalances(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 2, "a")
	l := autoLane(t)
	l.full = true
	full := b.join(l)
	b.awaitCommit("a", 0, 0)
	b.produce("a", 0, 20)
	b.produce("a", 1, 20)
	other := b.join(autoLane(t))
	b.awaitMembers(2)
	eventually(t, "the second member reads one of the partitions", func() (bool, any) {
		got := len(other.offsets("a", 0)) + len(other.offsets("a", 1))
		return got == 20, got
	})
	if got := len(full.offsets("a", 0)) + len(full.offsets("a", 1)); got != 0 {
		t.Errorf("records handed to a full lane: got %d, want 0", got)
	}
	full.set(func(l *lane) { l.full = false })
	b.awaitCommit("a", 0, 20)
	b.awaitCommit("a", 1, 20)
}

func TestHaltStopsOnePartitionUntilItsLastCauseIsGone(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 2, "a")
	m := b.join(autoLane(t))
	b.awaitCommit("a", 0, 0)
	b.awaitCommit("a", 1, 0)
	halted := m.assignment("a", 0)
	halted.Halt("customers", "customers: import failed")
	halted.Halt("customers", "a later reason of the same cause")
	halted.Halt("orders", "orders: no table")
	b.produce("a", 0, 10)
	b.produce("a", 1, 10)
	b.awaitCommit("a", 1, 10)
	if st, _ := halted.Status(); !slices.Equal(st.Halted, []string{"customers: import failed", "orders: no table"}) {
		t.Errorf("reasons: got %q", st.Halted)
	}
	halted.Resume("customers")
	b.produce("a", 1, 10)
	b.awaitCommit("a", 1, 20)
	if got := m.offsets("a", 0); len(got) > 0 {
		t.Errorf("records of a halted partition handed on: got %v, want none", got)
	}
	halted.Resume("orders")
	b.awaitCommit("a", 0, 10)
}

func TestLedgerNearlyFullPausesThePartitionUntilItShrinks(t *testing.T) {
	t.Parallel()
	const records, more = 5000, 100
	b := newBroker(t, 1, "a")
	b.produce("a", 0, records)
	m := b.join(newLane(t))
	eventually(t, "all records are handed on", func() (bool, any) {
		got := len(m.offsets("a", 0))
		return got == records, got
	})
	var odd, even []int64 // confirming every other record makes the longest ledger
	for o := int64(0); o < records; o += 2 {
		even, odd = append(even, o), append(odd, o+1)
	}
	m.confirm("a", 0, odd...)
	eventually(t, "the ledger has reached three quarters of its room", func() (bool, any) {
		got := len(b.committed("a", 0).Metadata)
		return got > ack.MetadataLimit*3/4, got
	})
	b.produce("a", 0, more)
	m.confirm("a", 0, even[:100]...) // progress, but not enough
	b.awaitCommit("a", 0, 200)
	if got := len(m.offsets("a", 0)); got != records {
		t.Errorf("records handed on while the ledger is full: got %d, want %d", got, records)
	}
	m.confirm("a", 0, even[100:]...)
	eventually(t, "the partition goes on", func() (bool, any) {
		got := len(m.offsets("a", 0))
		return got == records+more, got
	})
}
