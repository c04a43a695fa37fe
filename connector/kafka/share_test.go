package kafka_test

import (
	"math"
	"testing"
)

// TestSharesAddUpToOne: three members know their parts without asking each other,
// and what a member had that dies is the others'.
func TestSharesAddUpToOne(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 6, "a", "b")
	members := []*member{b.join(autoLane(t)), b.join(autoLane(t)), b.join(autoLane(t))}
	shared := func(among []*member, each float64) {
		t.Helper()
		eventually(t, "the partitions are shared", func() (bool, any) {
			var got []float64
			met := true
			for _, m := range among {
				got = append(got, m.Share())
				met = met && math.Abs(m.Share()-each) < 1e-9
			}
			return met, got
		})
	}
	shared(members, 1.0/3)
	first := members[0].Partitions()[0]
	b.freeze(b.owner(first.Topic, first.ID))
	shared(members[1:], 1.0/2)
	members[1].stop()
	shared(members[1:2], 0)
	shared(members[2:], 1)
}
