package kafka_test

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestMembersAreAskedForOnceInAGeneration: between two rebalances a group stays as it is.
func TestMembersAreAskedForOnceInAGeneration(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 2, "a")
	first := b.join(newLane(t))
	var asked atomic.Int32
	b.ControlKey(kmsg.DescribeGroups.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		asked.Add(1)
		return nil, nil, false
	})
	members := func(want int) {
		t.Helper()
		eventually(t, "the members are known, with what they have", func() (bool, any) {
			got, err := first.GroupMembers(t.Context())
			if err != nil {
				return false, err
			}
			partitions := 0
			for _, m := range got {
				partitions += len(m.Partitions["a"])
			}
			return len(got) == want && partitions == 2, got
		})
	}
	eventually(t, "the member is told its partitions", func() (bool, any) { return first.Joined(), nil })
	members(1)
	before := asked.Load()
	for range 10 {
		members(1)
	}
	if got := asked.Load(); got != before {
		t.Errorf("in the same generation: got %d requests more, want none", got-before)
	}
	b.join(newLane(t))
	members(2)
}
