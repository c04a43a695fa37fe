// Package kafka is the Kafka side of one lane: a consumer group that polls,
// pauses, rebalances, and commits each partition's watermark together with its
// ledger.
//
// It knows partitions, assignments and offsets. It knows nothing about what a
// record says or where it goes: a Handler takes the records and confirms each on
// the Partition it came with. A Partition is one assignment;
// after the partition is taken away, everything done to it is ignored.
package kafka

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/kafka/lease"
	"github.com/feedsink/feedsink/connector/kafka/memory"
)

// Record is the client's record, under our name so that other packages need not
// import the client. It must not be changed.
type Record = kgo.Record

// Config is one lane's consumer group.
type Config struct {
	Subscription   // to begin with
	Connection     cluster.Connection
	Group          string             // with the lane: feedsink-batch
	FromEnd        bool               // topics of which nothing is committed are read from where they ended before Run joined the group
	SessionTimeout time.Duration      // after which a dead member's partitions move
	InstanceID     string             // of this process alone; with it, a process that was killed and begins again has its place back at once; "": none
	ReleaseTimeout time.Duration      // bounds the wait for work under way when partitions go; 0: 35 s
	CommitEvery    time.Duration      // 0: once a second
	MetadataMaxAge time.Duration      // of what is known of topics and their partitions; 0: a minute
	FetchMaxWait   time.Duration      // of the broker for records; 0: half a second
	LookEvery      time.Duration      // at most, at what sends no notice; 0: each kind has a time of its own, of seconds
	Other          string             // the group of the other lane; "": the lane is alone
	Grace          time.Duration      // after which a request to the service has ended
	Pending        *memory.Memory     // what records that are tracked may take; nil: the default
	Times          func() []time.Time // that it may be; nil: no used slots are forgotten before the table's next import
	Keeps          bool               // the handler keeps records one by one until they are confirmed
	Log            *slog.Logger
	Metrics        *prometheus.Registry // gets the client's own, feedsink_kafka_*; nil: none
}

// Subscription is what the mappings say of a lane's topics. It may change while the
// source runs: see Suspend.
type Subscription struct {
	Topics []string
	// TableOf names the table, or group of tables, a topic feeds. With it, all
	// partitions of a table's topics go to one member; without it they spread, which
	// is for all of the source's time.
	TableOf func(topic string) string
	// TopicOf tells what the configuration says of each topic; nil: nothing.
	TopicOf func(topic string) TopicRoutes
	// Ended reports whether an execution of the other lane has ended; nil: that lane
	// has none. It makes one attempt.
	Ended   func(ctx context.Context, execution string) (bool, error)
	Filed   func(topic string) []string // tables, as the ledger knows them, whose files take the topic's records; nil: none
	Counted func(topic string) []string // tables whose imports are counted on the topic's partition 0; nil: none
	Upgrade Upgrade                     // nil: there is nothing to do
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

// Sharing is a Handler that keeps a part of its room for each topic.
type Sharing interface {
	// Parts is asked when Ready has said no. Where room is all that is missing, it says
	// for each topic up to how many of its records may be pending all the same, which
	// the topic's partitions share evenly; nil: of no topic any. It is not to be changed.
	Parts() map[string]int
}

// Limits of one poll. Bounded, so that a lane overshoots its own limits only
// by this much and a rebalance never waits long.
const (
	maxPollRecords = 2000
	maxPollWait    = time.Second
	retryEvery     = 20 * time.Millisecond // how soon a full lane, or a partition that is paused for a short time, is asked again
	reloadEvery    = time.Second           // how soon a ledger that could not be read is tried again
	restAfterError = 5 * time.Second       // how soon a partition that can't be fetched is tried again
)

// Source is one lane's membership in its consumer group.
//
// Run is called once. Its goroutine is the poll loop: it alone polls, offers records,
// tells the handler of assignments and has partitions read again. The client's goroutine
// opens and ends assignments as the group says, between two polls only. All other
// exported methods may be called from any goroutine; those with a context wait for a
// broker.
type Source struct {
	cfg     Config
	handler Handler // from Run on; changed by the poll loop while it holds the group
	now     atomic.Pointer[Subscription]
	client  *kgo.Client
	end     context.CancelFunc // ends the client, whatever it waits for
	admin   *kadm.Client
	own     *cluster.Commits // of the lane's group
	log     *slog.Logger

	// The poll loop's own.
	ready       bool          // the handler was ready after the last poll
	staleTopics []string      // topics the client does not read any more: it knows them by an id that is gone
	former      *Subscription // the client still has its topics; nil: it has those of now
	sharedAnew  bool          // the group was asked for a rebalance, once: shareAnew

	pending    atomic.Int64 // records tracked and not confirmed, of all partitions
	closing    sync.Once
	marking    sync.Mutex // held while partitions become loaded, which begin together
	fenced     fenced
	leaving    leaving
	joined     atomic.Bool // the group has assigned us something, be it nothing
	placed     atomic.Bool // since then the ledgers of all partitions were read once
	lease      *lease.Lease
	generation atomic.Pointer[generation] // the last one that GroupMembers saw; nil: none
	other      *otherLane
	sheds      atomic.Int64  // how often records were given back
	endsWanted chan struct{} // has one once the status is asked for
	unknownID  atomic.Bool   // a commit was refused because no topic has the id
	soon       chan struct{} // a commit is to be made now
	portion    share
	latest     atomic.Pointer[latest] // nil: nothing was looked for
	suspending chan *suspension
	conditions cluster.Conditions

	mu    sync.Mutex
	parts map[topicPartition]*Partition // assigned to us now
	left  map[topicPartition]ack.Ledger // what those had that were, should the brokers drop them with their topic

	// commits serialises snapshot and commit: two at once could send the
	// older snapshot last.
	commits sync.Mutex
}

type topicPartition struct {
	topic string
	id    int32
}

// New connects to nothing yet: an error is one of configuration.
func New(cfg Config) (*Source, error) {
	if cfg.CommitEvery == 0 {
		cfg.CommitEvery = time.Second
	}
	if cfg.ReleaseTimeout == 0 {
		cfg.ReleaseTimeout = releaseTimeout
	}
	if cfg.MetadataMaxAge == 0 {
		cfg.MetadataMaxAge = time.Minute
	}
	if cfg.FetchMaxWait == 0 {
		cfg.FetchMaxWait = 500 * time.Millisecond
	}
	if cfg.Connection.Fetched <= 0 {
		cfg.Connection.Fetched = cluster.DefaultFetched
	}
	if cfg.Pending == nil {
		cfg.Pending = memory.New(0)
	}
	s := &Source{cfg: cfg, parts: map[topicPartition]*Partition{}, left: map[topicPartition]ack.Ledger{}, log: cfg.Log.With("group", cfg.Group), lease: lease.New(), other: &otherLane{group: cfg.Other, ids: map[string]ack.TopicID{}, wanted: make(chan struct{}, 1)}, endsWanted: make(chan struct{}, 1), soon: make(chan struct{}, 1), suspending: make(chan *suspension)}
	s.now.Store(&cfg.Subscription)
	life, end := context.WithCancel(context.Background())
	s.end = end
	opts := []kgo.Opt{
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
		kgo.FetchMaxWait(cfg.FetchMaxWait),
		kgo.MetadataMaxAge(cfg.MetadataMaxAge), kgo.MetadataMinAge(time.Second),
		kgo.Balancers(s.balancer()),
		kgo.OnPartitionsAssigned(s.assigned),
		kgo.OnOffsetsFetched(s.offsetsFetched),
		kgo.AdjustFetchOffsetsFn(s.startOffsets),
		kgo.OnPartitionsRevoked(s.revoked),
		kgo.OnPartitionsLost(s.lost),
		kgo.WithHooks(append(cluster.ClientMetrics(cfg.Metrics, cfg.Group), &s.conditions, &s.fenced)...),
		kgo.WithLogger(cluster.ClientLog{Logger: cfg.Log}),
	}
	if cfg.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(cfg.InstanceID))
	}
	var err error
	if s.client, err = cfg.Connection.NewClient(opts...); err != nil {
		end()
		return nil, err
	}
	s.admin = kadm.NewClient(s.client)
	s.own, s.other.commits = cluster.NewCommits(s.client, cfg.Group), cluster.NewCommits(s.client, cfg.Other)
	return s, nil
}

// Run hands records to the handler until ctx ends, then commits what is confirmed and
// leaves the group. It returns once everything it started has ended. An error says that
// another process has taken this one's place in the group.
func (s *Source) Run(ctx context.Context, handler Handler) error {
	s.handler = handler
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s.fenced.stop.Store(&stop)
	topics := s.now.Load().Topics
	s.lookBeforeJoining(ctx, topics)
	s.client.AddConsumeTopics(topics...)
	defer s.stayMember(ctx)()
	var beside sync.WaitGroup
	beside.Go(func() { s.commitRegularly(ctx) })
	if s.cfg.Other != "" {
		beside.Go(func() { s.followOther(ctx) })
	}
	beside.Go(func() { s.watchEnds(ctx) })
	beside.Go(func() { s.countPartitions(ctx) })
	for ctx.Err() == nil {
		s.pollOnce(ctx)
	}
	beside.Wait()
	s.Close() //nolint:contextcheck // ctx has ended; leaving has a time of its own
	return s.fencedError()
}

// pollOnce takes one poll's records to the handler. Polling holds the group
// still until AllowRebalance, so that partitions can't change hands meanwhile.
func (s *Source) pollOnce(ctx context.Context) {
	s.resubscribe(ctx)
	starts := s.reload(ctx)
	wait := max(maxPollWait, s.cfg.LookEvery)
	if s.goesOnSoon() {
		wait = retryEvery
	}
	if !s.ready {
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
	if ctx.Err() != nil || s.suspended(ctx) { // what was polled is polled again
		return
	}
	s.beginLoaded()
	s.offerBacklog()
	fetches.EachError(func(topic string, id int32, err error) { s.fetchError(ctx, topic, id, err) })
	// Records of a partition whose ledger is being read are polled again after beginRenewed.
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if p := s.partition(f.Topic, f.Partition); p != nil && len(f.Records) > 0 && p.in(reading) {
			if s.cfg.Keeps {
				p.beside = memory.SizeOfAll(f.Records)
			}
			s.offer(p, f.Records)
		}
	})
	s.beginRenewed(starts)
	if !s.placed.Load() && s.Joined() {
		s.placed.Store(true)
	}
	s.startOver(ctx)
	s.shareAnew()
	s.shed()
	s.applyPauses()
	s.findRoom()
}

// findRoom asks for which partitions the handler has room.
func (s *Source) findRoom() {
	s.ready = s.handler.Ready()
	ps, of, parts := s.Partitions(), map[string]int{}, map[string]int(nil)
	if sharing, ok := s.handler.(Sharing); ok && !s.ready {
		parts = sharing.Parts()
		for _, p := range ps {
			of[p.Topic]++
		}
	}
	for _, p := range ps {
		p.full = parts != nil && p.underWay() >= max(1, parts[p.Topic]/of[p.Topic])
		s.ready = s.ready || parts != nil && !p.full
	}
}

// offer hands records to the handler and keeps what it did not take.
func (s *Source) offer(p *Partition, records []*Record) {
	p.polledTo(records[len(records)-1])
	if len(p.backlog) > 0 || p.full || p.withheld() != 0 {
		p.setBacklog(append(p.backlog, records...))
		return
	}
	data := withoutControl(records)
	taken := len(data)
	if taken > 0 {
		taken = s.handler.Records(p, data)
	}
	switch {
	case taken == len(data):
		p.takenTo(records[len(records)-1].Offset + 1)
		p.setBacklog(nil)
	default:
		p.takenTo(data[taken].Offset)
		p.setBacklog(records[slices.Index(records, data[taken]):])
	}
}

func (s *Source) offerBacklog() {
	for _, p := range s.Partitions() {
		if len(p.backlog) > 0 && !p.full && p.in(reading) && p.withheld() == 0 {
			records := p.backlog
			p.backlog = nil // offer says what is left of it
			s.offer(p, records)
			s.findRoom()
		}
	}
}

// withoutControl leaves out the marks that end transactions. They are polled
// only so that a partition can be confirmed up to its end.
func withoutControl(records []*Record) []*Record {
	if !slices.ContainsFunc(records, isControl) {
		return records
	}
	return slices.DeleteFunc(slices.Clone(records), isControl)
}

func isControl(r *Record) bool { return r.Attrs.IsControl() }

func (s *Source) partition(topic string, id int32) *Partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts[topicPartition{topic, id}]
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

// Pending is the number of records on their way one by one, over all partitions.
func (s *Source) Pending() int64 { return s.pending.Load() }

// Joined reports whether this member has its place in the group and has read
// the ledgers of its partitions.
func (s *Source) Joined() bool {
	if !s.joined.Load() {
		return false
	}
	for _, p := range s.Partitions() {
		if !p.in(reading) {
			return false
		}
	}
	return true
}

// Conditions are what the lane waits for at Kafka, in the order of topics.
func (s *Source) Conditions() []cluster.Condition {
	return s.conditions.All(s.Joined(), s.cfg.Group, s.cfg.Topics, s.cfg.SessionTimeout)
}

// HasPlace reports whether Joined has been true, and the place in the group was not lost
// since: partitions that are begun anew, as those of another subscription are, change
// nothing of it.
func (s *Source) HasPlace() bool { return s.joined.Load() && s.placed.Load() || s.Joined() }
