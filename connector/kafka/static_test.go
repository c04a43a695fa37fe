package kafka_test

import (
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/kafka"
)

// static gives a member the instance id, and a session that no test waits for.
func static(id string) func(*kafka.Config) {
	return func(c *kafka.Config) { c.InstanceID, c.SessionTimeout = id, time.Minute }
}

func TestKilledMemberWithAnInstanceIDIsBackBeforeItsSessionEnds(t *testing.T) {
	t.Parallel()
	for name, tableOf := range map[string]func(string) string{"spread": nil, "by-table": func(topic string) string { return topic }} {
		t.Run(name, func(t *testing.T) {
			b := newBroker(t, 1, "a")
			b.produce("a", 0, 10)
			by := func(c *kafka.Config) { c.TableOf = tableOf }
			killed := b.join(newLane(t), static("pod-1"), by)
			killed.awaitOffsets("a", 0, upTo(0, 10)...)
			killed.confirm("a", 0, 0, 1, 5)
			b.awaitDone("a", 0, "[{5 6}]")
			b.freeze(b.owner("a", 0))
			killed.confirm("a", 0, 2) // never to be committed
			back := b.join(newLane(t), static("pod-1"), by)
			back.awaitOffsets("a", 0, 2, 3, 4, 6, 7, 8, 9) // its ledger was read
			back.confirm("a", 0, 2, 3, 4, 6, 7, 8, 9)
			b.awaitCommit("a", 0, 10)
			b.thaw()
			awaitFenced(t, killed, "pod-1")
			b.produce("a", 0, 1)
			back.awaitOffsets("a", 0, 2, 3, 4, 6, 7, 8, 9, 10)
			back.confirm("a", 0, 10)
			b.awaitCommit("a", 0, 11)
		})
	}
}

// awaitFenced waits until a member has stopped since another has its instance id.
func awaitFenced(t *testing.T, m *member, id string) {
	t.Helper()
	select {
	case err := <-m.err:
		for _, words := range []string{"kafka.instanceId", id, "FENCED_INSTANCE_ID", group} {
			if err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("error of the fenced member: got %v, want it to name %s", err, words)
			}
		}
	case <-time.After(patience):
		t.Fatalf("the fenced member still runs after %v", patience)
	}
	if n := len(m.Partitions()); n != 0 || m.Leased() {
		t.Errorf("the fenced member has %d partitions, and its lease holds: %t; want neither", n, m.Leased())
	}
}

func TestOfTwoMembersWithOneInstanceIDTheOlderStops(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 2, "a")
	b.produce("a", 0, 10)
	older := b.join(newLane(t), static("pod-1"))
	older.awaitOffsets("a", 0, upTo(0, 10)...)
	older.confirm("a", 0, upTo(0, 4)...)
	b.awaitCommit("a", 0, 4)
	newer := b.join(newLane(t), static("pod-1"))
	awaitFenced(t, older, "pod-1")
	newer.awaitOffsets("a", 0, upTo(4, 10)...)
	newer.confirm("a", 0, upTo(4, 10)...)
	b.awaitCommit("a", 0, 10)
	if got := len(b.awaitMembers(1).Members); got != 1 {
		t.Errorf("members: got %d, want the newer one: the older leaves nothing on its behalf", got)
	}
	if got := newer.Partitions(); len(got) != 2 {
		t.Errorf("partitions of the newer one: got %d, want both", len(got))
	}
}

func TestMemberWithAnInstanceIDThatStopsLeavesItsGroup(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 5)
	m := b.join(autoLane(t), static("pod-1"))
	b.awaitCommit("a", 0, 5)
	m.stop()
	if got := len(b.GroupInfo(group).Members); got != 0 {
		t.Errorf("members after it has stopped: got %d, want none, so that the next pod need not wait", got)
	}
	next := b.join(newLane(t), static("pod-2"))
	b.produce("a", 0, 1)
	next.awaitOffsets("a", 0, 5)
}
