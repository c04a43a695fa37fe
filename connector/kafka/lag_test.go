package kafka_test

import (
	"slices"
	"testing"
)

func TestStatusShowsWhatTheLogHoldsBeyondTheWatermark(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 2, "b", "a")
	b.produce("a", 1, 30)
	l := autoLane(t)
	l.room[1] = 7
	m := b.join(l)
	want := []int64{0, 23, 0, 0}
	eventually(t, "the lag is known", func() (bool, any) {
		var got []int64
		for _, st := range m.Status() {
			got = append(got, st.Lag)
		}
		return slices.Equal(got, want), got
	})
	var order []string
	for _, st := range m.Status() {
		order = append(order, name(st.Topic, st.Partition))
	}
	if want := []string{name("a", 0), name("a", 1), name("b", 0), name("b", 1)}; !slices.Equal(order, want) {
		t.Errorf("got %v, want them in order: %v", order, want)
	}
}

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
