package batcher

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/batcher/said"
	"github.com/feedsink/feedsink/batcher/slots"
	"github.com/feedsink/feedsink/connector/retry"
)

// tableQueue is the way of one mapping, or of the mappings of one bundle: the open
// generation that grows, those before it that are as large as a file may be, and the one
// before these that is being imported.
type tableQueue struct {
	mapping files.Mapping // of a bundle: its first one's, with what all of them load
	name    string        // its files begin with: the mapping's, or the bundle's
	members []*member     // in the order of their loading
	batcher *Batcher
	log     *slog.Logger
	parents []*tableQueue
	words   *said.Kept
	wake    chan struct{} // the open generation got its first row or is complete

	callWake   chan struct{} // rows may be there to be called
	landedWake chan struct{} // a call has landed and is to be confirmed
	settled    chan struct{} // a call has ended

	mu         sync.Mutex
	closing    bool          // a file is about to go out: no call starts
	opens      int64         // generations that were opened
	began      time.Time     // when the table became this process'; zero: a generation was opened since
	doubt      time.Time     // until then a call may land whose outcome is not known
	took       time.Duration // the last import; 0: none has ended
	inError    []*Adopted    // of which only records in error are left: before all else
	adopted    *Adopted      // to be awaited before anything else goes out; nil: none
	rebuilding *generation   // goes out before full and open; nil: none
	full       []*generation // closed at the most that a file may have; go out before open, oldest first
	open       *generation
	halved     int         // how often since the process began
	tooLarge   string      // the file of a former owner that is to be halved once its rows are counted
	ratio      float64     // of a file's bytes to those of its generation, as measured last; 0: never
	hurried    *generation // the open one, if a child waits for its rows
	running    *importRun  // nil: none
}

// run rolls and imports one generation after the other until ctx ends. send
// outlives ctx for requests that are on their way.
func (q *tableQueue) run(ctx, send context.Context) {
	for q.runOnce(ctx, send) {
	}
}

// runOnce takes one generation to its end; false when ctx ended before one was
// due. HandOver ends the generation alone, through its cancelers.
func (q *tableQueue) runOnce(ctx, send context.Context) bool {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	send, cut := context.WithCancel(send)
	defer cut()
	r := q.roll(ctx, cancelers{stop, cut})
	if r == nil {
		return false
	}
	r.run(ctx, send)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running == r {
		q.running = nil
	}
	notify(q.callWake) // keys that it held up
	return true
}

// roll waits until the open generation is due and detaches it; nil when ctx has
// ended. While the gate holds it back it goes on growing.
func (q *tableQueue) roll(ctx context.Context, c cancelers) *importRun {
	for {
		if r := q.inherited(c); r != nil {
			return r
		}
		g, wait, rows := q.due()
		switch {
		case g == nil || wait > 0:
		case q.paused():
			wait = pausedWait
		case rows:
			wait = q.gated(nil, q.takesReserve(g))
		}
		if ctx.Err() != nil {
			return nil
		}
		if g != nil && wait <= 0 {
			if r := q.takeOut(ctx, g, c); r != nil {
				return r
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
		case <-q.wake:
		case <-timer:
		}
	}
}

// takeOut ends the queue's calls and makes the generation the one on its way; nil if there
// is nothing to send, or it is to be tried again.
func (q *tableQueue) takeOut(ctx context.Context, g *generation, c cancelers) *importRun {
	if q.auto() {
		defer q.goOn()
		if err := q.endCalls(ctx); err != nil {
			return nil
		}
	}
	r, err := q.detach(g, c)
	if err != nil {
		q.log.Error("rows that waited for calls do not go into their file: trying again; check the spool's disk", "error", err)
		_ = retry.Sleep(ctx, q.batcher.cfg.Retry.Initial)
	}
	return r
}

// longestGateWait is how soon the gate is asked again: the clock that decides
// about days may be set.
const longestGateWait = time.Minute

// inherited is the import run of what a former owner left, if it can begin: an
// import to be awaited, or a generation that is built again and complete.
func (q *tableQueue) inherited(c cancelers) *importRun {
	q.mu.Lock()
	defer q.mu.Unlock()
	var r *importRun
	switch {
	case len(q.inError) > 0:
		r = newImportRun(q, q.inError[0].generation, c)
		r.adopted, q.inError = q.inError[0], q.inError[1:]
	case q.adopted != nil:
		r = newImportRun(q, q.adopted.generation, c)
		r.adopted, q.adopted = q.adopted, nil
	case q.rebuilding != nil && len(q.rebuilding.upTo) == 0:
		q.rebuilding.close()
		r = newImportRun(q, q.rebuilding, c)
		q.rebuilding = nil
	default:
		return nil
	}
	q.running = r
	return r
}

// due returns the open generation if there is something to do for it, how long it
// may still stay open, and whether it has rows: only these take a slot.
func (q *tableQueue) due() (g *generation, wait time.Duration, rows bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.next()
}

// next is due, with the lock held.
func (q *tableQueue) next() (g *generation, wait time.Duration, rows bool) {
	g = q.open
	waits := q.waits() > 0
	switch {
	case q.rebuilding != nil: // older rows first
		return nil, 0, false
	case len(q.full) > 0:
		return q.full[0], 0, true
	case g == nil || g.entries() == 0 && !waits && !g.dueNow:
		return nil, 0, false
	case q.complete(g), g == q.hurried, g.dueNow, g.asked != nil:
		return g, 0, g.entries() > 0 || waits
	}
	until := q.dueAt(g)
	if until.IsZero() {
		return nil, 0, false
	}
	// The clock that decides about times of day may be set.
	return g, min(time.Until(until), longestGateWait), true
}

// dueAt is when the open generation is complete, whatever its size; zero: never.
func (q *tableQueue) dueAt(g *generation) (at time.Time) {
	if g.entries() > 0 {
		at = g.until
	}
	oldest := g.oldest
	if came, written := q.oldest(); !came.IsZero() {
		at = slots.Sooner(at, q.mapping.Until(came, q.importTime()))
		oldest = g.before(oldest, written)
	}
	if oldest.IsZero() || at.IsZero() {
		return at
	}
	// A restart, a reload or another owner is no reason to wait longer.
	return slots.Sooner(at, q.mapping.ResumedUntil(oldest, g.resumed, q.importTime()))
}

// unsent are the generations that are not on their way, in their order.
func (q *tableQueue) unsent() []*generation {
	if q.open == nil {
		return q.full
	}
	return append(slices.Clip(q.full), q.open)
}

// detach makes the generation the one on its way, unless it was discarded, or calls have
// emptied it. What waits for calls goes with it: an error is the disk's.
func (q *tableQueue) detach(g *generation, c cancelers) (*importRun, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	full := len(q.full) > 0 && q.full[0] == g
	if !full && q.open != g {
		return nil, nil
	}
	if err := q.spillAll(g); err != nil {
		return nil, err
	}
	switch {
	case full:
		q.full = q.full[1:]
	case g.entries() == 0 && !g.dueNow:
		return nil, nil
	default:
		g.close()
		q.open = nil
	}
	q.running = newImportRun(q, g, c)
	for _, m := range q.members {
		m.dualLane.keys.Seal()
	}
	return q.running, nil
}

// stop drops what waits and lets the import run, which it returns, take no further
// step; nil: there is none.
func (q *tableQueue) stop() *importRun {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, g := range q.full {
		g.drop()
	}
	q.full = nil
	if q.open != nil {
		q.open.drop()
		q.open = nil
	}
	if q.rebuilding != nil {
		q.rebuilding.drop()
		q.rebuilding = nil
	}
	q.adopted, q.inError = nil, nil
	q.dropWaiting()
	for _, m := range q.members {
		m.dualLane = &dualLane{keys: reconcile.Keys{Refused: q.batcher.mayBeRefused}} // its records are read again
	}
	if q.running != nil {
		q.running.cancelers.stop()
	}
	return q.running
}

// cutOff cuts an import run off.
func (q *tableQueue) cutOff(r *importRun) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.cancelers.cut()
	if q.running == r {
		q.running = nil
	}
}

// locked does something with the queue locked.
func (q *tableQueue) locked(do func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	do()
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it has not looked since the last one
	}
}

// pausedWait is how soon a queue that is paused asks again.
const pausedWait = time.Second

// paused reports whether a person has paused a mapping of the queue.
func (q *tableQueue) paused() bool {
	paused := q.batcher.cfg.Paused
	return paused != nil && slices.ContainsFunc(q.members, func(m *member) bool { return paused(m.Name) })
}

// gated is how long the gate holds a file of the queue back: an execution takes a
// slot of every table it loads, so that the tightest one decides.
func (q *tableQueue) gated(imp *contract.Import, further bool) (wait time.Duration) {
	for _, m := range q.members {
		wait = max(wait, q.batcher.cfg.Gate.Wait(m.Name, imp, further))
	}
	return min(wait, longestGateWait)
}

// exhausted tells the gate that the service has no import left on the day of at. Of which
// table of a bundle it does not say.
func (q *tableQueue) exhausted(at time.Time) (wait time.Duration) {
	for _, m := range q.members {
		wait = max(wait, q.batcher.cfg.Gate.Refused(m.Name, at))
	}
	return wait
}

// hurry makes the open generation due and returns all whose rows are not
// confirmed yet.
func (q *tableQueue) hurry() (rows []*generation) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running != nil {
		rows = append(rows, q.running.generation)
	}
	if q.rebuilding != nil {
		rows = append(rows, q.rebuilding)
	}
	rows = append(rows, q.full...)
	if q.open != nil && q.openRows() {
		q.hurried = q.open
		rows = append(rows, q.open)
		notify(q.wake)
	}
	return rows
}

// holds reports whether any of the generations is not confirmed yet. One that is loaded,
// and only waits for the other lane, is not held: that may wait for a file of a child. One
// that was discarded is not held: its records are read again, and so are those of
// what waits for it, since both have one owner.
func (q *tableQueue) holds(rows []*generation) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.adopted != nil {
		return true
	}
	for _, g := range rows {
		if g == q.open && q.openRows() || slices.Contains(q.full, g) || q.running != nil && g == q.running.generation && !q.running.waitsForOtherLane() || q.rebuilding != nil && g == q.rebuilding {
			return true
		}
	}
	return false
}

// waitsForOtherLane reports whether its files are loaded and nothing but the other lane
// holds it up. The queue is locked.
func (r *importRun) waitsForOtherLane() bool {
	return r.now.Step == contract.Reconciling && r.now.WaitsFor != ""
}

func (q *tableQueue) lacksRecords() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.rebuilding != nil && len(q.rebuilding.upTo) > 0
}
