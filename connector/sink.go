package connector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/deadletter"
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
