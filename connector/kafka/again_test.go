package kafka_test

import (
	"context"
	"slices"
	"testing"

	"github.com/feedsink/feedsink/connector/kafka"
)

// A handler has the partitions of a table that stay read again when others go: an
// assignment that ends without them would end theirs, theirs would end it, and so on.
func TestPartitionsOfATableAreReadAgainTogether(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 2, "a")
	b.produce("a", 0, 3)
	b.produce("a", 1, 3)
	l := newLane(t)
	l.inFile = func(r *kafka.Record) bool { return r.Partition == 0 }
	m := b.join(l)
	m.awaitOffsets("a", 0, upTo(0, 3)...)
	m.awaitOffsets("a", 1, upTo(0, 3)...)
	m.confirm("a", 1, upTo(0, 3)...)
	other := m.assignment("a", 1)
	var released [][]*kafka.Partition
	m.set(func(l *lane) {
		l.release = func(_ context.Context, ps []*kafka.Partition) {
			released = append(released, ps)
			m.ReadAgain(slices.DeleteFunc(m.Partitions(), func(p *kafka.Partition) bool { return slices.Contains(ps, p) }))
		}
	})
	m.ReadAgain([]*kafka.Partition{m.assignment("a", 0)})
	m.awaitOffsets("a", 0, append(upTo(0, 3), upTo(0, 3)...)...)
	if other.Live() {
		t.Error("the assignment of the other partition: goes on, want it ended with the first one's")
	}
	b.produce("a", 1, 1)
	m.awaitOffsets("a", 1, upTo(0, 4)...)
	m.set(func(l *lane) { l.release = nil })
	if len(released) != 1 || len(released[0]) != 2 {
		t.Errorf("assignments that ended: got %v, want both partitions at once", released)
	}
}
