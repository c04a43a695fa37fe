package connector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"

	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/reload"
	"github.com/feedsink/feedsink/schemas"
)

// Reload reads the configuration again and puts it in force, without leaving the groups:
// the lanes end what they have begun and commit, and go on as a new owner of their
// partitions would. Its type is reload.Report. An error, in words for who changed the
// file, means that the former configuration is in use; it is an *admin.Refusal. ctx ends
// the wait for it, not the reload.
func (s *Sink) Reload(ctx context.Context) (any, error) {
	answer := make(chan reload.Result, 1)
	select {
	case s.reloads <- answer:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case r := <-answer:
		switch {
		case errors.Is(r.Err, reload.ErrRestart):
			return nil, refuse(http.StatusConflict, "%w", r.Err)
		case r.Err != nil:
			return nil, refuse(http.StatusBadRequest, "the configuration was not reloaded; the former one is in use: %w", r.Err)
		}
		return r.Report, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var _ admin.ReloadAPI = (*Sink)(nil)

// reloader replaces a running sink's pipeline.
type reloader struct {
	*Sink
	ctx     context.Context // of what runs beside the sources
	stop    func()          // ends the sink
	running *group          // of the pipeline in use
	end     context.CancelFunc
}

// begin starts a pipeline.
func (r *reloader) begin(p *pipeline) {
	ctx, end := context.WithCancel(r.ctx)
	r.running, r.end = p.start(ctx, r.stop), end
}

// wait returns once the pipeline in use has ended.
func (r *reloader) wait() error {
	defer r.end()
	return r.running.wait()
}

// errNone says that there is no configuration to go on with.
var errNone = errors.New("neither the new configuration nor the former one can be used")

// run reloads when it is asked to, until ctx ends. An error means that no configuration
// is in force any more.
func (r *reloader) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case answer := <-r.reloads:
			result := r.reload(ctx)
			r.note(result)
			answer <- result
			if errors.Is(result.Err, errNone) {
				return result.Err
			}
		}
	}
}

func (r *reloader) note(result reload.Result) {
	r.last.Note(result)
	log := r.log
	if h, ok := log.Handler().(interface{ Unfolded() slog.Handler }); ok {
		log = slog.New(h.Unfolded()) // who asked for it waits for its result, the same as before or not
	}
	switch {
	case result.Err != nil:
		log.Error("the configuration was not reloaded; the former one is in use", "error", result.Err)
	case result.Nothing():
		log.Info("configuration reloaded; nothing has changed")
	default:
		log.Info("configuration reloaded", "changed", result.Changed)
	}
	if len(result.Restart) > 0 {
		log.Warn("keys of the configuration have changed that need a restart; they keep their values until then", "keys", result.Restart)
	}
}

// reload does it once.
func (r *reloader) reload(ctx context.Context) reload.Result {
	file, err := r.opts.Load()
	if err != nil {
		return reload.Result{Err: err}
	}
	cfg, report, err := reload.Compare(r.now().cfg, file)
	if err == nil {
		err = r.sameLanes(cfg)
	}
	if err != nil {
		return reload.Result{Report: reload.Report{Changed: []string{}, Restart: report.Restart}, Err: err}
	}
	if r.opts.Levels != nil && slices.Contains(report.Changed, "log.level") {
		_ = r.opts.Levels.SetLevel(cfg.Log.Level) // it is one of the words, as the file was checked
	}
	if report.Quick() {
		r.now().cfg.Log = cfg.Log
		return reload.Result{Report: report}
	}
	return r.replace(ctx, cfg, report)
}

// sameLanes refuses a configuration that wants places in other groups.
func (r *reloader) sameLanes(cfg *config.Config) error {
	uses := map[schemas.Lane]bool{}
	compiled, err := compile(cfg)
	if err != nil {
		return err
	}
	for _, which := range r.opts.Lanes {
		if uses[which] = len(compiled.Topics(which)) > 0; uses[which] != (r.sources[which] != nil) {
			what := "no mapping uses the %s lane any more: %w"
			if uses[which] {
				what = "mappings use the %s lane, which this process has not begun with: %w"
			}
			return fmt.Errorf(what, which, reload.ErrRestart)
		}
	}
	return nil
}

// replace puts another configuration in force, or the former one again where that fails.
func (r *reloader) replace(ctx context.Context, cfg *config.Config, report reload.Report) reload.Result {
	former := r.now()
	resume, err := r.suspend(ctx, former)
	if err != nil {
		return reload.Result{Err: fmt.Errorf("not all lanes could be suspended, as one waits for the brokers or feedsink stops; try again: %w", err)}
	}
	r.end()
	if err := r.running.wait(); err != nil { // the sink is stopping for it
		return reload.Result{Err: err}
	}
	former.closers.close(r.log)
	result := reload.Result{Report: report}
	next, err := r.assemble(cfg)
	if err != nil {
		result = reload.Result{Err: err}
		if next, err = r.assemble(former.cfg); err != nil {
			return reload.Result{Err: fmt.Errorf("%w: %w", errNone, errors.Join(result.Err, err))}
		}
	}
	if result.SameLogin() {
		next.client.TakeToken(former.client)
	}
	if next.cfg.Service.BaseURL == former.cfg.Service.BaseURL {
		next.service.Take(&former.service)
	}
	r.metrics.Forget(former.router, next.router)
	r.current.Store(next)
	r.begin(next) //nolint:contextcheck // it has what outlives the sources
	resume(next)
	return result
}

// suspend has all lanes let go of what they do, at the same time. No lane goes on
// before resume; after an error they do.
func (r *reloader) suspend(ctx context.Context, p *pipeline) (resume func(next *pipeline), err error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Kafka.SessionTimeout) // one that waits for the brokers holds up the others
	defer cancel()
	var suspending sync.WaitGroup
	resumes, errs := make([]func(kafka.Subscription, kafka.Handler), len(p.lanes)), make([]error, len(p.lanes))
	for i, l := range p.lanes {
		suspending.Go(func() { resumes[i], errs[i] = l.source.Suspend(ctx) })
	}
	suspending.Wait()
	resume = func(next *pipeline) {
		for i, l := range next.lanes { // as many, and in the same order
			if resumes[i] != nil {
				resumes[i](next.subscription(l.which), l)
			}
		}
	}
	if err = errors.Join(errs...); err != nil {
		resume(p)
	}
	return resume, err
}
