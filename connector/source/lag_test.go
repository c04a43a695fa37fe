package source_test

import (
	"testing"
)

func TestLagIsWhatIsNotCommitted(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 10)
	m := b.join(newLane(t))
	m.awaitOffsets("a", 0, upTo(0, 10)...)
	lag := func() int64 {
		n, ok := m.Partitions()[0].Lag()
		if !ok {
			return -1
		}
		return n
	}
	if got := lag(); got != 10 {
		t.Errorf("before the first commit: got %d, want 10", got)
	}
	m.confirm("a", 0, 0, 1, 2, 5)
	b.awaitCommit("a", 0, 3)
	eventually(t, "the lag is what lies beyond the commit", func() (bool, any) {
		got := lag()
		return got == 7, got
	})
}

func TestLagOfAHaltedPartitionGrows(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 10)
	m := b.join(newLane(t))
	m.awaitOffsets("a", 0, upTo(0, 10)...)
	p := m.Partitions()[0]
	p.Halt("customers", "a person must look")
	b.produce("a", 0, 5)
	eventually(t, "the lag counts records that nobody fetches", func() (bool, any) {
		m.LookAtEnds(t.Context())
		got, _ := p.Lag()
		return got == 15, got
	})
}
