package batcher

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/feedsink/feedsink/batcher/contest"
	"github.com/feedsink/feedsink/batcher/spool"
)

// tableQueue is the way of one mapping, or of the mappings of one bundle: the open
// generation that grows and the one before it that is being imported.
type tableQueue struct {
	Mapping           // of a bundle: its first one's, with what all of them load
	name    string    // its files begin with: the mapping's, or the bundle's
	members []*member // in the order of their loading
	batcher *Batcher
	log     *slog.Logger
	parents []*tableQueue
	wake    chan struct{} // the open generation got its first row or is complete

	mu          sync.Mutex
	inError     []*Adopted // of which only records in error are left: before all else
	adopted     *Adopted   // to be awaited before anything else goes out; nil: none
	rebuilding  *rebuild   // goes out before open; nil: none
	open        *generation
	hurried     *generation    // the open one, if a child waits for its rows
	running     *importRun     // nil: none
	lastMessage ServiceMessage // recently by the service; zero: nothing
}

// generation is the rows that will go out together and the hold on their offsets.
type generation struct {
	journals []*spool.Journal // of the line's members
	opened   time.Time        // when its first row came
	byOwner  map[Partition]Claim
	claims   []Claim // in the order of their first record
	last     Partition
	newest   int64        // offset that was held last
	holding  Claim        // last's
	soon     bool         // it is due at once; guarded by line.mu
	repeats  bool         // rows in it may have landed before; guarded by line.mu
	fate     contest.Fate // of rows that writes of the other lane have dropped; guarded by line.mu
}

func (l *tableQueue) complete(g *generation) bool {
	rows, bytes := g.size()
	return rows >= l.Roll.Rows || bytes >= l.Roll.Bytes
}

// run rolls and imports one generation after the other until ctx ends. send
// outlives ctx for requests that are on their way.
func (l *tableQueue) run(ctx, send context.Context) {
	for {
		if !l.runOnce(ctx, send) {
			return
		}
	}
}

// runOnce takes one generation to its end; false when ctx ended before one was
// due. Discard and HandOver end the generation alone, through its cancelers.
func (l *tableQueue) runOnce(ctx, send context.Context) bool {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	send, cut := context.WithCancel(send)
	defer cut()
	f := l.roll(ctx, cancelers{stop, cut})
	if f == nil {
		return false
	}
	f.run(ctx, send)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running == f {
		l.running = nil
	}
	return true
}

// roll waits until the open generation is due and detaches it; nil when ctx has
// ended. While the gate holds it back it goes on growing.
func (l *tableQueue) roll(ctx context.Context, r cancelers) *importRun {
	for {
		if f := l.inherited(r); f != nil {
			return f
		}
		g, wait, rows := l.due()
		if g != nil && wait <= 0 && rows {
			wait = l.gated(false)
		}
		if ctx.Err() != nil {
			return nil
		}
		if g != nil && wait <= 0 {
			if f := l.detach(g, r); f != nil {
				return f
			}
			continue
		}
		var timer <-chan time.Time
		if g != nil {
			timer = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
		case <-timer:
		}
	}
}

// longestGateWait is how soon the gate is asked again: the clock that decides
// about days may be set.
const longestGateWait = time.Minute

// inherited is the import run of what a former owner left, if it can begin: an
// import to be awaited, or a generation that is built again and complete.
func (l *tableQueue) inherited(r cancelers) *importRun {
	l.mu.Lock()
	defer l.mu.Unlock()
	var f *importRun
	switch {
	case len(l.inError) > 0:
		f = newImportRun(l, l.inError[0].generation, r)
		f.adopted, l.inError = l.inError[0], l.inError[1:]
	case l.adopted != nil:
		f = newImportRun(l, l.adopted.generation, r)
		f.adopted, l.adopted = l.adopted, nil
	case l.rebuilding != nil && len(l.rebuilding.upTo) == 0:
		f = newImportRun(l, l.rebuilding.generation, r)
		f.from, l.rebuilding = l.rebuilding.from, nil
	default:
		return nil
	}
	l.running = f
	return f
}

// due returns the open generation if there is something to do for it, how long it
// may still stay open, and whether it has rows: only these take a slot.
func (l *tableQueue) due() (g *generation, wait time.Duration, rows bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g = l.open
	switch {
	case l.rebuilding != nil: // older rows first
		return nil, 0, false
	case g == nil || g.entries() == 0 && !g.soon:
		return nil, 0, false
	case l.complete(g), g == l.hurried, g.soon:
		return g, 0, g.entries() > 0
	default:
		return g, time.Until(g.opened.Add(l.Roll.Age)), true
	}
}

// detach makes the generation the one on its way, unless it was discarded.
func (l *tableQueue) detach(g *generation, r cancelers) *importRun {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open != g {
		return nil
	}
	l.open = nil
	l.running = newImportRun(l, g, r)
	for _, m := range l.members {
		m.dualLane.keys.Seal()
	}
	return l.running
}

func (l *tableQueue) discard() {
	if f := l.ground(); f != nil {
		l.forget(f)
	}
}

// ground drops what waits and lets the import run, which it returns, take no further
// step; nil: there is none.
func (l *tableQueue) ground() *importRun {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open != nil {
		l.open.drop()
		l.open = nil
	}
	if l.rebuilding != nil {
		l.rebuilding.drop()
		l.rebuilding = nil
	}
	l.adopted, l.inError = nil, nil
	for _, m := range l.members {
		m.dualLane = new(dualLane) // its records are read again
	}
	if l.running != nil {
		l.running.cancelers.stop()
	}
	return l.running
}

// forget cuts an import run off.
func (l *tableQueue) forget(f *importRun) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.cancelers.cut()
	if l.running == f {
		l.running = nil
	}
}

// status is what the line does, as each of its mappings shows it.
func (m *member) status() MappingStatus {
	l := m.line
	l.mu.Lock()
	defer l.mu.Unlock()
	s := MappingStatus{Mapping: m.Name, Bundle: l.Bundle, Kept: l.batcher.spool.Kept(l.name)}
	if l.name != m.Name { // of the time before it was in the bundle
		s.Kept = append(s.Kept, l.batcher.spool.Kept(m.Name)...)
	}
	if g := l.open; g != nil && g.entries() > 0 {
		j := g.journals[m.index]
		s.Rows, s.Bytes, s.Opened, s.Age = j.Distinct, j.Bytes, g.opened, time.Since(g.opened)
	}
	if l.running != nil {
		now := l.running.now
		s.Import, s.Halted = &now, l.running.halted
	}
	return s
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it has not looked since the last one
	}
}
