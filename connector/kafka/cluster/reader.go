package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka/lease"
	"github.com/feedsink/feedsink/connector/retry"
)

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String is the place as messages name it: topic[3].
func (p TopicPartition) String() string { return fmt.Sprintf("%s[%d]", p.Topic, p.Partition) }

// RecordPlace is where a record is.
type RecordPlace struct {
	TopicPartition
	Offset int64
}

// PlaceOf is the record's place.
func PlaceOf(r *kgo.Record) RecordPlace {
	return RecordPlace{TopicPartition{r.Topic, r.Partition}, r.Offset}
}

// String is the place as messages name it: topic[3]@17.
func (p RecordPlace) String() string { return fmt.Sprintf("%s@%d", p.TopicPartition, p.Offset) }

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
	of      Connection
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
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.MetadataMinAge(time.Second)}, opts...)...) // partitions that are added show
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	return &Reader{of: c, opts: opts, fetched: c.Fetched, client: client, admin: kadm.NewClient(client)}, nil
}

// Close ends the reader's connections.
func (r *Reader) Close() { r.client.Close() }

// Spans asks what the partitions of the topics hold now. A topic that does not
// exist is an error.
func (r *Reader) Spans(ctx context.Context, topics ...string) (map[TopicPartition]Span, error) {
	spans := map[TopicPartition]Span{}
	if len(topics) == 0 {
		return spans, nil
	}
	starts, err := r.starts(ctx, topics)
	if err != nil {
		return nil, err
	}
	ends, err := r.admin.ListCommittedOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, failure("end of %v: %w", topics, err)
	}
	ends.Each(func(end kadm.ListedOffset) {
		start, _ := starts.Lookup(end.Topic, end.Partition)
		spans[TopicPartition{end.Topic, end.Partition}] = Span{From: start.Offset, To: end.Offset}
	})
	return spans, nil
}

// A topic that was created just now may not have come to the broker that leads a partition.
const (
	newTopicAsks  = 50
	newTopicPause = 100 * time.Millisecond
)

// starts asks where the partitions begin. A broker's answer that it does not know a topic counts
// once the cluster says so, too.
func (r *Reader) starts(ctx context.Context, topics []string) (kadm.ListedOffsets, error) {
	for asked := 1; ; asked++ {
		starts, err := r.admin.ListStartOffsets(ctx, topics...)
		if err == nil {
			err = starts.Error()
		}
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			if missing := r.missing(ctx, starts); missing != nil {
				return nil, missing
			}
		}
		switch {
		case err == nil:
			return starts, nil
		case asked == newTopicAsks, !errors.Is(err, kerr.UnknownTopicOrPartition), retry.Sleep(ctx, newTopicPause) != nil:
			return nil, failure("start of %v: %w", topics, err)
		}
	}
}

// missing names a topic that the cluster does not know either, and the one that may be meant; nil: it knows them all.
func (r *Reader) missing(ctx context.Context, asked kadm.ListedOffsets) error {
	all, err := r.admin.ListTopics(ctx)
	if err != nil {
		return failure("topics of the cluster: %w", err)
	}
	maps.DeleteFunc(all, func(_ string, t kadm.TopicDetail) bool { return t.Err != nil }) // the client asks for the missing one, too
	for _, topic := range slices.Sorted(maps.Keys(asked)) {
		for _, o := range asked[topic] {
			if errors.Is(o.Err, kerr.UnknownTopicOrPartition) && !all.Has(topic) {
				return &Failure{&MissingTopic{topic, ForMissing(topic, slices.Sorted(maps.Keys(all)))}}
			}
		}
	}
	return nil
}

// After asks where the records begin that were written since then; partitions
// that have none are missing. A time before 1970 is the beginning of it: to Kafka a negative
// one is another question.
func (r *Reader) After(ctx context.Context, since time.Time, topics ...string) (map[TopicPartition]int64, error) {
	listed, err := r.admin.ListOffsetsAfterMilli(ctx, max(since.UnixMilli(), 0), topics...)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, failure("offsets of %v at %s: %w", topics, since.Format(time.RFC3339), err)
	}
	from := map[TopicPartition]int64{}
	listed.Each(func(o kadm.ListedOffset) { from[TopicPartition{o.Topic, o.Partition}] = o.Offset })
	return from, nil
}

// PartitionOf is the partition, of so many, to which Kafka's own producers send a record
// with that key, unless they were told otherwise.
func PartitionOf(key []byte, partitions int) int32 {
	return int32(kgo.StickyKeyPartitioner(nil).ForTopic("").Partition(&kgo.Record{Key: key}, partitions))
}

// TopicID tells the topic from an earlier one of its name.
func (r *Reader) TopicID(ctx context.Context, topic string) (ack.TopicID, error) {
	details, err := r.admin.ListTopics(ctx, topic)
	if err == nil {
		err = details[topic].Err
	}
	if err != nil {
		return ack.TopicID{}, failure("topic %s: %w", topic, err)
	}
	return ack.TopicID(details[topic].ID), nil
}

// Committed asks what a group has committed; a group that does not exist has
// committed nothing.
func (r *Reader) Committed(ctx context.Context, group string) (map[TopicPartition]Commit, error) {
	found, err := CommittedBy(ctx, r.admin, group)
	if err != nil {
		return nil, failure("offsets of group %s: %w", group, err)
	}
	commits := map[TopicPartition]Commit{}
	var refused error
	found.Each(func(o kadm.OffsetResponse) {
		switch {
		case o.Err != nil:
			refused = errors.Join(refused, failure("offsets of group %s: %s[%d]: %w", group, o.Topic, o.Partition, o.Err))
		case o.At >= 0:
			commits[TopicPartition{o.Topic, o.Partition}] = Commit{Offset: o.At, Metadata: o.Metadata}
		}
	})
	return commits, refused
}

// offsetsTimeout bounds a commit.
const offsetsTimeout = 15 * time.Second

// Commit commits for a group that has no members.
func (r *Reader) Commit(ctx context.Context, group string, commits map[TopicPartition]Commit) error {
	offsets := kadm.Offsets{}
	for p, c := range commits {
		offsets.Add(kadm.Offset{Topic: p.Topic, Partition: p.Partition, At: c.Offset, LeaderEpoch: -1, Metadata: c.Metadata})
	}
	ctx, cancel := context.WithTimeout(ctx, offsetsTimeout)
	defer cancel()
	answers, err := r.admin.CommitOffsets(ctx, group, offsets)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		return failure("commit of group %s: %w", group, err)
	}
	return nil
}

// CommittedBy is what a group has committed; one that no member has joined yet has
// committed nothing.
func CommittedBy(ctx context.Context, admin *kadm.Client, group string) (kadm.OffsetResponses, error) {
	committed, err := admin.FetchOffsets(ctx, group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		err = nil
	}
	return committed, err
}

// Stretch is records of one partition that were read before.
type Stretch struct {
	TopicPartition
	Span
}

// Joined are stretches ordered by topic, partition and offset, each record in one of them.
func Joined(all []Stretch) []Stretch {
	slices.SortFunc(all, func(a, b Stretch) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.From, b.From))
	})
	out := all[:0]
	for _, s := range all {
		if n := len(out); n > 0 && out[n-1].TopicPartition == s.TopicPartition && s.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, s.To)
			continue
		}
		out = append(out, s)
	}
	return out
}

// Reread reads stretches once more, one after the other, beside the group: nothing
// is committed and no position moves. Records that the log has lost meanwhile are
// left out. An error of each ends it.
func (r *Reader) Reread(ctx context.Context, log *slog.Logger, stretches []Stretch, each func(i int, record *kgo.Record) error) error {
	var topics []string
	for _, st := range stretches {
		if !slices.Contains(topics, st.Topic) {
			topics = append(topics, st.Topic)
		}
	}
	left, err := r.Spans(ctx, topics...)
	if err != nil {
		return err
	}
	for i, st := range stretches {
		if st.From < left[st.TopicPartition].From {
			log.Warn("records that were read before are not in the log any more", "topic", st.Topic, "partition", st.Partition, "from", st.From)
			st.From = left[st.TopicPartition].From
		}
		if err := r.Between(ctx, map[TopicPartition]Span{st.TopicPartition: st.Span}, func(record *kgo.Record) error { return each(i, record) }); err != nil {
			return fmt.Errorf("read %s from %d to %d again: %w", st.TopicPartition, st.From, st.To, err)
		}
	}
	return nil
}

// Between calls each for the records of the spans, and leaves out what comes meanwhile.
func (r *Reader) Between(ctx context.Context, spans map[TopicPartition]Span, each func(*kgo.Record) error) error {
	from := map[TopicPartition]int64{}
	for p, span := range spans {
		if span.From < span.To {
			from[p] = span.From
		}
	}
	if len(from) == 0 {
		return nil
	}
	tail, err := r.Tail(from)
	if err != nil {
		return err
	}
	defer tail.Close()
	return tail.Until(ctx, spans, func(record *kgo.Record) error {
		if at := PlaceOf(record); at.Offset >= spans[at.TopicPartition].To {
			return nil
		}
		return each(record)
	})
}

// Tail reads partitions from given offsets on. It is used by one goroutine.
type Tail struct {
	client    *kgo.Client
	next      map[TopicPartition]int64
	throttled throttle
}

// throttle is until when a broker gives the login nothing, in Unix milliseconds: its quota is used up.
type throttle struct{ until atomic.Int64 }

// OnBrokerThrottle is the client's hook.
func (t *throttle) OnBrokerThrottle(_ kgo.BrokerMetadata, interval time.Duration, afterResponse bool) {
	if until := time.Now().Add(interval).UnixMilli(); afterResponse && until > t.until.Load() {
		t.until.Store(until)
	}
}

// since reports whether that was so at some time since then: silence means nothing.
func (t *throttle) since(begun time.Time) bool { return t.until.Load() >= begun.UnixMilli() }

// Tail begins to read. The offsets must not lie before the log's start.
func (r *Reader) Tail(from map[TopicPartition]int64) (*Tail, error) {
	t := &Tail{next: make(map[TopicPartition]int64, len(from))}
	starts := map[string]map[int32]kgo.Offset{}
	for p, offset := range from {
		t.next[p] = offset
		if starts[p.Topic] == nil {
			starts[p.Topic] = map[int32]kgo.Offset{}
		}
		starts[p.Topic][p.Partition] = kgo.NewOffset().At(offset)
	}
	client, err := newFetchSize(r.fetched, tailFetch).newClient(append([]kgo.Opt{
		kgo.ConsumePartitions(starts),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), // what a producer took back never happened
		kgo.KeepControlRecords(),                     // they may be a partition's last
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),  // a gap must show
		kgo.MetadataMinAge(time.Second),              // a leader that moves is found before silence means anything
		kgo.FetchMaxWait(fetchWait),
		kgo.WithHooks(&t.throttled),
	}, r.opts...)...)
	if err != nil {
		return nil, err
	}
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
	// quiets is how many times in a row that has to be so, the partitions' leaders
	// being at hand each time, and no quota of theirs used up: leaders move.
	quiets = 3
)

// Until reads each of the partitions up to the end of its span, and calls each for
// every record, by partition in the order of offsets. It may read on beyond the
// end, and goes on from there when called again. An error of each ends it.
func (t *Tail) Until(ctx context.Context, spans map[TopicPartition]Span, each func(*kgo.Record) error) error {
	missing := map[TopicPartition]bool{}
	for p, span := range spans {
		if next, ours := t.next[p]; ours && next < span.To {
			missing[p] = true
		}
	}
	for silences := 0; len(missing) > 0; {
		begun := time.Now()
		polling, cancel := context.WithTimeout(ctx, quiet)
		fetches := t.client.PollFetches(polling)
		silent := polling.Err() != nil && fetches.NumRecords() == 0
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if silent && t.throttled.since(begun) {
			silences = 0
			continue
		}
		if silent {
			if err := t.reachable(ctx, missing); err != nil {
				return err
			}
			if silences++; silences < quiets {
				continue
			}
			for p := range missing {
				t.next[p] = max(t.next[p], spans[p].To)
			}
			return nil
		}
		if err := fetchFailure(fetches); err != nil {
			return err
		}
		silences = 0
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			p := TopicPartition{r.Topic, r.Partition}
			if !r.Attrs.IsControl() {
				if err := each(r); err != nil {
					return err
				}
			}
			if t.next[p] = r.Offset + 1; t.next[p] >= spans[p].To {
				delete(missing, p)
			}
		}
	}
	return nil
}

// reachable tells silence from leaders that cannot be reached.
func (t *Tail) reachable(ctx context.Context, places map[TopicPartition]bool) error {
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
		return failure("no records and no answer from the brokers: %w", err)
	}
	return nil
}

// fetchFailure is what the client does not retry by itself.
func fetchFailure(fetches kgo.Fetches) (failed error) {
	fetches.EachError(func(topic string, partition int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) && failed == nil {
			failed = failure("read %s: %w", TopicPartition{topic, partition}, TooLarge(err))
		}
	})
	return failed
}

// ErrHeld says that another process holds the group.
var ErrHeld = errors.New("another process holds it")

// Hold makes this process the one member of a group that exists for nothing else,
// and keeps it so until release: of several processes that try, at most one
// succeeds, and the others get ErrHeld. A holder that was killed is forgotten
// after its session, and is waited for. So are the members of the groups beside it: while this
// process is its group's member they have none. The brokers have a minute to answer; a login or right that they
// refuse is told at once. topic is one that may be read.
func (r *Reader) Hold(ctx context.Context, group, topic string, session time.Duration, rnd *rand.Rand, beside ...string) (held *Held, release func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	groups := append([]string{group}, beside...)
	var holder string
	var forgotten <-chan time.Time // since it was met
	for {
		members, err := r.Members(waiting, groups...)
		if err == nil && len(members) == 0 {
			held, release, members, err = r.join(waiting, groups, topic, session)
			if err == nil && release != nil {
				return held, release, nil
			}
		}
		if Refusal(err) != "" { // which waiting does not change
			return nil, nil, failure("%w", err)
		}
		if len(members) > 0 {
			holder = members[0]
			if forgotten == nil {
				forgotten = time.After(session + session/4)
			}
		}
		select {
		case <-time.After(session/40 + time.Duration(rnd.Int64N(int64(session/20)))): // two that met must not meet again
			continue
		case <-forgotten:
		case <-waiting.Done():
		}
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case holder == "" && err != nil:
			return nil, nil, failure("%w", err)
		}
		return nil, nil, fmt.Errorf("%w: %s", ErrHeld, holder)
	}
}

// join makes this process a member of the first group, one that takes no records. If it is not the
// only one of all groups, it goes again; release is nil then.
func (r *Reader) join(ctx context.Context, groups []string, topic string, session time.Duration) (held *Held, release func(), members []string, err error) {
	joined, gone, ended := make(chan struct{}), make(chan struct{}), make(groupErrors, 1)
	held = &Held{Lost: gone, lease: lease.New(), group: groups[0], session: session}
	in, out := sync.OnceFunc(func() { close(joined) }), sync.OnceFunc(func() { close(gone) })
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.ConsumerGroup(groups[0]), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(session), kgo.HeartbeatInterval(session / 5),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { in() }),
		kgo.OnPartitionsLost(func(context.Context, *kgo.Client, map[string][]int32) { out() }),
		kgo.WithHooks(ended),
	}, r.opts...)...)
	if err != nil {
		return nil, nil, nil, err
	}
	client.PauseFetchTopics(topic)
	select {
	case <-joined:
		if members, err = r.Members(ctx, groups...); err == nil && !held.renew(ctx, client) {
			err = fmt.Errorf("group %s: the brokers did not take a heartbeat", groups[0])
		}
	case err = <-ended:
		err = fmt.Errorf("group %s: %w", groups[0], err)
	case <-ctx.Done():
		err = fmt.Errorf("group %s: %w", groups[0], ctx.Err())
	}
	if err == nil && len(members) == 1 {
		keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
		var heartbeats sync.WaitGroup
		heartbeats.Go(func() {
			if held.keep(keeping, client); keeping.Err() == nil {
				out()
			}
		})
		return held, func() {
			stop()
			heartbeats.Wait()
			client.Close()
		}, members, nil
	}
	client.Close() // which leaves the group
	return nil, nil, members, err
}

// groupErrors takes the first error that ended a client's membership, or kept it from one.
type groupErrors chan error

// OnGroupManageError is the client's.
func (e groupErrors) OnGroupManageError(err error) {
	select {
	case e <- err:
	default:
	}
}

// Members are those of the groups: each with its group, and where it is.
func (r *Reader) Members(ctx context.Context, groups ...string) (all []string, err error) {
	described, err := r.admin.DescribeGroups(ctx, groups...)
	if err != nil {
		return nil, fmt.Errorf("group %s: %w", groups[0], err)
	}
	for _, group := range groups {
		of := described[group]
		if of.Err != nil && !errors.Is(of.Err, kerr.GroupIDNotFound) { // no member has joined it yet
			return nil, fmt.Errorf("group %s: %w", group, of.Err)
		}
		for _, m := range of.Members {
			all = append(all, fmt.Sprintf("group %s, at %s", group, m.ClientHost))
		}
	}
	return all, nil
}
