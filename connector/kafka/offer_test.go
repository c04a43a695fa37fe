package kafka

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

// offline is a source that never runs: its broker is not there.
var offline = Config{
	Connection: cluster.Connection{Brokers: []string{"127.0.0.1:1"}}, Group: "g", Subscription: Subscription{Topics: []string{"a"}},
	SessionTimeout: 10 * time.Second, Log: slog.New(slog.DiscardHandler),
}

func newSource(t *testing.T, cfg Config, h Handler) *Source {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	s.handler = h
	return s
}

// A step of an import must not pass for recorded when the assignment ends
// between its note and its commit.
func TestCommitOfAnEndedAssignmentIsFenced(t *testing.T) {
	s := newSource(t, offline, nil)
	p := s.open("a", 0, "m1", renewed)
	p.tracker = ack.New(0, nil)
	p.begin(renewed)
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
type slow struct {
	offsets []int64
	told    []*Partition // of their assignment
	early   bool         // told before something could be committed
}

func (l *slow) Records(_ *Partition, rs []*Record) int {
	l.offsets = append(l.offsets, rs[0].Offset)
	return 1
}

func (l *slow) Assigned(ps []*Partition) {
	l.told = append(l.told, ps...)
	l.early = slices.ContainsFunc(ps, func(p *Partition) bool { return !p.in(reading) })
}

func (*slow) Ready() bool                           { return true }
func (*slow) Release(context.Context, []*Partition) {}

func TestRecordsPolledBehindABacklogKeepTheirPlace(t *testing.T) {
	l := &slow{}
	s := newSource(t, offline, l)
	p := s.open("a", 0, "m1", renewed)
	p.tracker = ack.New(0, nil)
	p.begin(renewed)
	s.parts[topicPartition{"a", 0}] = p
	s.offer(p, []*Record{{Offset: 0}, {Offset: 1}, {Offset: 2}})
	s.offer(p, []*Record{{Offset: 3}}) // polled before the pause took effect
	for range 3 {
		s.offerBacklog()
	}
	if want := []int64{0, 1, 2, 3}; !slices.Equal(l.offsets, want) {
		t.Errorf("offsets in the order they were taken: got %v, want %v", l.offsets, want)
	}
	if s.goesOnSoon() {
		t.Error("backlog after all was taken: got some")
	}
}

// Whoever adopts an import may have something to commit at once, and hears of
// the end of an assignment once.
func TestHandlerIsToldOfAssignmentsThatLast(t *testing.T) {
	l := &slow{}
	s := newSource(t, offline, l)
	gone, kept := s.open("a", 0, "m1", renewed), s.open("a", 1, "m1", renewed)
	gone.tracker, kept.tracker = ack.New(0, nil), ack.New(0, nil)
	gone.end()
	s.beginRenewed(map[*Partition]int64{gone: 0, kept: 0})
	if want := []*Partition{kept}; !slices.Equal(l.told, want) || l.early {
		t.Errorf("told of %v, before they were ready: %v, want %v, ready", l.told, l.early, want)
	}
	s.beginRenewed(map[*Partition]int64{gone: 0})
	if len(l.told) != 1 {
		t.Errorf("told of %d assignments, want 1", len(l.told))
	}
}

// A slot is remembered for longer than any calendar day, and not indefinitely.
func TestSlotsAreForgottenAfterTwoDays(t *testing.T) {
	p := newPartition("a", 0, "m1", reading)
	now := time.Date(2026, 10, 24, 23, 30, 0, 0, time.UTC)
	for i, at := range []time.Duration{0, time.Hour, 49 * time.Hour, 50*time.Hour + time.Minute} {
		if !p.takeSlot(SlotPartition{Table: "customers", At: []time.Time{now.Add(at)}}, ack.Import{Table: "customers", File: string(rune('a' + i)), Attempt: 1}) {
			t.Fatalf("slot at %v: got refused", at)
		}
	}
	want := []int64{now.Add(time.Hour).Unix(), now.Add(49 * time.Hour).Unix(), now.Add(50*time.Hour + time.Minute).Unix()}
	if got := p.ledger.Slots[0].Used; !slices.Equal(got, want) {
		t.Errorf("slots remembered: got %v, want %v", got, want)
	}
	// A clock that is years ahead and then right again makes no use of today forgotten.
	now, years := now.Add(51*time.Hour), now.AddDate(4, 0, 0)
	p.ledger.UseSlots("customers", []time.Time{years, now})
	p.ledger.UseSlots("customers", []time.Time{now.Add(-time.Minute)})
	if got := p.ledger.Slots[0].Used; len(got) != 5 || got[4] != now.Truncate(15*time.Minute).Unix() || !slices.IsSorted(got) {
		t.Errorf("slots after a clock was wrong: got %v, want those of these days", got)
	}
}
