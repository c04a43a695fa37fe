package batcher

import (
	"context"
	"errors"
	"slices"

	"github.com/feedsink/feedsink/batcher/contract"
)

// Asked is an open file that is to be sent now: a person wants it, or the spool is full.
type Asked struct {
	reserve bool          // it may take a slot of the reserve; guarded by queue.mu
	sealed  chan struct{} // closed once files are known
	files   []string
}

// ErrNothingOpen says that an open file has no rows.
var ErrNothingOpen = errors.New("there is nothing in the open file")

// Roll has the mapping's open file, and with it its bundle's, sent as soon as the gate
// lets it and nothing of the mapping is on its way. With reserve it goes by the gate as a
// further try of a file does.
func (b *Batcher) Roll(mapping string, reserve bool) (*Asked, error) {
	m, ok := b.byName[mapping]
	if !ok {
		return nil, unknown(mapping)
	}
	q := m.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	unsent := q.unsent()
	next := slices.IndexFunc(unsent, func(g *generation) bool { return g.entries() > 0 || g == q.open && q.waits() > 0 })
	if next < 0 {
		return nil, ErrNothingOpen
	}
	return q.ask(unsent[next], reserve), nil
}

// ask has the generation sent as soon as it may be, the queue locked.
func (q *tableQueue) ask(g *generation, reserve bool) *Asked {
	if g.asked == nil {
		g.asked = &Asked{sealed: make(chan struct{})}
	}
	g.asked.reserve = g.asked.reserve || reserve
	notify(q.wake)
	return g.asked
}

// Files are the names under which the rows are sent, in their order; none if the other
// lane has overruled all of them. ok is false if they are not written before ctx ends.
func (a *Asked) Files(ctx context.Context) (files []string, ok bool) {
	select {
	case <-a.sealed:
		return a.files, true
	case <-ctx.Done():
		return nil, false
	}
}

// becomes tells who asked what the rows are sent as.
func (a *Asked) becomes(imports []contract.Import) {
	if a == nil {
		return
	}
	for _, imp := range imports {
		a.files = append(a.files, imp.File)
	}
	close(a.sealed)
}

// takesReserve reports whether the generation may go as a further try does.
func (q *tableQueue) takesReserve(g *generation) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return g.asked != nil && g.asked.reserve
}
