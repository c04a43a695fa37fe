package kafka_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

// refuseCommits makes the broker answer commits with an error.
func (b *broker) refuseCommits(err *kerr.Error, count int) *kfake.FaultHandle {
	return b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: group, Err: err, Count: count})
}

func (b *broker) awaitHits(h *kfake.FaultHandle, n int) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	if err := h.Wait(ctx, n); err != nil {
		b.t.Fatalf("%d faults: got %d, %v", n, h.Hits(), err)
	}
}

func TestRefusedCommitIsMadeLater(t *testing.T) {
	t.Parallel()
	for _, err := range []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.UnknownServerError, kerr.NotCoordinator} {
		t.Run(err.Message, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t, 1, "a")
			fault := b.refuseCommits(err, 3)
			b.produce("a", 0, 10)
			m := b.join(newLane(t))
			m.awaitOffsets("a", 0, upTo(0, 10)...)
			m.confirm("a", 0, 0, 1, 5)
			b.awaitHits(fault, 3)
			b.awaitDone("a", 0, "[{5 6}]")
			b.awaitCommit("a", 0, 2)
			m.confirm("a", 0, 2, 3, 4, 6, 7, 8, 9)
			b.awaitCommit("a", 0, 10)
			if got := len(m.offsets("a", 0)); got != 10 {
				t.Errorf("records handed on: got %d, want 10, none repeated", got)
			}
		})
	}
}

// TestCommitsThatAreRefusedAreTold: what to do about it, and no more once one is made.
func TestCommitsThatAreRefusedAreTold(t *testing.T) {
	t.Parallel()
	for err, advice := range map[*kerr.Error]string{
		kerr.OffsetMetadataTooLarge:   "offset.metadata.max.bytes",
		kerr.GroupAuthorizationFailed: "grant the login READ on the group",
		kerr.TopicAuthorizationFailed: "grant the login READ and DESCRIBE on the topic",
		kerr.InvalidCommitOffsetSize:  "a broker has answered so",
	} {
		t.Run(err.Message, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t, 2, "a")
			b.produce("a", 0, 10)
			m := b.join(newLane(t))
			m.awaitOffsets("a", 0, upTo(0, 10)...)
			fault := b.refuseCommits(err, -1)
			m.confirm("a", 0, 0, 1)
			eventually(t, "it is told", func() (bool, any) {
				got := m.Conditions()
				return len(got) == 1 && got[0].Cause == cluster.Refused && strings.Contains(got[0].Why, err.Message) && strings.Contains(got[0].Why, advice), got
			})
			fault.Remove()
			m.confirm("a", 0, 2)
			eventually(t, "nothing is told any more", func() (bool, any) {
				got := m.Conditions()
				return len(got) == 0, got
			})
		})
	}
}

// The broker answers REQUEST_TIMED_OUT after it has applied the commit.
func TestCommitWithALostAnswerIsRepeated(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 10)
	fault := b.refuseCommits(kerr.RequestTimedOut, 2)
	m := b.join(newLane(t))
	m.awaitOffsets("a", 0, upTo(0, 10)...)
	m.confirm("a", 0, 0, 1, 2)
	b.awaitHits(fault, 2)
	eventually(t, "the source knows what is committed", func() (bool, any) {
		st, _ := m.Partitions()[0].Status()
		return st.Committed == 3, st.Committed
	})
	m.confirm("a", 0, 3)
	b.awaitCommit("a", 0, 4)
}

func TestLedgerShrinksToWhatTheBrokerTakes(t *testing.T) {
	t.Parallel()
	const records, room = 2000, 512
	b := newBroker(t, 1, "a")
	fault := b.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.OffsetMetadataTooLarge, Count: -1,
		When: func(req kmsg.Request) bool {
			metadata := req.(*kmsg.OffsetCommitRequest).Topics[0].Partitions[0].Metadata
			return metadata != nil && len(*metadata) > room
		},
	})
	b.produce("a", 0, records)
	m := b.join(newLane(t))
	m.awaitOffsets("a", 0, upTo(0, records)...)
	m.confirm("a", 0, 0, 1)
	for o := int64(3); o < records; o += 2 {
		m.confirm("a", 0, o)
	}
	b.awaitHits(fault, 1)
	b.awaitCommit("a", 0, 2)
	eventually(t, "a shorter ledger is committed", func() (bool, any) {
		c := b.committed("a", 0)
		l, err := ack.Decode(c.Metadata, c.Offset)
		return err == nil && len(l.Done) > 20 && len(c.Metadata) <= room, fmt.Sprint(len(c.Metadata), len(l.Done), err)
	})
	b.produce("a", 0, 1) // it counts as full: what did not fit would be repeated
	for o := int64(2); o < records; o += 2 {
		m.confirm("a", 0, o)
	}
	m.awaitOffsets("a", 0, upTo(0, records+1)...)
}

func TestImportIsOnTheLedgerUntilItIsConfirmed(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 10)
	m := b.join(autoLane(t))
	b.awaitCommit("a", 0, 10)
	p := m.Partitions()[0]
	claim := p.Claim(10)
	b.produce("a", 0, 5) // confirmed one by one, beyond the claim's start
	claim.Extend(12)
	m.awaitOffsets("a", 0, upTo(0, 15)...)

	im := ack.Import{Table: "customers", Mode: "CREATE_OR_UPDATE", File: "customers-1.csv.gz", Fingerprint: 7, Part: 1, Parts: 1, Attempt: 1}
	m.records(im, home, claim)
	im.UpTo = 13
	if offset, l := b.ledger("a", 0); offset != 10 || len(l.Imports) != 1 || l.Imports[0] != im {
		t.Errorf("ledger after the intent: got %d %+v, want 10 %+v", offset, l.Imports, im)
	}
	im.Execution, im.State = "4711", ack.Running
	m.records(im, home, claim)
	if _, l := b.ledger("a", 0); len(l.Imports) != 1 || l.Imports[0] != im {
		t.Errorf("ledger after the trigger: got %+v, want %+v", l.Imports, im)
	}
	for range 2 { // it may be repeated
		m.confirms("customers", claim)
	}
	if offset, l := b.ledger("a", 0); offset != 15 || len(l.Imports) != 0 {
		t.Errorf("ledger after the confirmation: got %d %+v, want 15 and no import", offset, l.Imports)
	}
}

// TestImportDoesNotCoverARecordOfWhichItHasSomeRows: its file was closed between two of
// them, so that the others are in the next file. A crash forgets that one.
func TestImportDoesNotCoverARecordOfWhichItHasSomeRows(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 10)
	m := b.join(autoLane(t))
	b.awaitCommit("a", 0, 10)
	p := m.Partitions()[0]
	whole, some := p.Claim(10), p.Claim(11)
	whole.Close()
	p.AddingRows(12)
	some.Extend(12)
	some.Close()
	next := p.Claim(12)
	p.RowsAdded()
	next.Close()
	b.produce("a", 0, 5)
	m.awaitOffsets("a", 0, upTo(0, 15)...)
	for claim, want := range map[*kafka.Claim]int64{whole: 11, some: 12, next: 13} {
		im := ack.Import{Table: "customers", Mode: "CREATE_OR_UPDATE", File: "customers-1.csv.gz", Fingerprint: 7, Part: 1, Parts: 1, Attempt: 1}
		for _, execution := range []string{"", "4711"} {
			im.Execution = execution
			m.records(im, home, claim)
			if _, l := b.ledger("a", 0); len(l.Imports) != 1 || l.Imports[0].UpTo != want {
				t.Errorf("execution %q: got %+v, want an import up to %d", execution, l.Imports, want)
			}
		}
		m.confirms("customers", claim)
	}
}
