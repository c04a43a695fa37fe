package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka"
)

// The brokers have lost records that were confirmed, and put others at their offsets.
func TestConfirmedOffsetsBeyondTheLogsEndAreNotBelieved(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 2, "a")
	b.produce("a", 0, 5)
	b.produce("a", 1, 5)
	b.left(0, 4, ack.Ledger{Done: ack.Ranges{{From: 6, To: 10}}, Slots: []ack.Slots{{Table: "customers", Used: []int64{1795000000}}}})
	first := b.join(autoLane(t))
	first.awaitHalt("a", 0, "offsets up to 10 are noted as confirmed beyond the log's end 5", "lost by the brokers", "reads on from offset 4")
	b.awaitCommit("a", 1, 5) // the other partition goes on
	b.produce("a", 0, 7)     // 5 to 11
	b.awaitDone("a", 0, "[]")
	if got := first.offsets("a", 0); len(got) != 0 {
		t.Errorf("records of the halted partition handed on: got %v, want none", got)
	}
	first.stop()
	second := b.join(autoLane(t))
	second.awaitOffsets("a", 0, upTo(4, 12)...)
	b.awaitCommit("a", 0, 12)
	if _, l := b.ledger("a", 0); len(l.Slots) != 1 {
		t.Errorf("slots: got %v, want those of before", l.Slots)
	}
}

func TestImportBeyondTheLogsEndCoversNothing(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 5)
	im := ack.Import{State: ack.Running, Table: "customers", File: "customers-1.csv.gz", Execution: "4711", UpTo: 10, Part: 1, Parts: 1, Attempt: 1}
	b.left(0, 2, ack.Ledger{Imports: []ack.Import{im}})
	first := b.join(autoLane(t))
	first.awaitHalt("a", 0, "file customers-1.csv.gz of table customers has records up to offset 10 beyond the log's end 5")
	im.UpTo = 2
	eventually(t, "the ledger has the import, covering nothing", func() (bool, any) {
		_, l := b.ledger("a", 0)
		return len(l.Imports) == 1 && l.Imports[0] == im, l.Imports
	})
	first.stop()
	b.produce("a", 0, 10)
	second := b.join(autoLane(t))
	second.awaitOffsets("a", 0, upTo(2, 15)...)
	p := second.assignment("a", 0)
	adopted := p.Adopted()
	if len(adopted) != 1 || adopted[0].Import != im || p.Covered("customers", 2) {
		t.Fatalf("adopted: got %+v, want %+v, to be awaited", adopted, im)
	}
	second.confirms("customers", adopted[0].Claim)
	b.awaitCommit("a", 0, 15)
}

// The log may have grown past the committed offset by the next start.
func TestCommittedOffsetBeyondTheLogsEndIsTakenBack(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 10)
	b.left(0, 30, ack.Ledger{})
	first := b.join(autoLane(t))
	first.awaitHalt("a", 0, "the committed offset 30 is beyond the log's end 10", "lost by the brokers", "reads on from offset 10")
	b.awaitCommit("a", 0, 10)
	first.stop()
	b.produce("a", 0, 30)
	second := b.join(autoLane(t))
	second.awaitOffsets("a", 0, upTo(10, 40)...)
}

// What was confirmed of records that the brokers lost while they were read must not
// be taken, after a restart, for what came in their place.
func TestLogThatIsCutWhileItIsReadIsNotCommittedBeyond(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 20)
	l := newLane(t)
	first := b.join(l)
	first.awaitOffsets("a", 0, upTo(0, 20)...)
	first.confirm("a", 0, upTo(0, 5)...)
	first.confirm("a", 0, upTo(12, 20)...)
	b.awaitDone("a", 0, "[{12 20}]")
	b.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, topic := range req.(*kmsg.OffsetForLeaderEpochRequest).Topics {
			part := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			part.EndOffset, part.LeaderEpoch = 10, 0
			out := kmsg.NewOffsetForLeaderEpochResponseTopic()
			out.Topic, out.Partitions = topic.Topic, append(out.Partitions, part)
			resp.Topics = append(resp.Topics, out)
		}
		return resp, nil, true
	})
	b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "a", Err: kerr.FencedLeaderEpoch, Count: 1})
	first.awaitHalt("a", 0, "records up to 20 were read, but the log now goes on at 10", "reads on from offset 10 at the latest")
	first.confirm("a", 0, upTo(5, 12)...)
	b.awaitCommit("a", 0, 10)
	first.stop()
	if offset, l := b.ledger("a", 0); offset != 10 || len(l.Done) > 0 {
		t.Errorf("ledger: got %d %+v, want 10 and nothing beyond", offset, l.Done)
	}
}

// A group that begins where the other lane's stands takes over what that one has
// confirmed, but not of a log that is gone.
func TestOffsetsThatTheOtherLaneConfirmedBeyondTheLogsEndAreNotTakenOver(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 5)
	other := ack.Ledger{Topic: ack.TopicID(b.TopicInfo("a").TopicID), Done: ack.Ranges{{From: 6, To: 10}}, Routes: ack.Routes{Changed: 5, Shared: true}}
	metadata, _, err := other.Encode(4, ack.MetadataLimit)
	if err != nil {
		t.Fatal(err)
	}
	b.commitOf("feedsink-other", "a", 0, 4, metadata)
	m := b.join(autoLane(t), func(c *kafka.Config) {
		c.Other = "feedsink-other"
		c.TopicOf = func(string) kafka.TopicRoutes { return kafka.TopicRoutes{LaneRoutes: ack.LaneRoutes{Shared: true}} }
	})
	m.awaitOffsets("a", 0, 4)
	b.produce("a", 0, 7)
	m.awaitOffsets("a", 0, upTo(4, 12)...)
}

// Who was not there when the log was cut finds one that is as long as before. That others are at
// the offsets the leader epoch of the records tells that were read.
func TestCommittedOffsetOfALeaderEpochThatEndedBeforeItIsTakenBack(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 5)
	first := b.join(autoLane(t))
	b.awaitCommit("a", 0, 5)
	first.stop()
	c := b.committedEpoch(0)
	if err := b.MoveTopicPartition("a", 0, 0); err != nil { // a new leader, which has what was there up to 5
		t.Fatal(err)
	}
	b.produce("a", 0, 10)
	c.At = 10
	if err := b.admin.CommitAllOffsets(t.Context(), group, kadm.Offsets{"a": {0: c}}); err != nil {
		t.Fatal(err)
	}
	second := b.join(autoLane(t))
	second.awaitHalt("a", 0, "the committed offset 10 is beyond the log's end 5", "lost by the brokers", "reads on from offset 5")
	b.awaitCommit("a", 0, 5)
	second.stop()
	third := b.join(autoLane(t))
	third.awaitOffsets("a", 0, upTo(5, 15)...)
	b.awaitCommit("a", 0, 15)
	b.committedEpoch(1)
}

// committedEpoch is what is committed of the first partition, with the leader epoch that is wanted.
func (b *broker) committedEpoch(want int32) kadm.Offset {
	b.t.Helper()
	all, err := b.admin.FetchOffsets(b.t.Context(), group)
	o, _ := all.Lookup("a", 0)
	if err != nil || o.LeaderEpoch != want {
		b.t.Errorf("committed leader epoch: got %d, %v, want %d, that of the records", o.LeaderEpoch, err, want)
	}
	return o.Offset
}

// The broker's answer may come before the client knows of a newer leader epoch.
func TestLogThatIsCutBelowTheNextOffsetIsNotTakenForRetention(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 20)
	first := b.join(newLane(t))
	first.awaitOffsets("a", 0, upTo(0, 20)...)
	first.confirm("a", 0, upTo(0, 5)...)
	b.awaitCommit("a", 0, 5)
	b.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		asked := req.(*kmsg.ListOffsetsRequest)
		if asked.Topics[0].Partitions[0].Timestamp != -1 {
			return nil, nil, false // where the log starts
		}
		resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		part := kmsg.NewListOffsetsResponseTopicPartition()
		part.Offset = 10
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic, out.Partitions = "a", append(out.Partitions, part)
		resp.Topics = append(resp.Topics, out)
		return resp, nil, true
	})
	b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "a", Err: kerr.OffsetOutOfRange, Count: 1})
	first.awaitHalt("a", 0, "records up to 20 were read, but the log ends at 10", "lost by the brokers", "reads on from offset 10 at the latest")
}
