package batcher

import (
	"context"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/feedsink/feedsink/batcher/contest"
	"github.com/feedsink/feedsink/schemas"
)

// lookEvery is how often the other lane's ledger is looked at while keys depend
// on it.
const lookEvery = time.Second

// maxFollowed bounds the keys that are followed for one mapping, each with its
// newest state; Config.MaxFollowed bounds what those of all mappings take.
const maxFollowed = 100_000

// dualLane is what is known of a mapping's keys that the other lane writes too. It is
// guarded by the line's lock.
type dualLane struct {
	keys contest.Keys
	// suspect ends, for each partition, what a former owner had sealed: what the
	// other lane had confirmed when that was sent cannot be seen any more.
	suspect map[Partition]int64
	// ends are where the logs ended after everything sent had landed; nil: not
	// settling.
	ends     map[Partition]int64
	settling bool
	// halted is since when partitions are seen to be halted in either lane; it is the
	// import run's own.
	halted map[Partition]time.Time
	// waits is since when partitions are seen to wait for the other lane's routes;
	// likewise.
	waits map[Partition]time.Time
}

// Other tells of a write of the other lane to one of the mapping's keys. Like
// Append it is called in the order of the log; its error is the disk's, and the
// same call may be made again.
func (b *Batcher) Other(mapping string, w schemas.Write, p Partition, offset int64) error {
	m, ok := b.byName[mapping]
	if !ok {
		return unknown(mapping)
	}
	if !m.DualLane || w.Key == "" {
		return nil
	}
	l := m.line
	l.mu.Lock()
	defer l.mu.Unlock()
	e := contest.Effect{Confirmed: b.cfg.Peer.Confirmed(p, offset), Doubtful: offset < m.dualLane.suspect[p]}
	hash := xxhash.Sum64String(w.Key)
	e.Former = l.running != nil && l.running.adopted != nil && m.in(l.running.generation, hash) ||
		l.adopted != nil && m.in(l.adopted.generation, hash)
	e.Flying = e.Former || l.running != nil && m.in(l.running.generation, hash) ||
		l.rebuilding != nil && m.in(l.rebuilding.generation, hash)
	if end, ok := m.dualLane.ends[p]; ok {
		e.Late = offset >= end
	}
	if g := l.open; g != nil && m.in(g, hash) {
		if err := m.makeRoom(g); err != nil {
			return err
		}
		if m.overrules(g, &w) {
			if w.Op != schemas.Patch {
				e.Dropped = &g.fate
			}
		} else {
			e.Overtaken = true
		}
		e.Flying = e.Flying || g.repeats
	}
	m.dualLane.keys.Other(&w, contest.At{Partition: p, Offset: offset}, e)
	return nil
}

// Take takes a write that the routes give to the other lane, and that this lane
// has to bring to the table all the same: as a row, or where a row cannot say it,
// as part of the key's newest state, which is sent by calls once the file has
// landed. The file is due at once. Otherwise it is like Append.
func (b *Batcher) Take(mapping string, w schemas.Write, p Partition, offset int64, row bool) error {
	m, ok := b.byName[mapping]
	if !ok {
		return unknown(mapping)
	}
	if row {
		if err := m.append(&w, p, offset, false); err != nil {
			return err
		}
	}
	l := m.line
	l.mu.Lock()
	defer l.mu.Unlock()
	g, where := l.generationFor(p, offset)
	if !row {
		g.hold(p, offset)
		m.dualLane.keys.Take(&w, contest.At{Partition: p, Offset: offset}, where)
	}
	g.soon = true
	poke(l.wake)
	return nil
}

// overrules adds what the write does to the key's row in the open file: a delete
// or an upsert drops it, a patch is merged into it. It reports false for a write
// that the row must stay beside.
func (m *member) overrules(g *generation, w *schemas.Write) bool {
	drop := w.Op == schemas.Delete || w.Op == schemas.Upsert && m.names(w)
	return (drop || w.Op == schemas.Patch) && g.journals[m.index].Overrule(m.rows, w, drop)
}

// names reports whether an upsert leaves nothing of what a row could say: that of
// a profile always (operation 1), that of a table record if it names all columns,
// since the document does not say whether operation 4 keeps the others.
func (m *member) names(w *schemas.Write) bool {
	return !w.Table.Custom || m.rows.Names(w)
}

// row tells the keys of a row, with the lock held.
func (m *member) row(w *schemas.Write, p Partition, offset int64, where contest.Where) {
	if m.DualLane && m.dualLane.keys.Follows(w.Key) {
		said := m.rows.Stated(w)
		m.dualLane.keys.Row(&said, contest.At{Partition: p, Offset: offset}, where)
	}
}

// Covered tells of a row that is in an adopted import's file.
func (b *Batcher) Covered(mapping string, w schemas.Write, p Partition, offset int64) {
	m, ok := b.byName[mapping]
	if !ok || !m.DualLane {
		return
	}
	l := m.line
	l.mu.Lock()
	defer l.mu.Unlock()
	hash := xxhash.Sum64String(w.Key)
	switch {
	case l.running != nil:
		l.running.generation.journals[m.index].Mark(hash)
	case l.adopted != nil:
		l.adopted.generation.journals[m.index].Mark(hash)
	}
	m.row(&w, p, offset, contest.Flying)
}

// Landed tells of a row that was confirmed before a restart.
func (b *Batcher) Landed(mapping string, w schemas.Write, p Partition, offset int64) {
	m, ok := b.byName[mapping]
	if !ok || !m.DualLane {
		return
	}
	m.line.mu.Lock()
	defer m.line.mu.Unlock()
	m.row(&w, p, offset, contest.Landed)
}

// follow keeps looking at the other lane's ledger while keys depend on it.
func (b *Batcher) follow(ctx context.Context) {
	for {
		if pause(ctx, lookEvery) != nil {
			return
		}
		if !b.follows() {
			continue
		}
		if err := b.cfg.Peer.Look(ctx); err != nil {
			if ctx.Err() == nil {
				b.cfg.Log.Warn("what the other lane has confirmed cannot be seen; asking again", "err", err)
			}
			continue
		}
		for _, m := range b.byName {
			m.line.mu.Lock()
			m.letGo()
			m.line.mu.Unlock()
		}
	}
}

func (b *Batcher) follows() bool {
	for _, m := range b.byName {
		m.line.mu.Lock()
		n := m.dualLane.keys.Len()
		m.line.mu.Unlock()
		if n > 0 {
			return true
		}
	}
	return false
}

// letGo lets go of keys that nothing depends on any more.
func (m *member) letGo() {
	if m.DualLane && len(m.dualLane.suspect) == 0 {
		m.dualLane.keys.Forget(m.line.confirmed)
	}
}

func (l *tableQueue) confirmed(at contest.At) bool {
	p, ok := at.Partition.(Partition)
	return ok && l.batcher.cfg.Peer.Confirmed(p, at.Offset)
}

// Ready reports whether there is room for more rows: in the spool, and for keys
// that both lanes write. An import that is being settled reads on all the same:
// only that ends it.
func (b *Batcher) Ready() bool {
	ready := !b.Full()
	var bytes int64
	for _, m := range b.byName {
		m.line.mu.Lock()
		reads := m.dualLane.settling || len(m.dualLane.suspect) > 0
		n := m.dualLane.keys.Len()
		bytes += m.dualLane.keys.Bytes()
		m.line.mu.Unlock()
		if reads {
			return true
		}
		ready = ready && n < maxFollowed
	}
	return ready && (b.cfg.MaxFollowed == 0 || bytes < b.cfg.MaxFollowed)
}

// in reports whether the generation may hold a row of the mapping's key.
func (m *member) in(g *generation, hash uint64) bool { return g.journals[m.index].Has(hash) }
