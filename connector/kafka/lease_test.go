package kafka_test

import "testing"

func TestLeaseEndsBeforeAnotherMemberHasThePartitions(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 5)
	first := b.join(autoLane(t))
	first.awaitOffsets("a", 0, upTo(0, 5)...)
	eventually(t, "the member has a lease", func() (bool, any) { return first.Leased(), nil })
	second := b.join(autoLane(t))
	b.awaitMembers(2)
	owner, other := first, second
	if len(first.Partitions()) == 0 {
		owner, other = second, first
	}
	eventually(t, "the owner of the partition has a lease while the group answers", func() (bool, any) { return owner.Leased(), nil })
	b.freeze(b.owner("a", 0))
	eventually(t, "the partition moves", func() (bool, any) {
		got := len(other.Partitions())
		return got == 1, got
	})
	if owner.Leased() {
		t.Error("the former owner has a lease while another member has the partition")
	}
	b.thaw()
	eventually(t, "the woken member has a lease again", func() (bool, any) { return owner.Leased(), nil })
}
