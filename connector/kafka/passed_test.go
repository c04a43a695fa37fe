package kafka_test

import (
	"testing"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka"
)

// TestRowsOfThePartitionThatWasSetApartAreToCome: its import has ended, and sends them again.
func TestRowsOfThePartitionThatWasSetApartAreToCome(t *testing.T) {
	t.Parallel()
	for state, want := range map[ack.State]bool{ack.Running: false, ack.Reconciling: true, ack.SetApart: false} {
		b := newBroker(t, 1, "a")
		b.produce("a", 0, 20)
		im := running("customers", 12)
		im.State = state
		metadata, _, err := (&ack.Ledger{Imports: []ack.Import{im}}).Encode(5, ack.MetadataLimit)
		if err != nil {
			t.Fatal(err)
		}
		b.commitOf("feedsink-other", "a", 0, 5, metadata)
		m := b.join(autoLane(t), func(c *kafka.Config) {
			c.Other, c.TopicOf = "feedsink-other", func(string) kafka.TopicRoutes {
				return kafka.TopicRoutes{LaneRoutes: ack.LaneRoutes{Shared: true}}
			}
		})
		m.awaitLog("partitions assigned")
		p := m.assignment("a", 0)
		if err := m.LookAtOther(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := p.OtherPassed("customers", 11); got != want {
			t.Errorf("an import in state %v: got the record passed %v, want %v", state, got, want)
		}
	}
}
