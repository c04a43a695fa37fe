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
