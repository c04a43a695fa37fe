package connector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/clock"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/decode"
	"github.com/feedsink/feedsink/connector/flood"
	"github.com/feedsink/feedsink/connector/imports"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/kafka/memory"
	"github.com/feedsink/feedsink/connector/members"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/pacing"
	"github.com/feedsink/feedsink/connector/receipt"
	"github.com/feedsink/feedsink/connector/reload"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/tables"
	"github.com/feedsink/feedsink/connector/token"
	"github.com/feedsink/feedsink/connector/tracing"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/check"
	"github.com/feedsink/feedsink/schemas"
)

// Options are what a command decides, not the configuration file.
type Options struct {
	Lanes  []schemas.Lane // none: both
	Log    *slog.Logger
	Levels admin.Levels // of Log, to be changed through the admin server; nil: it stays as it is
	// Load reads the configuration again, for Reload; nil: it stays as it is. Its error is
	// for who changed it.
	Load    func() (*config.Config, error)
	Version string
	Commit  string     // of the source that it was built from
	Rand    *rand.Rand // for jitter; nil: seeded from the system
	// Wall is what the machine's clock shows, which says by which day imports count;
	// nil: time.Now. It may be moved while the sink runs.
	Wall func() time.Time
	// CommitEvery is how often offsets are committed; 0: once a second.
	CommitEvery time.Duration
	// MetadataMaxAge is how long a partition that is added may go unnoticed; 0: a
	// minute.
	MetadataMaxAge time.Duration
	// FetchMaxWait is how long a broker may wait for records before it answers; 0:
	// half a second.
	FetchMaxWait time.Duration
	// LookEvery is how often, at most, the sink looks at what sends no notice: pauses, the
	// other lane's commits, other members, waits, its place in the groups; 0: each has a
	// time of its own, of seconds.
	LookEvery time.Duration
	// FirstPoll is when a running execution is first asked for its result; 0:
	// after two seconds.
	FirstPoll time.Duration
	// ApartAfter is how long a partition that is halted, or waits for the other lane's
	// routes, holds up an import of its table that is to be reconciled; 0: a minute.
	ApartAfter time.Duration
	// Dial opens connections to the brokers, unless by TLS, to the service, the schema registry and other members;
	// nil: net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Listen opens the admin server's address; nil: net.Listen.
	Listen func(network, address string) (net.Listener, error)
}

func (o Options) firstPoll() time.Duration {
	if o.FirstPoll == 0 {
		return build.FirstPoll
	}
	return o.FirstPoll
}

// Sink is the running connector. New builds it, Run runs it once. It lasts as long as the
// process; what follows from the configuration is its pipeline, which Reload replaces.
type Sink struct {
	*process
	admin   *admin.Server
	peers   *admin.Peers
	current atomic.Pointer[pipeline]
	reloads chan chan<- reload.Result // asked for while the sink runs
	last    *reload.Last
}

// process is what stays when the configuration changes: the places in the consumer
// groups, and what was counted.
type process struct {
	opts     Options
	log      *slog.Logger
	started  time.Time
	registry *prometheus.Registry
	metrics  *observe.Metrics
	recent   *observe.History
	hour     *observe.Hour
	unread   *decode.Unread
	tracer   *tracing.Tracer // nil: tracing is off
	pauses   pauses
	pending  *memory.Memory // of all lanes
	clock    *clock.Clock   // it remembers that it was moved
	sources  map[schemas.Lane]*kafka.Source
	others   *members.Others
	arrivals *pacing.Arrivals // nil: this process does not run the batch lane
	closers  closers

	stopping atomic.Pointer[time.Time] // until when calls in flight may take to end; nil: it goes on
	left     sync.Map                  // lanes that have left their groups, as it stops
}

// pipeline is all that follows from one configuration. It is built, started and stopped
// once, while the sources of its lanes stand still.
type pipeline struct {
	*process
	cfg   *config.Config
	spans *tracing.Imports // nil: tracing is off

	router   *router.Router
	tables   map[string]schemas.Table // by mapping
	writers  *schemas.Registry        // nil: no format needs one
	client   *service.Client
	token    *token.First
	post     *deadletter.Post // nil: no dead-letter topic
	receipts *receipt.Book    // nil: no receipts topic
	service  calls.Service
	calls    *calls.Lane      // nil: this process does not run the immediate lane
	missing  *missing         // nil: the same
	files    *batcher.Batcher // nil: this process does not run the batch lane
	pacing   *pacing.Pacer    // nil: the same
	peer     *imports.Peer    // nil: the same
	rows     *rowCalls        // nil: the same, or no row may be called
	lanes    []*lane

	breakerCause  atomic.Pointer[string] // what opened a breaker last; nil: nothing has
	breakerCauses sync.Map               // by table, what opened its own last: texts
	failing       sync.Map               // tables whose breaker has opened and not closed since

	closers closers
}

// closers are what was opened, to be ended by name.
type closers []struct {
	name  string
	close func()
}

func (c *closers) add(name string, f func()) {
	*c = append(*c, struct {
		name  string
		close func()
	}{name, f})
}

// close ends what was opened, last in first out.
func (c *closers) close(log *slog.Logger) {
	for len(*c) > 0 {
		last := (*c)[len(*c)-1]
		*c = (*c)[:len(*c)-1]
		log.Debug("closing", "what", last.name)
		last.close()
	}
}

// New assembles a sink. An error is one of configuration or of this machine
// (a port, a directory, a file); nothing is sent or consumed yet.
func New(cfg *config.Config, opts Options) (_ *Sink, err error) {
	if len(opts.Lanes) == 0 {
		opts.Lanes = schemas.Lanes
	}
	if opts.Rand == nil {
		opts.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	registry := prometheus.NewRegistry()
	s := &Sink{
		process: &process{
			opts: opts, log: opts.Log, started: time.Now(), registry: registry,
			metrics: observe.NewMetrics(registry), recent: observe.NewHistory(),
			pending: memory.New(int64(cfg.Memory.Pending)), clock: clock.New(opts.Wall, opts.Log), sources: map[schemas.Lane]*kafka.Source{},
		},
		reloads: make(chan chan<- reload.Result), last: reload.NewLast(registry),
	}
	s.others = members.New(cfg.Kafka.SessionTimeout, s.sources, s.log)
	s.hour, s.unread = observe.NewHour(s.metrics), decode.NewUnread(s.log, s.metrics.FieldsUnread)
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err := s.openTracing(cfg.Tracing); err != nil {
		return nil, err
	}
	first, err := s.assemble(cfg)
	if err != nil {
		return nil, err
	}
	s.current.Store(first)
	if err := s.openAdmin(cfg.Admin); err != nil {
		return nil, err
	}
	s.registry.MustRegister(collector{s}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return s, nil
}

func (p *process) openTracing(cfg config.Tracing) (err error) {
	p.tracer, err = tracing.New(context.Background(), tracing.Config{
		Endpoint: cfg.Endpoint, SampleRatio: cfg.SampleRatio, Version: p.opts.Version, Log: p.log,
	})
	if p.tracer != nil {
		p.closers.add("tracing", p.tracer.Close)
	}
	return err
}

// now is the pipeline of the configuration that is in use.
func (s *Sink) now() *pipeline { return s.current.Load() }

func (s *Sink) close() {
	if p := s.now(); p != nil {
		p.closers.close(s.log)
	}
	s.closers.close(s.log)
}

// assemble builds the pipeline of a configuration. The sources of its lanes are there, or
// it is the first.
func (p *process) assemble(cfg *config.Config) (_ *pipeline, err error) {
	s := &pipeline{process: p, cfg: cfg, tables: map[string]schemas.Table{}}
	defer func() {
		if err != nil {
			s.closers.close(p.log)
		}
	}()
	if s.router, err = compile(cfg); err != nil {
		return nil, err
	}
	for _, m := range s.router.Mappings() {
		s.tables[m.Name] = m.Table
	}
	s.spans = tracing.NewImports(s.tracer, s.router.Mappings())
	s.closers.add("spans of imports", s.spans.Close)
	for _, step := range []func() error{s.openClient, s.openPost, s.openReceipts, s.openRegistry, s.openLanes} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	s.metrics.Begin(s.router.Mappings(), s.opts.Lanes)
	s.hour.Keep(s.router.Mappings(), s.opts.Lanes)
	return s, nil
}

func compile(cfg *config.Config) (*router.Router, error) {
	compiled, problems := check.Compile(cfg.Mappings)
	if len(problems) > 0 {
		return nil, fmt.Errorf("%s: %s", problems[0].Path, problems[0].Message)
	}
	return compiled, nil
}

func (s *pipeline) openClient() (err error) {
	if s.client, err = build.ServiceWith(s.cfg.Service, s.log, s.tracer.Transport, s.opts.Dial); err != nil {
		return err
	}
	s.token = &token.First{Client: s.client, Backoff: retry.Backoff{Initial: s.cfg.Retry.Initial, Max: s.cfg.Retry.Max}, Random: s.newRand().Float64, Log: s.log}
	s.closers.add("service connections", s.client.Close)
	return nil
}

func (s *pipeline) openPost() (err error) {
	if s.cfg.DLQ.Topic == "" {
		return nil
	}
	if s.post, err = build.NewDeadLetters(s.cfg, s.brokers(), s.log); err != nil {
		return err
	}
	s.closers.add("dead-letter producer", s.post.Close)
	return nil
}

func (s *pipeline) openReceipts() (err error) {
	if s.receipts, err = build.NewReceipts(s.cfg, s.brokers(), s.newRand(), s.log); err != nil || s.receipts == nil {
		return err
	}
	s.closers.add("receipts producer", s.receipts.Close)
	return nil
}

// openRegistry prepares for schemas to be fetched. Nothing is asked before the
// first record needs one.
func (s *pipeline) openRegistry() (err error) {
	s.writers, err = build.NewRegistry(s.cfg, s.newRand(), s.opts.Dial, schemas.RegistryConfig{
		Asked: s.metrics.SchemaAsked,
		Log:   s.log,
	})
	if s.writers != nil {
		s.closers.add("schema registry", s.writers.Close)
	}
	return err
}

func (s *Sink) openAdmin(cfg config.Admin) error {
	webhook := cfg.Webhook
	guard, err := build.AdminAccess(cfg, s.log)
	if err != nil {
		return err
	}
	guard.Listen = s.opts.Listen
	known := admin.Members{Address: webhook.Members, Certificate: guard.Certificate, Log: s.log, Dial: s.opts.Dial}
	parts := []admin.Part{
		admin.Imports(importsAPI{s}), admin.Mappings(mappingsAPI{s}), admin.Executions(webhook.Header, build.Reveal(config.SecretFile(webhook.SecretFile)), service.Ended, s.hint, known),
		known.Tables(guard), admin.OwnMembership(s.membership), admin.History(s.hour.Last),
	}
	if s.opts.Levels != nil {
		parts = append(parts, admin.LogLevel(s.opts.Levels, s.log))
	}
	if s.opts.Load != nil {
		parts = append(parts, admin.Reload(s))
	}
	if cfg.PProf {
		parts = append(parts, admin.Profiles())
	}
	if s.admin, err = admin.Listen(cfg.Listen, guard, s, s.registry, s.log, parts...); err != nil {
		return err
	}
	s.closers.add("admin server", s.admin.Close)
	s.peers = known.Peers(guard, s.port())
	return nil
}

// hint has an execution looked at now instead of at the next poll.
func (s *Sink) hint(execution, etl string) {
	if files := s.now().files; files != nil {
		files.Hint(execution, etl)
	}
}

// AdminAddress is host:port of the admin server.
func (s *Sink) AdminAddress() string { return s.admin.Address() }

// group is the consumer group of a lane.
func (s *pipeline) group(which schemas.Lane) string { return which.Group(s.cfg.Kafka.Group) }

// ErrNoLane is of New.
var ErrNoLane = errors.New("no mapping uses the lanes asked for")

// openLanes builds the lanes this process runs, each only if some mapping uses
// it.
func (s *pipeline) openLanes() error {
	for _, which := range s.opts.Lanes {
		if len(s.router.Topics(which)) == 0 {
			if which == schemas.Batch {
				spool.Clear(s.cfg.Spool.Dir, s.log)
			}
			continue
		}
		source, err := s.source(which)
		if err != nil {
			return err
		}
		if which == schemas.Immediate {
			s.lanes = append(s.lanes, s.openCalls(source))
			continue
		}
		files, err := s.openFiles(source)
		if err != nil {
			return err
		}
		s.lanes = append(s.lanes, files)
	}
	if len(s.lanes) == 0 {
		return fmt.Errorf("%w: %v", ErrNoLane, s.opts.Lanes)
	}
	return nil
}

// source is the lane's place in its group: that of the process, which the first pipeline
// takes.
func (s *pipeline) source(which schemas.Lane) (*kafka.Source, error) {
	if source := s.sources[which]; source != nil {
		return source, nil
	}
	source, err := kafka.New(kafka.Config{
		Subscription:   s.subscription(which),
		Connection:     s.brokers(),
		Group:          s.group(which),
		Other:          s.group(which.Other()),
		FromEnd:        s.cfg.Kafka.StartAt == "latest",
		SessionTimeout: s.cfg.Kafka.SessionTimeout,
		InstanceID:     s.cfg.Kafka.InstanceID,
		ReleaseTimeout: releaseTime(s.cfg.Service.Timeout),
		CommitEvery:    s.opts.CommitEvery,
		MetadataMaxAge: s.opts.MetadataMaxAge,
		FetchMaxWait:   s.opts.FetchMaxWait,
		LookEvery:      s.opts.LookEvery,
		Grace:          s.cfg.Service.Timeout,
		Pending:        s.pending,
		Times:          s.clock.Candidates,
		Keeps:          which == schemas.Immediate,
		Log:            s.log,
		Metrics:        s.registry,
	})
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	s.sources[which] = source
	if which == schemas.Batch {
		s.arrivals = pacing.NewArrivals(source, s.log)
	}
	s.process.closers.add("source of the "+which.String()+" lane", source.Close)
	return source, nil
}

// subscription is what the mappings say of the lane's topics.
func (s *pipeline) subscription(which schemas.Lane) kafka.Subscription {
	sub := kafka.Subscription{
		Topics:  s.router.Topics(which),
		TopicOf: tables.Routes(s.router, which),
		Upgrade: func(topic string, l *ack.Ledger) { tables.Upgrade(s.router.Mappings(), topic, l) },
	}
	if which == schemas.Immediate {
		sub.Ended = (&imports.Former{Client: s.client, Known: &s.service, Log: s.log}).Ended
	} else {
		sub.TableOf, sub.Filed = tables.Of(s.router.Mappings())
		sub.Counted = tables.Counted(s.router.Mappings())
	}
	return sub
}

// laneBase is what all parts of a lane need; calls is nil for one that makes none.
func (s *pipeline) laneBase(which schemas.Lane, source *kafka.Source, calls flood.Calls) *laneBase {
	log := s.log.With("lane", which.String())
	return &laneBase{
		which: which, router: s.router, source: source, post: s.post, receipts: s.receipts, metrics: s.metrics, recent: s.recent, log: log, pauses: &s.pauses,
		floods:  flood.New(flood.Lane{Which: which, Source: source, Calls: calls, Log: log}, flood.NewLimits(s.cfg.DLQ), s.router.Mappings()),
		tracing: tracing.Lane{Tracer: s.tracer, Group: s.group(which)}, spans: s.spans, whyNot: func() string { return s.unacknowledgedFor(which) },
	}
}

// reader decodes and routes for one goroutine.
func (s *pipeline) reader() decode.Reader {
	reader := decode.NewReader(s.router, s.writers)
	reader.Unread = s.unread
	return reader
}

// newRand gives each part its own source of randomness: none shares one between
// goroutines of different owners.
func (s *pipeline) newRand() *rand.Rand {
	return rand.New(rand.NewPCG(s.opts.Rand.Uint64(), s.opts.Rand.Uint64()))
}

// reconcilingCalls builds the lane of calls that reconcile keys; nil: no mapping uses both lanes.
func (s *pipeline) reconcilingCalls(source *kafka.Source) (lane *calls.Lane) {
	mappings := s.router.Mappings()
	if !slices.ContainsFunc(mappings, (*router.Compiled).DualLane) {
		return nil
	}
	pace := build.Pace(s.cfg)
	pace.MayCall, pace.Share, pace.Service = source.Leased, share(source, build.EitherRate(mappings)), &s.service
	lane = calls.New(pace, imports.PeerCalls{Caller: s.caller(func() { lane.Spend() }), Client: s.client}, observer{s}, s.newRand())
	return lane
}

// openFiles builds the batch lane.
func (s *pipeline) openFiles(source *kafka.Source) (*lane, error) {
	mappings := s.router.Mappings()
	rowLane, halts := s.rowLane(source)
	base := s.laneBase(schemas.Batch, source, halts)
	s.peer = imports.NewPeer(source, mappings, s.reconcilingCalls(source))
	var rowsCalled contract.Calls
	if rowLane != nil {
		s.rows = &rowCalls{rowLane, s.router, base.floods}
		rowsCalled = s.rows
	}
	parts := &imports.Lane{
		Source: source, Router: s.router, Writers: s.writers, Post: s.post, Book: s.receipts, Metrics: s.metrics, Recent: s.recent,
		Spans: s.spans, Log: base.log, Unacknowledged: &base.unacknowledged,
	}
	receipts := imports.NewReceipts(parts, func(mapping string) *spool.Notes { return s.files.Notes(mapping) })
	zones, loads, slots, err := build.BatchMappings(mappings)
	if err != nil {
		return nil, err
	}
	s.pacing = pacing.New(source, s.clock, slots)
	s.files, err = batcher.New(batcher.Config{
		Dir:         s.cfg.Spool.Dir,
		MaxBytes:    int64(s.cfg.Spool.MaxBytes),
		MaxFollowed: int64(s.cfg.Memory.Pending),
		Poll:        retry.Backoff{Initial: s.opts.firstPoll(), Max: build.SlowestPoll},
		Retry:       retry.Backoff{Initial: s.cfg.Retry.Initial, Max: s.cfg.Retry.Max},
		Grace:       s.cfg.Service.Timeout,
		Gate:        imports.HeldGate{Gate: s.pacing, Known: &s.service},
		Parents:     imports.NewParents(source, mappings, s.group(schemas.Immediate)),
		Peer:        s.peer,
		Calls:       rowsCalled,
		LandsWithin: landed * s.cfg.Service.Timeout,
		MaxWaiting:  int64(s.cfg.Memory.Pending) / 4,
		ApartAfter:  s.opts.ApartAfter,
		LookEvery:   s.opts.LookEvery,
		Records:     imports.Records{Lane: parts, Creates: imports.NewCreates(s.client, &s.service, s.cfg, share(source, build.EitherRate(mappings)), s.newRand()), Receipts: receipts},
		Floods:      base.floods,
		Paused:      s.pausedFiles,
		Alone:       func() bool { return source.Share() >= 1 },
		Log:         s.log,
	}, loads, imports.Importer{Client: s.client, Known: &s.service, Zones: zones, Leased: source.Leased, Spans: s.spans},
		imports.Ledger{Lane: parts, Pacer: s.pacing, Receipts: receipts}, observer{s}, s.newRand())
	if err != nil {
		return nil, fmt.Errorf("spool.dir: %w", err)
	}
	s.closers.add("spool", func() {
		if err := s.files.Close(); err != nil {
			s.log.Warn("closing the spool", "error", err)
		}
	})
	delivery := &fileDelivery{
		lane: base, files: s.files, peer: s.peer, rows: s.rows, receipts: receipts, shared: tables.DualLane(mappings),
		halted: make([]string, len(mappings)), tables: tables.LedgerTables(mappings),
	}
	ahead, err := newAhead(delivery, s.reader)
	if err != nil {
		return nil, err
	}
	return &lane{laneBase: base, Reader: s.reader(), ahead: ahead, delivery: delivery}, nil
}
