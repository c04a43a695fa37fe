package connector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/clock"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/decode"
	"github.com/feedsink/feedsink/connector/flood"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/receipt"
	"github.com/feedsink/feedsink/connector/reload"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/tracing"
	"github.com/feedsink/feedsink/connector/waits"
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
	pending  *kafka.Memory // of all lanes
	clock    *clock.Clock  // it remembers that it was moved
	sources  map[schemas.Lane]*kafka.Source
	others   *others
	arrivals *arrivals // nil: this process does not run the batch lane
	closers  closers
}

// pipeline is all that follows from one configuration. It is built, started and stopped
// once, while the sources of its lanes stand still.
type pipeline struct {
	*process
	cfg     *config.Config
	imports *importSpans // nil: tracing is off

	router    *router.Router
	tables    map[string]schemas.Table // by mapping
	writers   *schemas.Registry        // nil: no format needs one
	client    *service.Client
	post      *deadletter.Post // nil: no dead-letter topic
	receipts  *receipt.Book    // nil: no receipts topic
	calls     *calls.Lane      // nil: this process does not run the lane
	files     *batcher.Batcher // nil: likewise
	pacing    *pacing          // nil: likewise
	parents   *parents         // nil: likewise
	missing   *missing         // nil: this process does not run the immediate lane
	service   calls.Service
	forgotten forgotten
	peer      *peer     // nil: likewise
	rows      *rowCalls // nil: likewise, or no row may be called
	lanes     []*lane

	breakerCause  atomic.Pointer[string] // what opened a breaker last; nil: nothing has
	breakerCauses sync.Map               // by table, what opened its own last: texts

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
			pending: kafka.NewMemory(int64(cfg.Memory.Pending)), clock: clock.New(opts.Wall, opts.Log), sources: map[schemas.Lane]*kafka.Source{},
			others: &others{session: cfg.Kafka.SessionTimeout, ids: map[schemas.Lane]map[string]other{}},
		},
		reloads: make(chan chan<- reload.Result), last: reload.NewLast(registry),
	}
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
	for _, step := range []func() error{s.openImportSpans, s.openClient, s.openPost, s.openReceipts, s.openRegistry, s.openLanes} {
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
	members := admin.Members{Address: webhook.Members, Certificate: guard.Certificate, Log: s.log, Dial: s.opts.Dial}
	parts := []admin.Part{
		admin.Imports(importsAPI{s}), admin.Mappings(mappingsAPI{s}), admin.Executions(webhook.Header, build.Reveal(config.SecretFile(webhook.SecretFile)), service.ExecutionID, s.hint, members),
		members.Tables(guard), admin.OwnMembership(s.membership), admin.History(s.hour.Last),
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
	s.peers = members.Peers(guard, s.port())
	return nil
}

// hint has an execution looked at now instead of at the next poll.
func (s *Sink) hint(execution string) {
	if files := s.now().files; files != nil {
		files.Hint(execution)
	}
}

// AdminAddress is host:port of the admin server.
func (s *Sink) AdminAddress() string { return s.admin.Address() }

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
	watched.start("log of what is waited for", func() error {
		waits.Log(delivering, s.log, func() []observe.Wait { return s.now().waits() })
		return nil
	})
	watched.start("history of the last hour", func() error {
		return s.hour.Run(delivering, func() map[string]map[string]time.Duration { return s.now().ages() })
	})
	watched.start("other members", func() error { return s.watchOthers(delivering) })
	first := s.now()
	running := &reloader{Sink: s, ctx: delivering, stop: stop}
	running.begin(first) //nolint:contextcheck // it has what outlives the sources
	sources := newGroup(stop)
	for _, l := range first.lanes {
		sources.start("source of the "+l.which.String()+" lane", func() error { return l.source.Run(ctx, l) })
	}
	sources.start("pauses", func() error { return s.watchPauses(ctx) })
	sources.start("reload", func() error { return running.run(ctx) })
	s.log.Info("feedsink is running", "version", s.opts.Version, "lanes", len(first.lanes),
		"mappings", len(first.router.Mappings()), "admin", s.AdminAddress())
	err := sources.wait()
	stopDelivering()
	err = errors.Join(err, running.wait(), watched.wait())
	if held, ok := s.log.Handler().(interface{ Flush() }); ok {
		held.Flush() // repeated lines that are held back came before this one
	}
	s.log.Info("feedsink has stopped")
	return err
}

// start runs what the lanes need beside their sources, until ctx ends. Who waits for it
// learns what could not go on.
func (s *pipeline) start(ctx context.Context, stop func()) *group {
	running := newGroup(stop)
	running.start("first token", func() error {
		s.firstToken(ctx)
		return nil
	})
	if s.post != nil {
		running.start("look at the dead-letter topic", func() error {
			s.post.Look(ctx)
			return nil
		})
	}
	if s.receipts != nil {
		running.start("look at the receipts topic", func() error {
			s.receipts.Look(ctx)
			return nil
		})
	}
	if s.calls != nil {
		running.start("immediate lane", func() error { return s.calls.Run(ctx) })
	}
	if s.missing != nil {
		running.start("patches of nothing", func() error { return s.missing.run(ctx) })
	}
	if s.peer != nil && s.peer.calls != nil {
		running.start("reconciling calls", func() error { return s.peer.calls.Run(ctx) })
	}
	if s.rows != nil {
		running.start("calls in the place of rows", func() error { return s.rows.calls.Run(ctx) })
	}
	if s.files != nil {
		running.start("batcher", func() error { return s.files.Run(ctx) })
		running.start("what days bring", func() error { return s.arrivals.run(ctx, s.pacing) })
	}
	return running
}

// firstToken gets the first token, so that a wrong key shows on /readyz before
// there is anything to send. Later ones are fetched by the calls that need them.
func (s *pipeline) firstToken(ctx context.Context) {
	backoff, random := retry.Backoff{Initial: s.cfg.Retry.Initial, Max: s.cfg.Retry.Max}, s.newRand()
	for tries := 1; ; tries++ {
		err := s.client.Authenticate(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		var after time.Duration // before that, no request is made
		if e, ok := errors.AsType[*service.Error](err); ok {
			after = e.RetryAfter()
		}
		wait := backoff.Next(tries, after, random.Float64)
		if hint := service.Hint(err, "service.authURL"); hint != "" {
			err = fmt.Errorf("%w; %s", err, hint)
		}
		s.log.Warn("no token yet; trying again", "tries", tries, "wait", wait, "error", err)
		if retry.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// group is the consumer group of a lane.
func (s *pipeline) group(which schemas.Lane) string { return which.Group(s.cfg.Kafka.Group) }

// openLanes builds the lanes this process runs, each only if some mapping uses
// it.
func (s *pipeline) openLanes() error {
	for _, which := range s.opts.Lanes {
		if len(s.router.Topics(which)) == 0 {
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
		return fmt.Errorf("no mapping uses the lanes asked for: %v", s.opts.Lanes)
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
		Grace:          s.cfg.Service.Timeout,
		Pending:        s.pending,
		Keeps:          which == schemas.Immediate,
		Log:            s.log,
		Metrics:        s.registry,
	})
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	s.sources[which] = source
	if which == schemas.Batch {
		s.arrivals = newArrivals(source, s.log)
	}
	s.process.closers.add("source of the "+which.String()+" lane", source.Close)
	return source, nil
}

// subscription is what the mappings say of the lane's topics.
func (s *pipeline) subscription(which schemas.Lane) kafka.Subscription {
	sub := kafka.Subscription{
		Topics:  s.router.Topics(which),
		TopicOf: s.topicRoutes(which),
		Upgrade: s.upgrade,
	}
	if which == schemas.Immediate {
		sub.Ended = s.executionEnded
	} else {
		sub.TableOf, sub.Filed = tablesOf(s.router.Mappings())
	}
	return sub
}

// laneBase is what all parts of a lane need; calls is nil for one that makes none.
func (s *pipeline) laneBase(which schemas.Lane, source *kafka.Source, calls flood.Calls) *laneBase {
	log := s.log.With("lane", which.String())
	return &laneBase{
		which: which, router: s.router, source: source, post: s.post, receipts: s.receipts, metrics: s.metrics, recent: s.recent, log: log, pauses: &s.pauses,
		floods:  flood.New(flood.Lane{Which: which, Source: source, Calls: calls, Log: log}, flood.NewLimits(s.cfg.DLQ), s.router.Mappings()),
		tracing: s.lineage(which), whyNot: func() string { return s.unacknowledgedFor(which) },
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

// openFiles builds the batch lane.
func (s *pipeline) openFiles(source *kafka.Source) (*lane, error) {
	mappings := s.router.Mappings()
	rowLane, halts := s.rowLane(source)
	base := s.laneBase(schemas.Batch, source, halts)
	s.pacing = &pacing{source: source, tables: map[string]*tableSlots{}, clock: s.clock}
	s.parents = newParents(source, mappings, s.group(schemas.Immediate))
	s.peer = &peer{source: source, topics: mappingTopics(mappings), keys: keyNames(mappings)}
	if len(s.peer.topics) > 0 {
		pace := build.Pace(s.cfg)
		pace.MayCall, pace.Share, pace.Service = source.Leased, share(source, eitherRate(mappings)), &s.service
		s.peer.calls = calls.New(pace, s.caller(func() { s.peer.calls.Spend() }), observer{s}, s.newRand())
	}
	var rowsCalled batcher.Calls
	if rowLane != nil {
		s.rows = &rowCalls{rowLane, s.router, base.floods}
		rowsCalled = s.rows
	}
	receipts := newImportReceipts(base, s.writers)
	zones, loads, err := s.batchMappings()
	if err != nil {
		return nil, err
	}
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
		Calls:       rowsCalled,
		LandsWithin: landed * s.cfg.Service.Timeout,
		MaxWaiting:  int64(s.cfg.Memory.Pending) / 4,
		ApartAfter:  s.opts.ApartAfter,
		Records:     records{base, newCreateRows(s.client, &s.service, s.cfg, share(source, eitherRate(mappings)), s.newRand()), s.writers, receipts},
		Floods:      base.floods,
		Paused:      s.pausedFiles,
		Log:         s.log,
	}, loads, importer{s.client, &s.service, zones, source.Leased, base.tracing}, ledger{base, s.pacing, receipts}, observer{s}, s.newRand())
	if err != nil {
		return nil, fmt.Errorf("spool.dir: %w", err)
	}
	s.closers.add("spool", func() {
		if err := s.files.Close(); err != nil {
			s.log.Warn("closing the spool", "error", err)
		}
	})
	if receipts != nil {
		receipts.newNotes = s.files.Notes
	}
	delivery := &fileDelivery{
		lane: base, files: s.files, peer: s.peer, rows: s.rows, receipts: receipts, shared: shared(mappings),
		halted: make([]string, len(mappings)), tables: ledgerTables(mappings),
	}
	ahead, err := newAhead(delivery, s.reader)
	if err != nil {
		return nil, err
	}
	return &lane{laneBase: base, Reader: s.reader(), ahead: ahead, delivery: delivery}, nil
}
