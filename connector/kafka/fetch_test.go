package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestPartitionThatCannotBeFetchedRestsAndHindersNoOther(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 2, "a")
	fault := b.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Fetch}, Topic: "a", Partitions: []int32{0}, Err: kerr.TopicAuthorizationFailed, Count: -1,
	})
	b.produce("a", 0, 10)
	m := b.join(autoLane(t))
	m.awaitLog("records can't be fetched")
	for n := range 5 {
		b.produce("a", 1, 10)
		b.awaitCommit("a", 1, int64(n+1)*10)
	}
	// Asked again at once, it would be refused thousands of times by now.
	if got := fault.Hits(); got > 20 {
		t.Errorf("fetches refused: got %d, want a few", got)
	}
	fault.Remove()
	b.awaitCommit("a", 0, 10)
}

func TestUnreadableCommittedOffsetHaltsThePartition(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 2, "a")
	b.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.OffsetFetch}, Topic: "a", Partitions: []int32{0}, Err: kerr.TopicAuthorizationFailed, Count: -1,
	})
	b.produce("a", 0, 10)
	b.produce("a", 1, 10)
	m := b.join(autoLane(t))
	m.awaitHalt("a", 0, "the committed offset could not be read", "TOPIC_AUTHORIZATION_FAILED", "Fix the cause, then restart feedsink")
	b.awaitCommit("a", 1, 10)
	if m.Joined() {
		t.Error("joined while a ledger is not read: got true, want false")
	}
	if got := b.committed("a", 0).Offset; got != -1 {
		t.Errorf("commit of a partition whose ledger was not read: got %d, want none", got)
	}
}

// A login without its rights for a while, during which the ledgers are read again.
func TestFetchThatIsRefusedWhileTheLedgerIsReadHaltsNothing(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 10)
	m := b.join(autoLane(t))
	b.awaitCommit("a", 0, 10)
	fetches := b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "a", Err: kerr.TopicAuthorizationFailed, Count: -1})
	ledgers := b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "a", Err: kerr.UnknownServerError, Count: -1})
	m.ReadAgain(m.Partitions())
	m.awaitLog("reading the ledgers was disturbed")
	m.awaitLog("records can't be fetched")
	fetches.Remove()
	ledgers.Remove()
	b.produce("a", 0, 10)
	b.awaitCommit("a", 0, 20)
}

func TestGroupIsJoinedAgainWhenTheLedgersCannotBeRead(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 10)
	b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "a", Err: kerr.UnknownServerError, Count: 2})
	m := b.join(autoLane(t))
	b.awaitCommit("a", 0, 10)
	m.awaitLog("reading the ledgers was disturbed")
}
