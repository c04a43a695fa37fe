package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Source is where an audit finds its evidence.
type Source struct {
	Connection  []kgo.Opt
	Group       string            // the lanes' groups are GROUP-immediate and GROUP-batch
	Topics      map[string][]Lane // of the mappings, and the lanes of their routes
	Receipts    string            // topics
	DeadLetters string            // "": none
	// Progress is told how many records have been read, and how many there are; nil: nothing is told.
	Progress func(read, of int64)
}

// errCompacted says that the receipts topic keeps one receipt of a key and forgets the others.
var errCompacted = errors.New("the receipts topic is compacted: of the receipts of one key the older ones are removed. Set its cleanup.policy to delete")

// errNoLeader is why the brokers do not tell a partition's end.
var errNoLeader = errors.New("the brokers do not know the partition's leader")

// bounds is the offsets of a partition from one up to, not including, another.
type bounds struct{ from, to int64 }

// source reads from Kafka.
type source struct {
	Source
	admin    *kadm.Client
	read, of int64
}

// Gather reads commits and bounds, in the order that Evidence asks for. What it returns reads
// the topics up to the ends that they had then. close ends its connections.
func Gather(ctx context.Context, from Source) (e *Evidence, closing func(), err error) {
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.MetadataMinAge(time.Second)}, from.Connection...)...)
	if err != nil {
		return nil, nil, fmt.Errorf("kafka client: %w", err)
	}
	s := &source{Source: from, admin: kadm.NewClient(client)}
	if s.Progress == nil {
		s.Progress = func(int64, int64) {}
	}
	if e, err = s.gather(ctx); err != nil {
		client.Close()
		return nil, nil, err
	}
	return e, client.Close, nil
}

func (s *source) gather(ctx context.Context) (*Evidence, error) {
	e := &Evidence{Read: time.Now(), ReceiptsTopic: s.Receipts}
	commits, err := s.commits(ctx)
	if err != nil {
		return nil, err
	}
	receipts, err := s.bounds(ctx, s.Receipts)
	if err != nil {
		return nil, err
	}
	compacted, err := s.compacted(ctx, s.Receipts)
	switch {
	case err != nil:
		return nil, err
	case compacted:
		return nil, fmt.Errorf("topic %s: %w", s.Receipts, errCompacted)
	}
	e.Receipts = s.messages(s.Receipts, receipts)
	if e.ReceiptsGone, err = s.gone(ctx, receipts); err != nil {
		return nil, err
	}
	if s.DeadLetters != "" {
		letters, err := s.bounds(ctx, s.DeadLetters)
		if err != nil {
			return nil, err
		}
		if e.LettersGone, err = s.compacted(ctx, s.DeadLetters); err != nil {
			return nil, err
		}
		for _, b := range letters {
			e.LettersGone = e.LettersGone || b.from > 0
		}
		e.Letters = s.messages(s.DeadLetters, letters)
	}
	for _, topic := range slices.Sorted(maps.Keys(s.Topics)) {
		some, err := s.partitions(ctx, topic, commits)
		if err != nil {
			return nil, err
		}
		e.Partitions = append(e.Partitions, some...)
	}
	e.Records = s.records
	return e, nil
}

func (s *source) commits(ctx context.Context) (all [2]kadm.OffsetResponses, err error) {
	for _, lane := range Lanes {
		group := s.Group + "-" + lane.String()
		found, err := s.admin.FetchOffsets(ctx, group)
		if err = cmp.Or(err, found.Error()); err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // no member has joined it yet
			return all, fmt.Errorf("offsets of group %s: %w", group, err)
		}
		all[lane] = found
	}
	return all, nil
}

func (s *source) bounds(ctx context.Context, topic string) (map[int32]bounds, error) {
	starts, err := s.admin.ListStartOffsets(ctx, topic)
	if err = cmp.Or(err, starts.Error()); err != nil {
		return nil, fmt.Errorf("start of topic %s: %w", topic, err)
	}
	ends, err := s.admin.ListCommittedOffsets(ctx, topic)
	if err = cmp.Or(err, ends.Error()); err != nil {
		return nil, fmt.Errorf("end of topic %s: %w", topic, err)
	}
	all := map[int32]bounds{}
	ends.Each(func(end kadm.ListedOffset) {
		start, _ := starts.Lookup(end.Topic, end.Partition)
		all[end.Partition] = bounds{start.Offset, end.Offset}
	})
	return all, nil
}

func (s *source) compacted(ctx context.Context, topic string) (bool, error) {
	all, err := s.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return false, fmt.Errorf("configuration of topic %s: %w", topic, err)
	}
	of, err := all.On(topic, nil)
	if err = cmp.Or(err, of.Err); err != nil {
		return false, fmt.Errorf("configuration of topic %s: %w", topic, err)
	}
	return slices.ContainsFunc(of.Configs, func(c kadm.Config) bool {
		return c.Key == "cleanup.policy" && strings.Contains(c.MaybeValue(), "compact")
	}), nil
}

// gone is when the first receipt was written that is left in a partition that has lost its
// beginning: the latest of these.
func (s *source) gone(ctx context.Context, all map[int32]bounds) (latest time.Time, err error) {
	for partition, b := range all {
		if b.from == 0 {
			continue
		}
		if b.from == b.to { // all of them: until now
			return time.Now(), nil
		}
		_, err := s.scan(ctx, s.Receipts, map[int32]bounds{partition: {b.from, b.from + 1}}, func(r *kgo.Record) error {
			if r.Timestamp.After(latest) {
				latest = r.Timestamp
			}
			return nil
		})
		if err != nil {
			return latest, err
		}
	}
	return latest, nil
}

func (s *source) partitions(ctx context.Context, topic string, commits [2]kadm.OffsetResponses) ([]Partition, error) {
	all, err := s.bounds(ctx, topic)
	if err != nil {
		return nil, err
	}
	compacted, err := s.compacted(ctx, topic)
	if err != nil {
		return nil, err
	}
	details, err := s.admin.ListTopics(ctx, topic)
	if err = cmp.Or(err, details[topic].Err); err != nil {
		return nil, fmt.Errorf("topic %s: %w", topic, err)
	}
	var out []Partition
	for id, b := range all {
		p := Partition{Topic: topic, ID: id, Start: b.from, End: b.to, TopicID: details[topic].ID, Compacted: compacted, Lanes: s.Topics[topic]}
		for _, lane := range Lanes {
			if o, ok := commits[lane].Lookup(topic, id); ok && o.At >= 0 {
				p.Commits[lane] = &Commit{Offset: o.At, Metadata: o.Metadata}
				s.of += max(0, o.At-b.from) / 2 // both lanes have most of them
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// messages reads a topic up to the ends that it had.
func (s *source) messages(topic string, all map[int32]bounds) Messages {
	for _, b := range all {
		s.of += b.to - b.from
	}
	return func(ctx context.Context, each func(*Message) error) error {
		m := Message{}
		_, err := s.scan(ctx, topic, all, func(r *kgo.Record) error {
			m.Partition, m.Offset, m.Key, m.Value, m.Headers = r.Partition, r.Offset, r.Key, r.Value, m.Headers[:0]
			for i := range r.Headers {
				m.Headers = append(m.Headers, Header{r.Headers[i].Key, r.Headers[i].Value})
			}
			return each(&m)
		})
		return err
	}
}

// records tells of the records of a partition. Kafka sends whole batches; of a record nothing is
// looked at but its offset and time.
func (s *source) records(ctx context.Context, p *Partition, from, to int64, each func(offset, written int64) error) (certain int64, err error) {
	next, err := s.scan(ctx, p.Topic, map[int32]bounds{p.ID: {from, to}}, func(r *kgo.Record) error {
		return each(r.Offset, r.Timestamp.UnixMilli())
	})
	return next[p.ID], err
}

const (
	fetchWait = 250 * time.Millisecond
	// quiet is how long no record comes, so many times in a row with the partitions' leaders at hand,
	// before a partition counts as read: its last record may be of a transaction that was aborted.
	quiet  = 3 * time.Second
	quiets = 3

	fetchedAtOnce = 8 << 20 // bytes, of all partitions
	fetchedOfOne  = 1 << 20 // bytes, of one
)

// scan reads partitions of a topic within bounds, and calls each for every record. It returns how
// far it has seen all records of each partition.
func (s *source) scan(ctx context.Context, topic string, all map[int32]bounds, each func(*kgo.Record) error) (next map[int32]int64, err error) {
	starts, missing := map[int32]kgo.Offset{}, map[int32]bool{}
	next = map[int32]int64{}
	for partition, b := range all {
		if next[partition] = b.from; b.from < b.to {
			starts[partition], missing[partition] = kgo.NewOffset().At(b.from), true
		}
	}
	if len(missing) == 0 {
		return next, nil
	}
	var throttled throttle
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.WithHooks(&throttled),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: starts}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // they may be a partition's last
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxWait(fetchWait), kgo.FetchMaxBytes(fetchedAtOnce), kgo.FetchMaxPartitionBytes(fetchedOfOne), kgo.MaxConcurrentFetches(2),
		kgo.MetadataMinAge(time.Second),
	}, s.Connection...)...)
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	defer client.Close()
	for silences := 0; len(missing) > 0 && silences < quiets; silences++ {
		begun := time.Now()
		polling, cancel := context.WithTimeout(ctx, quiet)
		fetches := client.PollFetches(polling)
		cancel()
		if ctx.Err() != nil {
			return next, ctx.Err()
		}
		if err := failure(topic, fetches); err != nil {
			return next, err
		}
		if fetches.NumRecords() == 0 && throttled.since(begun) {
			silences = -1
			continue
		}
		if fetches.NumRecords() == 0 {
			if err := reachable(ctx, client, topic, missing); err != nil {
				return next, err
			}
			continue
		}
		silences = -1
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			if r.Offset < all[r.Partition].to && !r.Attrs.IsControl() {
				if err := each(r); err != nil {
					return next, err
				}
			}
			if next[r.Partition] = min(r.Offset+1, all[r.Partition].to); r.Offset+1 >= all[r.Partition].to {
				delete(missing, r.Partition)
			}
			s.read++
			s.Progress(s.read, max(s.of, s.read))
		}
	}
	return next, nil
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

// reachable tells silence from leaders that do not answer, whatever other brokers do.
func reachable(ctx context.Context, client *kgo.Client, topic string, missing map[int32]bool) error {
	asking, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	ends, err := kadm.NewClient(client).ListEndOffsets(asking, topic)
	for partition := range missing {
		if end, listed := ends.Lookup(topic, partition); !listed || end.Err != nil {
			return fmt.Errorf("read %s[%d]: no records, and no answer from its leader: %w", topic, partition, cmp.Or(end.Err, err, errNoLeader))
		}
	}
	return nil
}

func failure(topic string, fetches kgo.Fetches) (failed error) {
	fetches.EachError(func(_ string, partition int32, err error) {
		switch {
		case failed != nil || errors.Is(err, context.DeadlineExceeded):
		case errors.Is(err, kerr.OffsetOutOfRange):
			failed = fmt.Errorf("read %s[%d]: records were deleted while it was read; run it again: %w", topic, partition, err)
		default:
			failed = fmt.Errorf("read %s[%d]: %w", topic, partition, err)
		}
	})
	return failed
}
