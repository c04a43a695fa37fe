package source

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
)

// offline is a source that never runs: its broker is not there.
var offline = Config{
	Connection: Connection{Brokers: []string{"127.0.0.1:1"}}, Group: "g", Topics: []string{"a"},
	SessionTimeout: 10 * time.Second, Log: slog.New(slog.DiscardHandler),
}

// A step of an import must not pass for recorded when the assignment ends
// between its note and its commit.
func TestCommitOfAnEndedAssignmentIsFenced(t *testing.T) {
	s, err := New(offline, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.client.Close()
	p := s.open("a", 0, "m1")
	p.tracker = ack.New(0, nil)
	p.begin()
	claim := p.Claim(0)
	if !claim.record(ack.Import{Table: "customers", File: "customers-1.csv.gz", Part: 1}) {
		t.Fatal("note on a live assignment: got false")
	}
	p.end()
	if err := s.commit(t.Context(), []*Partition{p}); !errors.Is(err, ErrFenced) {
		t.Errorf("commit: got %v, want ErrFenced", err)
	}
}

// slow takes one record at a time.
type slow struct{ offsets []int64 }

func (l *slow) Records(_ *Partition, rs []*Record) int {
	l.offsets = append(l.offsets, rs[0].Offset)
	return 1
}
func (*slow) Assigned([]*Partition)                 {}
func (*slow) Ready() bool                           { return true }
func (*slow) Release(context.Context, []*Partition) {}

func TestRecordsPolledBehindABacklogKeepTheirPlace(t *testing.T) {
	l := &slow{}
	s, err := New(offline, l)
	if err != nil {
		t.Fatal(err)
	}
	defer s.client.Close()
	p := s.open("a", 0, "m1")
	p.tracker = ack.New(0, nil)
	p.begin()
	s.parts[topicPartition{"a", 0}] = p
	s.offer(p, []*Record{{Offset: 0}, {Offset: 1}, {Offset: 2}})
	s.offer(p, []*Record{{Offset: 3}}) // polled before the pause took effect
	for range 3 {
		s.offerBacklog()
	}
	if want := []int64{0, 1, 2, 3}; !slices.Equal(l.offsets, want) {
		t.Errorf("offsets in the order they were taken: got %v, want %v", l.offsets, want)
	}
	if s.hasBacklog() {
		t.Error("backlog after all was taken: got some")
	}
}
