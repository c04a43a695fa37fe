package connector

import (
	"errors"
	"fmt"
	"sync"
)

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
