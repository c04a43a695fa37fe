package connector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/decode"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/tracing"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Options are what a command decides, not the configuration file.
type Options struct {
	Lanes   []schemas.Lane // none: both
	Log     *slog.Logger
	Levels  admin.Levels // of Log, for whoever operates the sink; nil: it stays as it is
	Version string
	Rand    *rand.Rand // chance for jitter; nil: seeded from the system
	// Wall is what the machine's clock shows, which says by which day imports count;
	// nil: time.Now. It may be moved while the sink runs.
	Wall func() time.Time
	// CommitEvery is how often offsets are committed; 0: once a second.
	CommitEvery time.Duration
	// MetadataMaxAge is how long a partition that is added may go unnoticed; 0: a
	// minute.
	MetadataMaxAge time.Duration
	// FirstPoll is when a running execution is first asked for its result; 0:
	// after two seconds.
	FirstPoll time.Duration
	// ApartAfter is how long a partition that is halted, or waits for the other lane's
	// routes, holds up an import of its table that is to be reconciled; 0: a minute.
	ApartAfter time.Duration
}

func (o Options) firstPoll() time.Duration {
	if o.FirstPoll == 0 {
		return build.FirstPoll
	}
	return o.FirstPoll
}

// Sink is the running connector. New builds it, Run runs it once.
type Sink struct {
	cfg      *config.Config
	opts     Options
	log      *slog.Logger
	started  time.Time
	registry *prometheus.Registry
	metrics  *metrics
	recent   *recentHistory
	tracer   *tracing.Tracer // nil: tracing is off
	imports  *importSpans    // nil: likewise

	router         *router.Router
	writers        *schemas.Registry // nil: no format needs one
	client         *service.Client
	post           *deadletter.Post // nil: no dead-letter topic
	calls          *calls.Lane      // nil: this process does not run the lane
	files          *batcher.Batcher // nil: likewise
	pacing         *pacing          // nil: likewise
	parents        *parents         // nil: likewise
	missing        *missing         // nil: this process does not run the immediate lane
	service        calls.Service
	reconcileCalls *calls.Lane // nil: likewise, or no mapping uses both lanes
	peer           *peer       // nil: likewise
	lanes          []*lane
	pending        *kafka.Memory // of all lanes
	admin          *admin.Server

	breakerCause atomic.Pointer[string] // what opened it last; nil: nothing has

	closers []closer // what New opened, in that order
}

// closer is something to be ended by name.
type closer struct {
	name  string
	close func()
}

// New assembles a sink. An error is one of configuration or of this machine
// (a port, a directory, a file); nothing is sent or consumed yet.
func New(cfg *config.Config, opts Options) (_ *Sink, err error) {
	s := &Sink{
		cfg: cfg, opts: opts, log: opts.Log, started: time.Now(), registry: prometheus.NewRegistry(),
		pending: kafka.NewMemory(int64(cfg.Memory.Pending)),
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if len(s.opts.Lanes) == 0 {
		s.opts.Lanes = []schemas.Lane{schemas.Immediate, schemas.Batch}
	}
	if s.opts.Rand == nil {
		s.opts.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	s.metrics, s.recent = newMetrics(s.registry), newRecentHistory()
	var problems []router.Problem
	if s.router, problems = router.Compile(cfg.Mappings); len(problems) > 0 {
		return nil, fmt.Errorf("%s: %s", problems[0].Path, problems[0].Message)
	}
	for _, step := range []func() error{s.openTracing, s.openClient, s.openPost, s.openRegistry, s.openLanes, s.openAdmin} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	s.metrics.begin(s.router.Mappings(), s.opts.Lanes)
	s.registry.MustRegister(collector{s}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return s, nil
}

func (s *Sink) openClient() (err error) {
	if s.client, err = build.ServiceWith(s.cfg.Service, s.log, s.tracer.Transport); err != nil {
		return err
	}
	s.onClose("service connections", s.client.Close)
	return nil
}

func (s *Sink) openPost() (err error) {
	if s.cfg.DLQ.Topic == "" {
		return nil
	}
	if s.post, err = build.NewDeadLetters(s.cfg, s.log); err != nil {
		return err
	}
	s.onClose("dead-letter producer", s.post.Close)
	return nil
}

// openRegistry prepares for schemas to be fetched. Nothing is asked before the
// first record needs one.
func (s *Sink) openRegistry() (err error) {
	s.writers, err = build.NewRegistry(s.cfg, s.newRand(), schemas.RegistryConfig{
		Asked: func(outcome string) { s.metrics.schemas.WithLabelValues(outcome).Inc() },
		Log:   s.log,
	})
	if s.writers != nil {
		s.onClose("schema registry", s.writers.Close)
	}
	return err
}

func (s *Sink) openAdmin() (err error) {
	webhook := s.cfg.Admin.Webhook
	guard, err := build.AdminAccess(s.cfg.Admin, s.log)
	if err != nil {
		return err
	}
	members := admin.Members{Address: webhook.Members, Certificate: guard.Certificate, Log: s.log}
	parts := []admin.Part{admin.Imports(importsAPI{s}), admin.Executions(webhook.Header, build.Reveal(webhook.Secret()), service.ExecutionID, s.hint, members)}
	if s.opts.Levels != nil {
		parts = append(parts, admin.LogLevel(s.opts.Levels, s.log))
	}
	if s.cfg.Admin.PProf {
		parts = append(parts, admin.Profiles())
	}
	s.admin, err = admin.Listen(s.cfg.Admin.Listen, guard, s, s.registry, s.log, parts...)
	if err != nil {
		return err
	}
	s.onClose("admin server", s.admin.Close)
	return nil
}

// hint has an execution looked at now instead of at the next poll.
func (s *Sink) hint(execution string) {
	if s.files != nil {
		s.files.Hint(execution)
	}
}

// AdminAddress is host:port of the admin server.
func (s *Sink) AdminAddress() string { return s.admin.Address() }

func (s *Sink) onClose(name string, f func()) { s.closers = append(s.closers, closer{name, f}) }

// close ends what New opened, last in first out.
func (s *Sink) close() {
	for len(s.closers) > 0 {
		last := s.closers[len(s.closers)-1]
		s.closers = s.closers[:len(s.closers)-1]
		s.log.Debug("closing", "what", last.name)
		last.close()
	}
}

// Run consumes, delivers and commits until ctx ends. Then it stops polling,
// lets the calls in flight finish, commits, leaves the groups, and returns
// once everything has ended. An error means that the sink could not go on.
func (s *Sink) Run(ctx context.Context) error {
	defer s.close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// Deliveries outlive the sources: a source's last act is to wait for the
	// calls in flight and to commit what they confirmed. The admin server and
	// the token outlive both.
	delivering, stopDelivering := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDelivering()

	watched := newGroup(stop)
	watched.start("admin server", func() error { return s.admin.Run(delivering) })
	watched.start("first token", func() error {
		s.firstToken(delivering)
		return nil
	})
	if s.calls != nil {
		watched.start("immediate lane", func() error { return s.calls.Run(delivering) })
	}
	if s.missing != nil {
		watched.start("patches of nothing", func() error { return s.missing.run(delivering) })
	}
	if s.reconcileCalls != nil {
		watched.start("settling calls", func() error { return s.reconcileCalls.Run(delivering) })
	}
	if s.files != nil {
		watched.start("batcher", func() error { return s.files.Run(delivering) })
	}
	sources := newGroup(stop)
	for _, l := range s.lanes {
		sources.start("source of the "+l.which.String()+" lane", func() error { return l.source.Run(ctx) })
	}
	s.log.Info("feedsink is running", "version", s.opts.Version, "lanes", len(s.lanes),
		"mappings", len(s.router.Mappings()), "admin", s.AdminAddress())
	err := sources.wait()
	stopDelivering()
	err = errors.Join(err, watched.wait())
	s.log.Info("feedsink has stopped")
	return err
}

// firstToken gets the first token, so that a wrong key shows on /readyz before
// there is anything to send. Later ones are fetched by the calls that need them.
func (s *Sink) firstToken(ctx context.Context) {
	backoff, chance := retry.Backoff{Initial: s.cfg.Retry.Initial, Max: s.cfg.Retry.Max}, s.newRand()
	for tries := 1; ; tries++ {
		err := s.client.Authenticate(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		var after time.Duration // before that, no request is made
		if e, ok := errors.AsType[*service.Error](err); ok {
			after = e.RetryAfter()
		}
		wait := backoff.Next(tries, after, chance.Float64)
		s.log.Warn("no token yet; trying again", "tries", tries, "wait", wait, "error", err)
		if retry.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// group is the consumer group of a lane.
func (s *Sink) group(which schemas.Lane) string { return s.cfg.Kafka.Group + "-" + which.String() }

func otherLane(l schemas.Lane) schemas.Lane {
	if l == schemas.Immediate {
		return schemas.Batch
	}
	return schemas.Immediate
}

// openLanes builds the lanes this process runs, each only if some mapping uses
// it.
func (s *Sink) openLanes() (err error) {
	for _, which := range s.opts.Lanes {
		topics := s.router.Topics(which)
		if len(topics) == 0 {
			continue
		}
		followed := shared(s.router.Mappings())
		l := &lane{
			which: which, post: s.post,
			metrics: s.metrics, recent: s.recent, log: s.log.With("lane", which.String()),
			tracing: s.lineage(which),
		}
		read := func() decode.Reader { return decode.NewReader(s.router, s.writers) }
		l.Reader = read()
		l.floods = newFloods(l, s.cfg.DLQ, s.router.Mappings())
		cfg := kafka.Config{
			Connection:     s.brokers(),
			Group:          s.group(which),
			Topics:         topics,
			FromEnd:        s.cfg.Kafka.StartAt == "latest",
			SessionTimeout: s.cfg.Kafka.SessionTimeout,
			ReleaseTimeout: releaseTime(s.cfg.Service.Timeout),
			CommitEvery:    s.opts.CommitEvery,
			MetadataMaxAge: s.opts.MetadataMaxAge,
			Upgrade:        func(topic string, l *ack.Ledger) { upgrade(s.router.Mappings(), topic, l) },
			Pending:        s.pending,
			Log:            s.log,
			Metrics:        s.registry,
		}
		cfg.Other, cfg.TopicOf = s.group(otherLane(which)), s.topicRoutes(which, followed)
		if which == schemas.Immediate {
			cfg.Ended, cfg.Grace = s.executionEnded, s.cfg.Service.Timeout
			s.openCalls(l)
			s.missing, l.floods.calls = newMissing(l, s.writers), s.calls
		} else {
			cfg.TableOf, cfg.Filed = tablesOf(s.router.Mappings())
			if err := s.openFiles(l); err != nil {
				return err
			}
			files := &fileDelivery{lane: l, files: s.files, peer: s.peer, shared: followed, halted: make([]string, len(s.router.Mappings())), tables: ledgerTables(s.router.Mappings())}
			l.delivery = files
			if l.ahead, err = newAhead(files, read); err != nil {
				return err
			}
		}
		if l.source, err = kafka.New(cfg, l); err != nil {
			return fmt.Errorf("kafka: %w", err)
		}
		s.onClose("source of the "+which.String()+" lane", l.source.Close)
		if which == schemas.Batch {
			s.pacing.source, s.parents.source, s.peer.source = l.source, l.source, l.source
		}
		s.lanes = append(s.lanes, l)
	}
	if len(s.lanes) == 0 {
		return fmt.Errorf("no mapping uses the lanes asked for: %v", s.opts.Lanes)
	}
	return nil
}

// newRand gives each room its own source of chance: none of them shares one
// between goroutines of different owners.
func (s *Sink) newRand() *rand.Rand {
	return rand.New(rand.NewPCG(s.opts.Rand.Uint64(), s.opts.Rand.Uint64()))
}

func (s *Sink) openFiles(l *lane) error {
	zones := map[string]*time.Location{}
	s.pacing = &pacing{tables: map[string]tableSlots{}, clock: clock{wall: s.opts.Wall, log: s.log}}
	s.parents = newParents(s.router.Mappings(), s.group(schemas.Immediate))
	s.peer = &peer{topics: mappingTopics(s.router.Mappings())}
	if len(s.peer.topics) > 0 {
		pace := build.Pace(s.cfg)
		pace.MayCall, pace.Share, pace.Service = l.leased, l.share(eitherRate(s.router.Mappings())), &s.service
		s.reconcileCalls = calls.New(pace, s.caller(), observer{s}, s.newRand())
		s.peer.calls = s.reconcileCalls
	}
	var mappings []batcher.Mapping
	for _, m := range filed(s.router.Mappings()) {
		zone, err := time.LoadLocation(m.Config.Imports.Timezone)
		if err != nil {
			return fmt.Errorf("mapping %s: imports.timezone: %w", m.Name, err)
		}
		mapping := build.BatchMapping(m)
		mapping.Zone = zone
		mappings = append(mappings, mapping)
		for _, load := range mappings[len(mappings)-1].Loads {
			zones[load.ETL] = zone
		}
		im := m.Config.Imports
		s.pacing.tables[m.Name] = tableSlots{
			Slots: batcher.Slots{PerDay: im.SlotsPerDay, Reserve: im.Reserve, Zone: zone, Every: im.Roll.Age},
			table: m.Table.Qualified(), label: m.Label, slotTopic: m.Config.Topics[0],
		}
	}
	var err error
	s.files, err = batcher.New(batcher.Config{
		Dir:         s.cfg.Spool.Dir,
		MaxBytes:    int64(s.cfg.Spool.MaxBytes),
		MaxFollowed: int64(s.cfg.Memory.Pending),
		Poll:        retry.Backoff{Initial: s.opts.firstPoll(), Max: build.SlowestPoll},
		Retry:       retry.Backoff{Initial: s.cfg.Retry.Initial, Max: s.cfg.Retry.Max},
		Grace:       s.cfg.Service.Timeout,
		Gate:        heldGate{s.pacing, &s.service},
		Parents:     s.parents,
		Peer:        s.peer,
		ApartAfter:  s.opts.ApartAfter,
		Records:     records{l, newCreateRows(s.client, &s.service, s.cfg, l.share(eitherRate(s.router.Mappings())), s.newRand()), s.writers},
		Floods:      l.floods,
		Log:         s.log,
	}, mappings, importer{s.client, &s.service, zones, l.leased, l.tracing}, ledger{l, s.pacing}, observer{s}, s.newRand())
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	s.onClose("spool", func() {
		if err := s.files.Close(); err != nil {
			s.log.Warn("closing the spool", "error", err)
		}
	})
	return nil
}

// observer counts what the lanes do.
type observer struct{ s *Sink }

func (o observer) Called(a calls.Attempt) {
	o.s.metrics.call(a.Mapping, a.Op, a.Took)
	switch {
	case a.Repeat && a.Outcome == calls.Rejected:
		o.s.metrics.repeated(a.Mapping, a.Op.String(), "repeat_refused")
		o.s.log.Warn("a key's newest state was sent again, since an older call may have landed late, and was refused; nothing waits for it",
			"mapping", a.Mapping, "op", a.Op, "error", a.Err)
	case a.Repeat && (a.Outcome == calls.Applied || a.Outcome == calls.AbsentAlready):
		o.s.metrics.repeated(a.Mapping, a.Op.String(), "repeated")
	case a.Outcome == calls.Retried:
		o.s.metrics.writes.WithLabelValues(a.Mapping, schemas.Immediate.String(), a.Op.String(), a.Outcome.String()).Add(float64(a.Writes))
	}
}

func (o observer) NotRepeated(mapping string) { o.s.metrics.repeated(mapping, "", "not_repeated") }

func (o observer) BreakerTurned(of schemas.Table, to calls.BreakerState, cause error) {
	switch to {
	case calls.Open:
		if cause != nil {
			text := cause.Error()
			o.s.breakerCause.Store(&text)
		}
		o.s.log.Warn("calls for the table fail; they pause, and one is tried from time to time",
			"table", router.LabelOf(o.s.router.Mappings(), of), "openFor", o.s.cfg.Service.Breaker.OpenFor, "cause", cause)
	case calls.Closed:
		o.s.log.Info("calls for the table are answered again and go on", "table", router.LabelOf(o.s.router.Mappings(), of))
	case calls.HalfOpen:
		o.s.log.Debug("trying a call for the table", "table", router.LabelOf(o.s.router.Mappings(), of))
	}
}

func (o observer) ImportEnded(imp batcher.Import, r batcher.Results, took time.Duration) {
	o.s.imports.ended(imp, r)
	for _, load := range imp.Loads() {
		if imp.Members == nil { // of a bundle the counters are of all together
			load.InError = r.InError
		}
		o.s.metrics.imports.WithLabelValues(load.Mapping, imp.Mode, string(r.Status)).Inc()
		o.s.metrics.importTime.WithLabelValues(load.Mapping).Observe(took.Seconds())
		o.s.recent.imported(imp, load, string(r.Status), took)
		if r.Status == batcher.Finished {
			lane, op, rejected := schemas.Batch.String(), imp.Op.String(), max(load.InError, 0)
			o.s.metrics.writes.WithLabelValues(load.Mapping, lane, op, "applied").Add(float64(max(load.Rows-rejected, 0)))
			o.s.metrics.writes.WithLabelValues(load.Mapping, lane, op, "rejected").Add(float64(rejected))
		}
	}
}

func (o observer) RowsUnmatched(imp batcher.Import, rows int64) {
	o.s.metrics.unmatched.WithLabelValues(imp.Mapping).Add(float64(rows))
}

// group owns goroutines that must all run: the first that fails stops the
// sink. wait returns once all have ended.
type group struct {
	stop func()
	work sync.WaitGroup

	mu   sync.Mutex
	errs []error
}

func newGroup(stop func()) *group { return &group{stop: stop} }

func (g *group) start(name string, run func() error) {
	g.work.Go(func() {
		if err := run(); err != nil {
			g.mu.Lock()
			g.errs = append(g.errs, fmt.Errorf("%s: %w", name, err))
			g.mu.Unlock()
			g.stop()
		}
	})
}

func (g *group) wait() error {
	g.work.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return errors.Join(g.errs...)
}
