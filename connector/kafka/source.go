package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kprom"

	"github.com/feedsink/feedsink/connector/kafka/balance"
)

// Config is one lane's consumer group.
type Config struct {
	Connection     Connection
	Group          string // with the lane: feedsink-batch
	Topics         []string
	FromEnd        bool          // topics of which nothing is committed are read from where they ended before Run joined the group
	SessionTimeout time.Duration // after which a dead member's partitions move
	ReleaseTimeout time.Duration // bounds the wait for work under way when partitions go; 0: 35 s
	CommitEvery    time.Duration // 0: once a second
	MetadataMaxAge time.Duration // of what is known of topics and their partitions; 0: a minute
	// TableOf names the table, or group of tables, a topic feeds. With it, all
	// partitions of a table's topics go to one member; without it they spread.
	TableOf func(topic string) string
	// Other is the group of the other lane, and TopicOf tells what the configuration
	// says of each topic. Without it the lane is alone.
	Other   string
	TopicOf func(topic string) TopicRoutes
	// Ended reports whether an execution of the other lane has ended; nil: that lane
	// has none. It makes one attempt.
	Ended   func(ctx context.Context, execution string) (bool, error)
	Grace   time.Duration               // after which a request to the service has ended
	Filed   func(topic string) []string // tables, as the ledger knows them, whose files take the topic's records; nil: none
	Upgrade Upgrade                     // nil: there is nothing to do
	Pending *Memory                     // what records that are tracked may take; nil: the default
	Log     *slog.Logger
	Metrics *prometheus.Registry // gets the client's own, feedsink_kafka_*; nil: none
}

// Handler takes the records of one lane.
//
// All calls come from the source, one at a time. Records and Ready must
// return quickly: while they run, the group cannot rebalance.
type Handler interface {
	// Records takes records of one partition in the order of their offsets
	// and returns how many. Those not taken are offered again a little later;
	// until then the partition gets no others.
	Records(p *Partition, records []*Record) (taken int)
	// Ready reports whether there is room for more records at all.
	Ready() bool
	// Assigned is told of new assignments before their first record.
	Assigned(ps []*Partition)
	// Release is told that the assignments end, while their offsets can
	// still be committed until ctx ends: work that was not started is to be
	// dropped, work that was started to be waited for. Once ctx has ended
	// there is nothing left to wait for.
	Release(ctx context.Context, ps []*Partition)
}

// Limits of one poll. Bounded, so that a lane overshoots its own limits only
// by this much and a rebalance never waits long.
const (
	maxPollRecords = 2000
	maxPollWait    = time.Second
	retryEvery     = 20 * time.Millisecond // how soon a full lane, or a backlog, is asked again
	reloadEvery    = time.Second           // how soon a ledger that could not be read is tried again
	restAfterError = 5 * time.Second       // how soon a partition that can't be fetched is tried again
)

// Source is one lane's membership in its consumer group.
type Source struct {
	cfg     Config
	handler Handler
	client  *kgo.Client
	end     context.CancelFunc // ends the client, whatever it waits for
	admin   *kadm.Client
	log     *slog.Logger

	// The poll loop's own.
	room        bool     // the handler was ready after the last poll
	staleTopics []string // topics the client does not read any more: it knows them by an id that is gone

	pending    atomic.Int64 // records tracked and not confirmed, of all partitions
	closing    sync.Once
	leaving    leaving
	joined     atomic.Bool // the group has assigned us something, be it nothing
	lease      *lease
	other      *other
	sheds      atomic.Int64  // how often records were given back
	endsWanted atomic.Bool   // somebody looks at the status
	soon       chan struct{} // a commit is to be made now
	portion    portion
	latest     latest // before the group is joined

	mu    sync.Mutex
	parts map[topicPartition]*Partition // assigned to us now
	kept  []*Partition                  // new assignments of partitions we had already: their ledgers are to be read again
	fresh []*Partition                  // their ledgers were read, the handler was not told yet
	again []*Partition                  // to be ended and assigned anew

	// commits serialises snapshot and commit: two at once could send the
	// older snapshot last.
	commits sync.Mutex
}

type topicPartition struct {
	topic string
	id    int32
}

// New connects to nothing yet: an error is one of configuration.
func New(cfg Config, handler Handler) (*Source, error) {
	if cfg.CommitEvery == 0 {
		cfg.CommitEvery = time.Second
	}
	if cfg.ReleaseTimeout == 0 {
		cfg.ReleaseTimeout = releaseTimeout
	}
	if cfg.MetadataMaxAge == 0 {
		cfg.MetadataMaxAge = time.Minute
	}
	if cfg.Pending == nil {
		cfg.Pending = NewMemory(0)
	}
	s := &Source{cfg: cfg, handler: handler, parts: map[topicPartition]*Partition{}, log: cfg.Log.With("group", cfg.Group), lease: newLease(), other: &other{group: cfg.Other}, soon: make(chan struct{}, 1)}
	opts, err := cfg.Connection.Options()
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.Background())
	s.end = end
	size := newFetchSize(cfg.Connection.fetched(), groupFetch)
	opts = append(opts, size.options()...)
	opts = append(opts,
		kgo.WithContext(life),
		kgo.ConsumerGroup(cfg.Group), // joined once there are topics, in Run: before, callbacks could find s unfinished
		kgo.DisableAutoCommit(),      // any plain commit erases the ledger
		kgo.BlockRebalanceOnPoll(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), // what a producer took back never happened
		kgo.KeepControlRecords(),
		// A committed offset that retention has overtaken is lost data, to be
		// shown, not skipped.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.SessionTimeout(cfg.SessionTimeout),
		kgo.HeartbeatInterval(s.heartbeat()),
		// The group waits for work under way and the last commit of what is given back.
		kgo.RebalanceTimeout(max(2*cfg.SessionTimeout, cfg.ReleaseTimeout+commitTimeout+10*time.Second)),
		kgo.FetchMaxWait(500*time.Millisecond),
		kgo.MetadataMaxAge(cfg.MetadataMaxAge), kgo.MetadataMinAge(time.Second),
		kgo.Balancers(balance.By(cfg.TableOf)),
		kgo.OnPartitionsAssigned(s.assigned),
		kgo.OnOffsetsFetched(s.offsetsFetched),
		kgo.AdjustFetchOffsetsFn(s.startOffsets),
		kgo.OnPartitionsRevoked(s.revoked),
		kgo.OnPartitionsLost(s.lost),
		kgo.WithHooks(append(clientMetrics(cfg), size)...),
		kgo.WithLogger(clientLog{cfg.Log}),
	)
	if s.client, err = kgo.NewClient(opts...); err != nil {
		end()
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	size.follow(s.client)
	s.admin = kadm.NewClient(s.client)
	return s, nil
}

// clientMetrics counts what the client does, under the group's name.
func clientMetrics(cfg Config) []kgo.Hook {
	if cfg.Metrics == nil {
		return nil
	}
	return []kgo.Hook{kprom.NewMetrics("feedsink_kafka", kprom.Registry(cfg.Metrics),
		kprom.WithStaticLabel(prometheus.Labels{"group": cfg.Group}))}
}

// Run consumes until ctx ends, then commits what is confirmed and leaves the
// group. It returns once everything it started has ended.
func (s *Source) Run(ctx context.Context) error {
	s.lookBeforeJoining(ctx)
	s.client.AddConsumeTopics(s.cfg.Topics...)
	defer s.stayMember(ctx)()
	var beside sync.WaitGroup
	beside.Go(func() { s.commitRegularly(ctx) })
	beside.Go(func() { s.followOther(ctx) })
	beside.Go(func() { s.watchEnds(ctx) })
	beside.Go(func() { s.countPartitions(ctx) })
	for ctx.Err() == nil {
		s.pollOnce(ctx)
	}
	beside.Wait()
	s.Close() //nolint:contextcheck // ctx has ended; leaving has a time of its own
	return nil
}

// pollOnce takes one poll's records to the handler. Polling holds the group
// still until AllowRebalance, so that partitions can't change hands meanwhile.
func (s *Source) pollOnce(ctx context.Context) {
	s.takeUpAgain()
	starts := s.reload(ctx)
	wait := maxPollWait
	if s.hasBacklog() {
		wait = retryEvery
	}
	if !s.room {
		// A poll whose time is over returns no records but still holds the
		// group for what is below.
		select {
		case <-ctx.Done():
		case <-time.After(retryEvery):
		}
		wait = 0
	}
	polling, cancel := context.WithTimeout(ctx, wait)
	fetches := s.client.PollRecords(polling, maxPollRecords)
	cancel()
	defer s.client.AllowRebalance()
	if ctx.Err() != nil {
		return
	}
	s.welcome()
	s.offerBacklog()
	fetches.EachError(s.fetchError)
	// Records of a partition whose ledger is being read are polled again after rewind.
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if p := s.partition(f.Topic, f.Partition); p != nil && len(f.Records) > 0 && p.ready() {
			s.offer(p, f.Records)
		}
	})
	s.rewind(starts)
	s.startOver(ctx)
	s.shed()
	s.applyPauses()
	s.room = s.handler.Ready()
}

// offer hands records to the handler and keeps what it did not take.
func (s *Source) offer(p *Partition, records []*Record) {
	p.noted(records[len(records)-1].Offset + 1)
	if len(p.backlog) > 0 || p.wantsPause() {
		p.putBack(append(p.backlog, records...))
		return
	}
	data := withoutControl(records)
	taken := len(data)
	if taken > 0 {
		taken = s.handler.Records(p, data)
	}
	p.putBack(nil)
	switch {
	case taken == len(data):
		p.advance(records[len(records)-1].Offset + 1)
	default:
		p.advance(data[taken].Offset)
		p.putBack(records[slices.Index(records, data[taken]):])
	}
}

func (s *Source) offerBacklog() {
	for _, p := range s.Partitions() {
		if len(p.backlog) > 0 && p.ready() && !p.wantsPause() {
			records := p.backlog
			p.putBack(nil)
			s.offer(p, records)
		}
	}
}

func (s *Source) hasBacklog() bool {
	for _, p := range s.Partitions() {
		if (len(p.backlog) > 0 || p.shed > 0) && !p.wantsPause() {
			return true
		}
	}
	return false
}

func (s *Source) partition(topic string, id int32) *Partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts[topicPartition{topic, id}]
}

// Pending is the number of records on their way one by one, over all partitions.
func (s *Source) Pending() int64 { return s.pending.Load() }

// Joined reports whether this member has its place in the group and has read
// the ledgers of its partitions.
func (s *Source) Joined() bool {
	if !s.joined.Load() {
		return false
	}
	for _, p := range s.Partitions() {
		if !p.ready() {
			return false
		}
	}
	return true
}

// Partitions are the present assignments, in no order.
func (s *Source) Partitions() []*Partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	ps := make([]*Partition, 0, len(s.parts))
	for _, p := range s.parts {
		ps = append(ps, p)
	}
	return ps
}
