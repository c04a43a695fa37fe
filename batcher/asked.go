package batcher

import (
	"errors"
	"slices"

	"github.com/feedsink/feedsink/batcher/contract"
)

// ErrNothingOpen says that an open file has no rows.
var ErrNothingOpen = errors.New("there is nothing in the open file")

// Roll has the mapping's open file, and with it its bundle's, sent as soon as the gate
// lets it and nothing of the mapping is on its way. With reserve it goes by the gate as a
// further try of a file does.
func (b *Batcher) Roll(mapping string, reserve bool) (*contract.Asked, error) {
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
func (q *tableQueue) ask(g *generation, reserve bool) *contract.Asked {
	if g.asked == nil {
		g.asked = contract.NewAsked()
	}
	g.asked.Reserve = g.asked.Reserve || reserve
	notify(q.wake)
	return g.asked
}

// takesReserve reports whether the generation may go as a further try does.
func (q *tableQueue) takesReserve(g *generation) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return g.asked != nil && g.asked.Reserve
}
