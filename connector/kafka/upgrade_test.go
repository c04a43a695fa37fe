package kafka_test

import (
	"testing"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka"
)

// A former version knew tables by other names.
func TestLedgersOfAFormerVersionAreBroughtUpToDate(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 20)
	im := running("customers", 12)
	im.State = ack.Reconciling
	b.left(0, 5, ack.Ledger{Imports: []ack.Import{im}, Slots: []ack.Slots{{Table: "customers", Used: []int64{1795000000}}}})
	b.commitOf("feedsink-other", "a", 0, 5, b.committed("a", 0).Metadata)
	m := b.join(autoLane(t), func(c *kafka.Config) {
		c.Other, c.TopicOf = "feedsink-other", func(string) kafka.TopicRoutes {
			return kafka.TopicRoutes{LaneRoutes: ack.LaneRoutes{Shared: true}}
		}
		c.Upgrade = func(topic string, l *ack.Ledger) {
			for i := range l.Imports {
				l.Imports[i].Table = topic + "/" + l.Imports[i].Table
			}
			for i := range l.Slots {
				l.Slots[i].Table = topic + "/" + l.Slots[i].Table
			}
		}
	})
	b.awaitDone("a", 0, "[{5 20}]")
	p := m.assignment("a", 0)
	if !p.Covered("a/customers", 11) || p.Covered("customers", 11) || len(p.Adopted()) != 1 || p.Adopted()[0].Table != "a/customers" {
		t.Errorf("adopted: got %+v, want the import under its new name", p.Adopted())
	}
	if used, _ := m.Slots("a", "a/customers"); len(used) != 1 {
		t.Errorf("slots: got %v, want the one", used)
	}
	if !p.OtherPassed("a/customers", 11) || p.OtherPassed("customers", 11) {
		t.Error("the other lane's import is not known by its new name")
	}
}
