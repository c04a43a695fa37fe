package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/ack"
)

// Place names a partition.
type Place struct {
	Topic     string
	Partition int32
}

// String is the place as messages name it: topic[3].
func (p Place) String() string { return fmt.Sprintf("%s[%d]", p.Topic, p.Partition) }

// Span is what a partition holds: the offsets from From up to, not including,
// To. An open transaction ends it.
type Span struct{ From, To int64 }

// Commit is what a group committed for a partition.
type Commit struct {
	Offset   int64
	Metadata string
}

// Reader reads topics, and what groups have committed, without being a member of
// any group: a sink that runs notices nothing of it. Its methods may be used
// concurrently.
type Reader struct {
	opts    []kgo.Opt
	fetched int64
	client  *kgo.Client
	admin   *kadm.Client
}

// NewReader connects to nothing yet: an error is one of configuration.
func NewReader(c Connection) (*Reader, error) {
	opts, err := c.Options()
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	return &Reader{opts: opts, fetched: c.fetched(), client: client, admin: kadm.NewClient(client)}, nil
}

// Close ends the reader's connections.
func (r *Reader) Close() { r.client.Close() }

// Spans asks what the partitions of the topics hold now. A topic that does not
// exist is an error.
func (r *Reader) Spans(ctx context.Context, topics ...string) (map[Place]Span, error) {
	spans := map[Place]Span{}
	if len(topics) == 0 {
		return spans, nil
	}
	starts, err := r.admin.ListStartOffsets(ctx, topics...)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("start of %v: %w", topics, err)
	}
	ends, err := r.admin.ListCommittedOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("end of %v: %w", topics, err)
	}
	ends.Each(func(end kadm.ListedOffset) {
		start, _ := starts.Lookup(end.Topic, end.Partition)
		spans[Place{end.Topic, end.Partition}] = Span{From: start.Offset, To: end.Offset}
	})
	return spans, nil
}

// After asks where the records begin that are not older than a moment; partitions
// that have none are missing.
func (r *Reader) After(ctx context.Context, moment time.Time, topics ...string) (map[Place]int64, error) {
	listed, err := r.admin.ListOffsetsAfterMilli(ctx, moment.UnixMilli(), topics...)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("offsets of %v at %s: %w", topics, moment.Format(time.RFC3339), err)
	}
	from := map[Place]int64{}
	listed.Each(func(o kadm.ListedOffset) { from[Place{o.Topic, o.Partition}] = o.Offset })
	return from, nil
}

// TopicID tells the topic from an earlier one of its name.
func (r *Reader) TopicID(ctx context.Context, topic string) (ack.TopicID, error) {
	details, err := r.admin.ListTopics(ctx, topic)
	if err == nil {
		err = details[topic].Err
	}
	if err != nil {
		return ack.TopicID{}, fmt.Errorf("topic %s: %w", topic, err)
	}
	return ack.TopicID(details[topic].ID), nil
}

// Committed asks what a group has committed; a group that nobody knows has
// committed nothing.
func (r *Reader) Committed(ctx context.Context, group string) (map[Place]Commit, error) {
	found, err := committedBy(ctx, r.admin, group)
	if err != nil {
		return nil, fmt.Errorf("offsets of group %s: %w", group, err)
	}
	commits := map[Place]Commit{}
	var refused error
	found.Each(func(o kadm.OffsetResponse) {
		switch {
		case o.Err != nil:
			refused = errors.Join(refused, fmt.Errorf("offsets of group %s: %s[%d]: %w", group, o.Topic, o.Partition, o.Err))
		case o.At >= 0:
			commits[Place{o.Topic, o.Partition}] = Commit{Offset: o.At, Metadata: o.Metadata}
		}
	})
	return commits, refused
}

// Commit commits for a group that has no members.
func (r *Reader) Commit(ctx context.Context, group string, commits map[Place]Commit) error {
	offsets := kadm.Offsets{}
	for p, c := range commits {
		offsets.Add(kadm.Offset{Topic: p.Topic, Partition: p.Partition, At: c.Offset, LeaderEpoch: -1, Metadata: c.Metadata})
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	answers, err := r.admin.CommitOffsets(ctx, group, offsets)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		return fmt.Errorf("commit of group %s: %w", group, err)
	}
	return nil
}

// Tail reads partitions from given offsets on. It is used by one goroutine.
type Tail struct {
	client *kgo.Client
	next   map[Place]int64
}

// Tail begins to read. The offsets must not lie before the log's start.
func (r *Reader) Tail(from map[Place]int64) (*Tail, error) {
	t := &Tail{next: make(map[Place]int64, len(from))}
	starts := map[string]map[int32]kgo.Offset{}
	for p, offset := range from {
		t.next[p] = offset
		if starts[p.Topic] == nil {
			starts[p.Topic] = map[int32]kgo.Offset{}
		}
		starts[p.Topic][p.Partition] = kgo.NewOffset().At(offset)
	}
	size := newFetchSize(r.fetched, tailFetch)
	client, err := kgo.NewClient(slices.Concat(size.options(), []kgo.Opt{
		kgo.ConsumePartitions(starts),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), // what a producer took back never happened
		kgo.KeepControlRecords(),                     // they may be a partition's last
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),  // a gap must show
		kgo.MetadataMinAge(time.Second),              // a leader that moves is found before silence means anything
		kgo.FetchMaxWait(fetchWait),
		kgo.WithHooks(size),
	}, r.opts)...)
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	size.follow(client)
	t.client = client
	return t, nil
}

// Close ends the tail's connections.
func (t *Tail) Close() { t.client.Close() }

const (
	fetchWait = 250 * time.Millisecond
	// quiet is how long no record comes before a partition counts as read up to
	// its end although its last record did not come: it may be one of a
	// transaction that was aborted, or compacted away. It spans many fetches.
	quiet = 3 * time.Second
	// quiets is how often in a row that has to be so, the partitions' leaders
	// being at hand each time: leaders move.
	quiets = 3
)

// Until reads each of the partitions up to its end as given, and calls each for
// every record, by partition in the order of offsets. It may read on beyond the
// end, and goes on from there when called again. An error of each ends it.
func (t *Tail) Until(ctx context.Context, ends map[Place]int64, each func(*Record) error) error {
	missing := map[Place]bool{}
	for p, end := range ends {
		if next, ours := t.next[p]; ours && next < end {
			missing[p] = true
		}
	}
	for silences := 0; len(missing) > 0; {
		polling, cancel := context.WithTimeout(ctx, quiet)
		fetches := t.client.PollFetches(polling)
		silent := polling.Err() != nil && fetches.NumRecords() == 0
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if silent {
			if err := t.reachable(ctx, missing); err != nil {
				return err
			}
			if silences++; silences < quiets {
				continue
			}
			for p := range missing {
				t.next[p] = max(t.next[p], ends[p])
			}
			return nil
		}
		if err := fetchFailure(fetches); err != nil {
			return err
		}
		silences = 0
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			p := Place{r.Topic, r.Partition}
			if !r.Attrs.IsControl() {
				if err := each(r); err != nil {
					return err
				}
			}
			if t.next[p] = r.Offset + 1; t.next[p] >= ends[p] {
				delete(missing, p)
			}
		}
	}
	return nil
}

// reachable tells silence from leaders that cannot be reached.
func (t *Tail) reachable(ctx context.Context, places map[Place]bool) error {
	var topics []string
	for p := range places {
		topics = append(topics, p.Topic)
	}
	asking, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	ends, err := kadm.NewClient(t.client).ListEndOffsets(asking, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("no records and no answer from the brokers: %w", err)
	}
	return nil
}

// fetchFailure is what the client does not retry by itself.
func fetchFailure(fetches kgo.Fetches) (failed error) {
	fetches.EachError(func(topic string, partition int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) && failed == nil {
			failed = fmt.Errorf("read %s: %w", Place{topic, partition}, tooLarge(err))
		}
	})
	return failed
}
