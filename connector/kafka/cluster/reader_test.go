package cluster_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

// readTo reads partitions to their ends and returns the offsets seen, by place.
func readTo(t *testing.T, tail *cluster.Tail, ends map[cluster.TopicPartition]int64) map[cluster.TopicPartition][]int64 {
	t.Helper()
	seen := map[cluster.TopicPartition][]int64{}
	spans := map[cluster.TopicPartition]cluster.Span{}
	for p, end := range ends {
		spans[p] = cluster.Span{To: end}
	}
	err := tail.Until(t.Context(), spans, func(r *kgo.Record) error {
		p := cluster.TopicPartition{Topic: r.Topic, Partition: r.Partition}
		seen[p] = append(seen[p], r.Offset)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

func TestTailReadsEachPartitionToItsEndAndGoesOnFromThere(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 2, "a")
	b.produce("a", 0, 5)
	b.produce("a", 1, 3)
	r := newReader(t, b)
	p0, p1 := cluster.TopicPartition{Topic: "a"}, cluster.TopicPartition{Topic: "a", Partition: 1}
	spans, err := r.Spans(t.Context(), "a")
	if err != nil || spans[p0] != (cluster.Span{To: 5}) || spans[p1] != (cluster.Span{To: 3}) {
		t.Fatalf("spans: got %v, %v, want 5 and 3 records", spans, err)
	}
	tail, err := r.Tail(map[cluster.TopicPartition]int64{p0: 2, p1: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	if got := readTo(t, tail, map[cluster.TopicPartition]int64{p0: 5, p1: 3}); !slices.Equal(got[p0], []int64{2, 3, 4}) || len(got) != 1 {
		t.Errorf("first: got %v, want 2, 3 and 4 of partition 0", got)
	}
	b.produce("a", 1, 2)
	if got := readTo(t, tail, map[cluster.TopicPartition]int64{p0: 5, p1: 5}); !slices.Equal(got[p1], []int64{3, 4}) {
		t.Errorf("then: got %v, want 3 and 4 of partition 1", got)
	}
}

// To a broker a negative time is another question: the end, the beginning, or one that it does not know.
func TestTimeBefore1970IsTheBeginning(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 5)
	r := newReader(t, b)
	for _, since := range []time.Time{time.UnixMilli(-1), time.UnixMilli(-2), time.UnixMilli(-5), time.Date(1969, 7, 20, 0, 0, 0, 0, time.UTC), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)} {
		from, err := r.After(t.Context(), since, "a")
		if err != nil || from[cluster.TopicPartition{Topic: "a"}] != 0 || len(from) != 1 {
			t.Errorf("%v: got %v, %v, want the first record", since, from, err)
		}
	}
}

// The leader of a new topic's partition may hear of it behind the brokers that name it.
func TestTopicThatItsLeaderDoesNotKnowYetIsAskedForAgain(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 1)
	r := newReader(t, b)
	late := 3
	b.ControlKey(kmsg.ListOffsets.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		if late--; late < 0 {
			return nil, nil, false
		}
		res := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		res.Topics = []kmsg.ListOffsetsResponseTopic{{Topic: "a", Partitions: []kmsg.ListOffsetsResponseTopicPartition{{ErrorCode: kerr.UnknownTopicOrPartition.Code}}}}
		return res, nil, true
	})
	spans, err := r.Spans(t.Context(), "a")
	if want := (cluster.Span{To: 1}); err != nil || spans[cluster.TopicPartition{Topic: "a"}] != want {
		t.Errorf("got %v, %v, want %v", spans, err, want)
	}
	if _, err := r.Spans(t.Context(), "a", "b"); err == nil || err.Error() != "topic b does not exist" {
		t.Errorf("a topic that does not exist: got %v", err)
	}
}

// The last record below the end is one that was taken back, and the mark that
// says so lies beyond it: an open transaction stands in between.
func TestTailEndsWhereNothingMoreCanBeSeen(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 1)
	begin := func(id string) *kgo.Client {
		client, err := kgo.NewClient(kgo.SeedBrokers(b.ListenAddrs()...), kgo.TransactionalID(id), kgo.DefaultProduceTopic("a"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := client.ProduceSync(t.Context(), kgo.StringRecord(id)).FirstErr(); err != nil {
			t.Fatal(err)
		}
		return client
	}
	aborted := begin("aborted")
	begin("open")
	if err := aborted.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	p := cluster.TopicPartition{Topic: "a"}
	r := newReader(t, b)
	spans, err := r.Spans(t.Context(), "a")
	if err != nil || spans[p].To != 2 {
		t.Fatalf("spans: got %v, %v, want the end at the open transaction, 2", spans, err)
	}
	tail, err := r.Tail(map[cluster.TopicPartition]int64{p: 0})
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	if got := readTo(t, tail, map[cluster.TopicPartition]int64{p: 2}); !slices.Equal(got[p], []int64{0}) {
		t.Errorf("got %v, want the committed record alone", got)
	}
}

// A login whose quota is used up gets nothing for a while, which is not the end.
func TestTailWaitsWhileABrokerThrottlesTheLogin(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 1)
	p := cluster.TopicPartition{Topic: "a"}
	var fetches atomic.Int32
	b.ControlKey(kmsg.Fetch.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		if fetches.Add(1) > 11 { // more than three silences
			return nil, nil, false
		}
		res := req.ResponseKind().(*kmsg.FetchResponse)
		res.ThrottleMillis = 1000
		return res, nil, true
	})
	tail, err := newReader(t, b).Tail(map[cluster.TopicPartition]int64{p: 0})
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	if got := readTo(t, tail, map[cluster.TopicPartition]int64{p: 1}); !slices.Equal(got[p], []int64{0}) {
		t.Errorf("got %v, want the record that comes once the broker gives records again", got)
	}
}

func TestTailShowsAGap(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	b.produce("a", 0, 5)
	var below kadm.Offsets
	below.Add(kadm.Offset{Topic: "a", At: 3})
	if _, err := kadm.NewClient(b.client).DeleteRecords(t.Context(), below); err != nil {
		t.Fatal(err)
	}
	p := cluster.TopicPartition{Topic: "a"}
	tail, err := newReader(t, b).Tail(map[cluster.TopicPartition]int64{p: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	err = tail.Until(t.Context(), map[cluster.TopicPartition]cluster.Span{p: {To: 5}}, func(*kgo.Record) error { return nil })
	if !errors.Is(err, kerr.OffsetOutOfRange) {
		t.Errorf("got %v, want that the offset is out of range", err)
	}
}

func TestReaderSeesAndMakesCommits(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 2, "a")
	r := newReader(t, b)
	if got, err := r.Committed(t.Context(), "nobody"); err != nil || len(got) != 0 {
		t.Errorf("a group that nobody knows: got %v, %v, want nothing", got, err)
	}
	want := cluster.Commit{Offset: 7, Metadata: "a note"}
	p := cluster.TopicPartition{Topic: "a", Partition: 1}
	if err := r.Commit(t.Context(), "notes", map[cluster.TopicPartition]cluster.Commit{p: want}); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Committed(t.Context(), "notes"); err != nil || len(got) != 1 || got[p] != want {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if _, err := r.Spans(t.Context(), "nowhere"); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("a topic that does not exist: got %v, want that it is unknown", err)
	}
	if _, err := r.TopicID(t.Context(), "nowhere"); err == nil {
		t.Error("the id of a topic that does not exist: got none, want an error")
	}
}
