package kafka

import (
	"slices"
	"testing"

	"github.com/feedsink/feedsink/connector/ack"
)

// The client may ask where a partition begins whose ledger the poll loop is reading, as
// a rebalance has cut it short before. Only one of the two begins the assignment.
func TestAssignmentThatTheClientAsksForBeginsOnce(t *testing.T) {
	l := &slow{}
	s := newSource(t, offline, l)
	p := s.open("a", 0, "m1", renewed)
	p.tracker = ack.New(0, nil)
	s.parts[topicPartition{"a", 0}] = p
	if !p.askedFor() {
		t.Error("asked for before it is read: got false")
	}
	s.beginRenewed(map[*Partition]int64{p: 0}) // what the poll loop had found
	s.beginLoaded()
	if len(l.told) > 0 || !p.in(assigned) {
		t.Errorf("told of %d assignments before the client knows where they begin, want none", len(l.told))
	}
	p.loadedByClient()
	s.beginLoaded()
	s.beginLoaded()
	if want := []*Partition{p}; !slices.Equal(l.told, want) || !p.in(reading) {
		t.Errorf("told of %v, want %v once", l.told, want)
	}
	if p.askedFor() || !p.in(reading) {
		t.Error("asked for while it is read: the state has changed")
	}
}

func TestEndedAssignmentStaysEnded(t *testing.T) {
	s := newSource(t, offline, &slow{})
	p := s.open("a", 0, "m1", assigned)
	p.end()
	p.end()
	p.askedFor()
	p.loadedByClient()
	if p.begin(loaded) || p.begin(renewed) || p.Live() {
		t.Error("an ended assignment began again")
	}
	if n := s.cfg.Pending.Partitions(); n != 0 {
		t.Errorf("partitions that share the memory: got %d, want 0", n)
	}
}

func TestCausesNotToReadAPartition(t *testing.T) {
	p := newPartition("a", 0, "m1", reading)
	if c := p.pauses(); c != 0 {
		t.Errorf("causes at first: got %b, want none", c)
	}
	p.Halt("a mapping", "why")
	p.drain()
	p.shed = 1
	p.ledger.Routes.Hold = true
	p.SetPaused(true)
	if got, want := p.pauses(), halted|readAgain|awaitsLane|givenBack|onRequest; got != want {
		t.Errorf("causes: got %b, want %b", got, want)
	}
	p.Resume("a mapping")
	p.SetPaused(false)
	if got, want := p.withheld(), readAgain|awaitsLane; got != want {
		t.Errorf("causes not to offer records: got %b, want %b", got, want)
	}
}
