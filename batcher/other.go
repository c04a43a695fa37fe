package batcher

import (
	"context"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/feedsink/feedsink/batcher/contest"
	"github.com/feedsink/feedsink/schemas"
)

// lookEvery is how often the other lane's ledger is looked at while keys depend
// on it.
const lookEvery = time.Second

// maxFollowed bounds the keys that are followed for one mapping, each with its
// newest state.
const maxFollowed = 100_000

// both is what a line knows of keys that the other lane writes too. It is
// guarded by the line's lock.
type both struct {
	keys contest.Keys
	// suspect ends, for each partition, what a former owner had sealed: what the
	// other lane had confirmed when that was sent cannot be seen any more.
	suspect map[Partition]int64
	// ends are where the logs ended after everything sent had landed; nil: not
	// settling.
	ends     map[Partition]int64
	settling bool
}

// Other tells of a write of the other lane to one of the mapping's keys. Like
// Append it is called in the order of the log; its error is the disk's, and the
// same call may be made again.
func (b *Batcher) Other(mapping string, w schemas.Write, p Partition, offset int64) error {
	l, ok := b.byName[mapping]
	if !ok {
		return unknown(mapping)
	}
	if !l.Both || w.Key == "" {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	suspect := offset < l.both.suspect[p]
	e := contest.Effect{Confirmed: !suspect && b.cfg.Peer.Confirmed(p, offset)}
	hash := xxhash.Sum64String(w.Key)
	e.Flying = l.flight != nil && l.flight.generation.counter.has(hash) ||
		l.adopted != nil && l.adopted.generation.counter.has(hash) ||
		l.rebuilding != nil && l.rebuilding.counter.has(hash)
	if end, ok := l.both.ends[p]; ok {
		e.Late = offset >= end
	}
	if g := l.open; g != nil && g.counter.has(hash) {
		if err := g.makeRoom(); err != nil {
			return fmt.Errorf("spool of mapping %s: %w", l.Name, err)
		}
		if l.overrules(g, &w) {
			if w.Op != schemas.Patch {
				e.Dropped = &g.fate
			}
		} else {
			e.Overtaken = true
		}
	}
	l.both.keys.Other(&w, contest.At{Partition: p, Offset: offset}, e)
	return nil
}

// overrules adds what the write does to the key's row in the open file: a delete
// or an upsert drops it, a patch is merged into it. It reports false for a write
// that the row must stay beside.
func (l *line) overrules(g *generation, w *schemas.Write) bool {
	start := len(g.memory)
	entry := *w
	op := mergeRow
	switch {
	case w.Op == schemas.Delete, w.Op == schemas.Upsert && l.names(w):
		entry.Op, op = schemas.Delete, dropRows // an entry of the key alone
	case w.Op != schemas.Patch:
		return false
	}
	memory, err := l.rows.appendEntry(g.memory, &entry)
	g.memory = memory
	if err != nil {
		return false // no row can say it
	}
	g.memory[start+entryOp] = byte(op)
	return true
}

// names reports whether an upsert leaves nothing of what a row could say: that of
// a profile always (operation 1), that of a table record if it names all columns,
// since the document does not say whether operation 4 keeps the others.
func (l *line) names(w *schemas.Write) bool {
	if !w.Table.Custom {
		return true
	}
	for i := range l.rows.columns {
		if i != l.rows.key && !l.rows.columns[i].find(w.Cells) {
			return false
		}
	}
	return true
}

// row tells the keys of a row, with the lock held.
func (l *line) row(w *schemas.Write, p Partition, offset int64, where contest.Where) {
	if l.Both {
		l.both.keys.Row(w, contest.At{Partition: p, Offset: offset}, where)
	}
}

// Covered tells of a row that is in an adopted import's file.
func (b *Batcher) Covered(mapping string, w schemas.Write, p Partition, offset int64) {
	l, ok := b.byName[mapping]
	if !ok || !l.Both {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	hash := xxhash.Sum64String(w.Key)
	switch {
	case l.flight != nil:
		l.flight.generation.counter.first(hash)
	case l.adopted != nil:
		l.adopted.generation.counter.first(hash)
	}
	l.row(&w, p, offset, contest.Flying)
}

// Landed tells of a row that was confirmed before a restart.
func (b *Batcher) Landed(mapping string, w schemas.Write, p Partition, offset int64) {
	l, ok := b.byName[mapping]
	if !ok || !l.Both {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.row(&w, p, offset, contest.Landed)
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
		for _, l := range b.lines {
			l.mu.Lock()
			l.letGo()
			l.mu.Unlock()
		}
	}
}

func (b *Batcher) follows() bool {
	for _, l := range b.lines {
		l.mu.Lock()
		n := l.both.keys.Len()
		l.mu.Unlock()
		if n > 0 {
			return true
		}
	}
	return false
}

// letGo lets go of keys that nothing depends on any more.
func (l *line) letGo() {
	if l.Both && len(l.both.suspect) == 0 {
		l.both.keys.Forget(l.confirmed)
	}
}

func (l *line) confirmed(at contest.At) bool {
	p, ok := at.Partition.(Partition)
	return ok && l.batcher.cfg.Peer.Confirmed(p, at.Offset)
}

// Ready reports whether there is room for more rows: in the spool, and for keys
// that both lanes write. An import that is being settled reads on all the same:
// only that ends it.
func (b *Batcher) Ready() bool {
	ready := !b.Full()
	for _, l := range b.lines {
		l.mu.Lock()
		reads := l.both.settling || len(l.both.suspect) > 0
		n := l.both.keys.Len()
		l.mu.Unlock()
		if reads {
			return true
		}
		ready = ready && n < maxFollowed
	}
	return ready
}

// has reports whether a key with the hash may have been counted.
func (c keyCounter) has(hash uint64) bool {
	return len(c.words) > 0 && c.words[hash>>6&uint64(len(c.words)-1)]&(uint64(1)<<(hash&63)) != 0
}
