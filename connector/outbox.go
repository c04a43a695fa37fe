package connector

import (
	"context"
	"sync"
)

// outbox counts the dead letters that Kafka has not acknowledged yet.
type outbox struct {
	mu    sync.Mutex
	open  int
	empty chan struct{} // closed when open is 0; nil: nobody waits
}

func (o *outbox) add() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open++
}

func (o *outbox) done() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open--; o.open == 0 && o.empty != nil {
		close(o.empty)
		o.empty = nil
	}
}

// wait returns once none is on its way, or with ctx.
func (o *outbox) wait(ctx context.Context) error {
	o.mu.Lock()
	if o.open == 0 {
		o.mu.Unlock()
		return nil
	}
	if o.empty == nil {
		o.empty = make(chan struct{})
	}
	empty := o.empty
	o.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
