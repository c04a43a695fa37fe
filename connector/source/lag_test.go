package source_test

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

func TestLagIsNotKnownBeforeAnybodyHasAsked(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	m := b.join(autoLane(t))
	b.awaitCommit("a", 0, 0)
	st := m.Status()
	if len(st) != 1 || st[0].Lag != -1 {
		t.Errorf("the first answer: got %+v, want one partition with lag -1", st)
	}
}
