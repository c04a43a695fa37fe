// Package outbox waits for the dead letters and receipts that are on their way to Kafka.
package outbox

import (
	"context"
	"sync"
	"sync/atomic"
)

// Outbox counts what Kafka has not acknowledged yet. Its methods may be called from any
// goroutine.
type Outbox struct {
	open  atomic.Int64
	mu    sync.Mutex
	empty chan struct{} // closed when open is 0; nil: nothing waits
}

// Add counts some more.
func (o *Outbox) Add(n int) { o.open.Add(int64(n)) }

// Done counts some that Kafka has, or that will not be sent.
func (o *Outbox) Done(n int) {
	if o.open.Add(-int64(n)) > 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.empty != nil {
		close(o.empty)
		o.empty = nil
	}
}

// Open is how many are on their way.
func (o *Outbox) Open() int64 { return o.open.Load() }

// Wait returns once none is on its way, or with ctx.
func (o *Outbox) Wait(ctx context.Context) error {
	o.mu.Lock()
	if o.empty == nil {
		o.empty = make(chan struct{})
	}
	empty := o.empty
	o.mu.Unlock()
	if o.open.Load() == 0 { // what ends from here on closes it
		return nil
	}
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
