package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// sample is one side of one repetition.
type sample struct {
	rate         float64 // per second
	cpu          float64 // CPU-seconds per million
	rss          int64   // peak, in bytes
	allocs       float64 // per event or call
	bytesPerCall float64 // immediate lane
}

// mark is a moment in a run.
type mark struct {
	at   time.Time
	done int64 // events or calls by then
}

// progress tells how far a run is.
type progress interface {
	// reach waits until n are done and returns when that was, and how many
	// they were then. It also returns when the run has failed.
	reach(ctx context.Context, n int64) (mark, error)
}

// ending says, by how many were done when a window began, how many have to be when
// it ends.
type ending func(first int64) int64

// until ends a window at n, wherever it began.
func until(n int64) ending { return func(int64) int64 { return n } }

// after ends a window n further. Commits come in leaps: the first may be of
// several files.
func after(n int64) ending { return func(first int64) int64 { return first + n } }

var errEmptyWindow = errors.New("nothing was done between the beginning and the end of what is measured")

// window measures the child from the moment when from are done to its ending.
func window(ctx context.Context, c *child, p progress, from int64, to ending) (s sample, err error) {
	err = during(ctx, c, func(ctx context.Context) error {
		s, err = between(ctx, c, p, from, to)
		return err
	})
	return s, err
}

func between(ctx context.Context, c *child, p progress, from int64, to ending) (sample, error) {
	first, err := p.reach(ctx, from)
	if err != nil {
		return sample{}, err
	}
	before, err := c.usage(ctx)
	if err != nil {
		return sample{}, err
	}
	last, err := p.reach(ctx, to(first.done))
	if err != nil {
		return sample{}, err
	}
	later, err := c.usage(ctx)
	if err != nil {
		return sample{}, err
	}
	if last.done <= first.done {
		return sample{}, errEmptyWindow
	}
	n := float64(last.done - first.done)
	return sample{
		rate: n / last.at.Sub(first.at).Seconds(),
		cpu:  (later.CPU - before.CPU) / n * 1e6,
		rss:  later.RSS,

		allocs: float64(later.Allocs-before.Allocs) / n,
	}, nil
}

// during runs do with a context that ends when the child does: nothing is waited for
// that a child which has ended will not do.
func during(ctx context.Context, c *child, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer c.onEnd(cancel)()
	err := do(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause // why the waiting was ended, rather than the fact that it was
	}
	return err
}

// calls asks the service at that address.
type calls struct{ service string }

func (c calls) reach(ctx context.Context, n int64) (mark, error) {
	t, err := awaitCalls(ctx, c.service, n)
	return mark{t.At, t.Calls}, err
}

// commits asks the broker for a group's offsets.
type commits struct {
	admin        *kadm.Client
	group, topic string
}

func (c commits) reach(ctx context.Context, n int64) (mark, error) {
	return poll(ctx, n, func() (int64, error) { return committed(ctx, c.admin, c.group, c.topic) })
}

// done asks the child itself.
type done struct{ *child }

func (d done) reach(ctx context.Context, n int64) (mark, error) {
	return poll(ctx, n, func() (int64, error) {
		a, err := d.usage(ctx)
		return a.Done, err
	})
}

// pollEvery is the resolution of what has to be asked again and again.
const pollEvery = 10 * time.Millisecond

func poll(ctx context.Context, n int64, ask func() (int64, error)) (mark, error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		done, err := ask()
		if err != nil || done >= n {
			return mark{time.Now(), done}, err
		}
		select {
		case <-ctx.Done():
			return mark{}, ctx.Err()
		case <-tick.C:
		}
	}
}
