package batcher

import (
	"context"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/connector/retry"
)

// roomEvery is how soon it is looked again at what makes room.
const roomEvery = time.Second

// keepRoom makes room whenever Ready has found the spool full, until ctx ends.
func (b *Batcher) keepRoom(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.noRoom:
			b.makeRoom()
		}
		_ = retry.Sleep(ctx, roomEvery)
	}
}

// makeRoom has a file sent before it is due: no record is read that would complete it. It is the one
// that takes most of the spool of those that the gate lets go, and none while an import makes room.
func (b *Batcher) makeRoom() {
	var of *tableQueue
	var largest *generation
	var most int64
	for _, q := range b.queues {
		g, bytes, makesRoom := q.onDisk()
		if makesRoom {
			return
		}
		if bytes > most && !q.paused() && q.gated(nil, false) <= 0 {
			of, largest, most = q, g, bytes
		}
	}
	if of == nil {
		return
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.running == nil && largest.asked == nil {
		of.ask(largest, false)
		of.log.Warn("the spool is full: the open file that takes most of it is sent before it is due; raise spool.maxBytes, or have files sent earlier (imports.roll)",
			"bytes", most)
	}
}

// onDisk is the file that goes next, if one can go, and what it takes of the spool; or an
// import makes room.
func (q *tableQueue) onDisk() (g *generation, bytes int64, makesRoom bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r := q.running; r != nil { // what a former owner sent takes no room here
		return nil, 0, r.adopted == nil && r.halted == "" && r.now.Step != contract.Waiting && r.now.Step != contract.Paused
	}
	if unsent := q.unsent(); len(unsent) > 0 && q.rebuilding == nil {
		g = unsent[0]
		for _, j := range g.journals {
			bytes += j.OnDisk()
		}
	}
	return g, bytes, false
}
