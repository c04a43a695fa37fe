package connector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/feedsink/feedsink/connector/members"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/waits"
)

// Run consumes, delivers and commits until ctx ends. Then it stops polling,
// lets the calls in flight finish, commits, leaves the groups, and returns
// once everything has ended. An error means that the sink could not go on.
func (s *Sink) Run(ctx context.Context) error {
	defer s.close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(ctx, s.noteStop)()
	// Deliveries outlive the sources: a source's last act is to wait for the
	// calls in flight and to commit what they confirmed. The admin server and
	// the token outlive both.
	delivering, stopDelivering := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDelivering()

	watched := newGroup(stop)
	watched.start("admin server", func() error { return s.admin.Run(delivering) })
	watched.start("log of what is waited for", func() error {
		waits.Log(delivering, s.log, max(waits.LookEvery, s.opts.LookEvery), func() []observe.Wait { return s.now().waits() })
		return nil
	})
	watched.start("history of the last hour", func() error {
		return s.hour.Run(delivering, func() map[string]map[string]time.Duration { return s.now().ages() })
	})
	watched.start("other members", func() error { return s.others.Run(delivering, max(members.AskEvery, s.opts.LookEvery), s.peers) })
	first := s.now()
	running := &reloader{Sink: s, ctx: delivering, stop: stop}
	running.begin(first) //nolint:contextcheck // it has what outlives the sources
	sources := newGroup(stop)
	for _, l := range first.lanes {
		sources.start("source of the "+l.which.String()+" lane", func() error {
			defer s.left.Store(l.which, true)
			return l.source.Run(ctx, l)
		})
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

// noteStop says that the sink stops, and until when that may take.
func (s *Sink) noteStop() {
	until, inFlight := time.Now().Add(releaseTime(s.now().cfg.Service.Timeout)).UTC(), 0
	if calls := s.now().calls; calls != nil {
		inFlight = calls.InFlight()
	}
	s.stopping.Store(&until)
	s.log.Info("feedsink is stopping: the calls in flight end, what they confirm is committed, and the groups are left", "calls_in_flight", inFlight, "until", until)
}

// start runs what the lanes need beside their sources, until ctx ends. Who waits for it
// learns what could not go on.
func (s *pipeline) start(ctx context.Context, stop func()) *group {
	running := newGroup(stop)
	running.start("first token", func() error {
		s.token.Run(ctx)
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
	if s.peer != nil {
		running.start("reconciling calls", func() error { return s.peer.Run(ctx) })
	}
	if s.rows != nil {
		running.start("calls in the place of rows", func() error { return s.rows.calls.Run(ctx) })
	}
	if s.files != nil {
		running.start("batcher", func() error { return s.files.Run(ctx) })
		running.start("what days bring", func() error { return s.arrivals.Run(ctx, s.pacing) })
	}
	return running
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
