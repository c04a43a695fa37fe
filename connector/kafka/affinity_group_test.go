package kafka_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/kafka"
)

func byTable(c *kafka.Config) {
	c.TableOf = func(topic string) string {
		table, _, _ := strings.Cut(topic, ".")
		return table
	}
}

func (m *member) tables() (tables []string) {
	for _, p := range m.Partitions() {
		table, _, _ := strings.Cut(p.Topic, ".")
		if !slices.Contains(tables, table) {
			tables = append(tables, table)
		}
	}
	slices.Sort(tables)
	return tables
}

func TestDeadMembersTablesMoveAndNoOthers(t *testing.T) {
	t.Parallel()
	topics := []string{"a.1", "a.2", "b.1", "b.2", "c.1", "c.2", "d.1", "d.2", "e.1", "e.2"}
	b := newBroker(t, 2, topics...)
	var members []*member
	for n := range 3 {
		members = append(members, b.join(autoLane(t), byTable))
		b.awaitMembers(n + 1)
	}
	eventually(t, "five tables are shared among three members", func() (bool, any) {
		var counts []int
		partitions := 0
		for _, m := range members {
			counts = append(counts, len(m.tables()))
			partitions += len(m.Partitions())
		}
		slices.Sort(counts)
		return slices.Equal(counts, []int{1, 2, 2}) && partitions == 20 && members[0].Joined(), fmt.Sprint(counts, partitions)
	})
	for _, topic := range topics {
		for id := range int32(2) {
			b.produce(topic, id, 10)
			b.awaitCommit(topic, id, 10)
		}
	}

	dead := members[1]
	orphans := dead.tables()
	var kept [][]string
	survivors := []*member{members[0], members[2]}
	for _, m := range survivors {
		m.set(func(l *lane) { l.released = nil })
		kept = append(kept, m.tables())
	}
	b.freeze(b.owner(dead.Partitions()[0].Topic, 0))
	eventually(t, "the survivors have all partitions", func() (bool, any) {
		got := len(survivors[0].Partitions()) + len(survivors[1].Partitions())
		return got == 20, got
	})
	for _, topic := range topics {
		b.produce(topic, 0, 10)
		b.awaitCommit(topic, 0, 20)
	}
	for i, m := range survivors {
		for _, table := range m.tables() {
			if !slices.Contains(kept[i], table) && !slices.Contains(orphans, table) {
				t.Errorf("survivor %d has table %s: got it from another survivor", i, table)
			}
		}
		m.set(func(l *lane) {
			if len(l.released) > 0 {
				t.Errorf("partitions given up by survivor %d: got %v, want none", i, l.released)
			}
		})
	}
}

func TestTableHasOneMemberWhileMembersJoin(t *testing.T) {
	t.Parallel()
	topics := []string{"a.1", "a.2", "b.1", "b.2"}
	b := newBroker(t, 3, topics...)
	first := b.join(autoLane(t), byTable)
	eventually(t, "the first member has all", func() (bool, any) { return len(first.Partitions()) == 12, len(first.Partitions()) })
	second := b.join(autoLane(t), byTable)
	eventually(t, "each has one table", func() (bool, any) {
		y := second.tables() // first: tables move from the first member to the second
		x := first.tables()
		for _, table := range x {
			if slices.Contains(y, table) {
				t.Fatalf("table %s has two members: %v, %v", table, x, y)
			}
		}
		return len(first.Partitions()) == 6 && len(second.Partitions()) == 6, fmt.Sprint(x, y)
	})
}
