package batcher

import (
	"context"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/schemas"
)

// letGoEvery is how often keys are let go of that, as the peer has seen the other lane's
// ledger last, nothing depends on any more.
const letGoEvery = time.Second

// maxFollowed bounds the keys that are followed for one mapping, each with its
// newest state; Config.MaxFollowed bounds what those of all mappings take.
const maxFollowed = 100_000

// dualLane is what is known of a mapping's keys that the other lane writes too. It is
// guarded by the queue's lock.
type dualLane struct {
	keys reconcile.Keys
	// suspect ends, for each partition, what a former owner had sealed: what the
	// other lane had confirmed when that was sent cannot be seen any more.
	suspect map[Partition]int64
	// ends are where the logs ended after everything sent had landed; nil: not
	// reconciling.
	ends    map[Partition]int64
	reading bool // the logs are read to their ends although there is no room
	// halted is since when partitions are seen to be halted in either lane; it is the
	// import run's own.
	halted map[Partition]time.Time
	// waits is since when partitions are seen to wait for the other lane's routes;
	// likewise.
	waits map[Partition]time.Time
}

func (b *Batcher) mayBeRefused(at reconcile.At) bool {
	p, ok := at.Partition.(Partition)
	may, _ := b.cfg.Peer.Refused(p, at.Offset)
	return ok && may
}

func (b *Batcher) refused(at reconcile.At) bool {
	p, ok := at.Partition.(Partition)
	_, is := b.cfg.Peer.Refused(p, at.Offset)
	return ok && is
}

// Other tells of a write of the other lane to one of the mapping's keys. Where this lane takes it, older
// rows stay: it follows them as a row, or once their file has landed. Like Append it is called in
// the order of the log; its error is the disk's, or ErrBusy, and the same call may be made again.
func (b *Batcher) Other(mapping string, w schemas.Write, p Partition, offset int64, taken bool) error {
	m, ok := b.byName[mapping]
	if !ok {
		return unknown(mapping)
	}
	if !m.DualLane || w.Key == "" {
		return nil
	}
	q := m.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	calling, err := m.meet(w.Key)
	if err != nil {
		return err
	}
	e := reconcile.Effect{Confirmed: b.cfg.Peer.Confirmed(p, offset), Doubtful: offset < m.dualLane.suspect[p], Drops: m.rows.Drops(&w)}
	hash := xxhash.Sum64String(w.Key)
	e.Flying, e.Former = m.isSent(hash)
	if end, ok := m.dualLane.ends[p]; ok {
		e.Late = offset >= end
	}
	unsent := q.unsent()
	for _, g := range unsent { // all or nothing
		if err := m.makeRoom(g); err != nil {
			return err
		}
	}
	for i, g := range unsent {
		if !m.in(g, hash) {
			continue
		}
		switch {
		case taken:
		case !m.overrules(g, &w):
			e.Overtaken = i + 1
		case w.Op != schemas.Patch:
			e.Dropped = append(e.Dropped, &g.fate)
		}
		e.Flying, e.Late = e.Flying || g.repeats, e.Late && !g.repeats // a call of its row may have landed just now
	}
	m.dualLane.keys.Other(&w, reconcile.At{Partition: p, Offset: offset}, e)
	if calling {
		m.dualLane.keys.Calling(w.Key)
	}
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
	q := m.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	g, where, err := q.generationFor(p, offset)
	if err != nil {
		return err
	}
	if !row {
		m.queue.hold(g, p, offset)
		m.dualLane.keys.Take(&w, reconcile.At{Partition: p, Offset: offset}, where)
	}
	g.dueNow = true
	notify(q.wake)
	return nil
}

// overrules adds what the write does to the key's row in a file that is not sent: a delete
// or an upsert drops it, a patch is merged into it. It reports false for a write
// that the row must stay beside: a merge, which creates again what a row deletes.
func (m *member) overrules(g *generation, w *schemas.Write) bool {
	drop := m.rows.Drops(w)
	return (drop || w.Op == schemas.Patch) && g.journals[m.index].Overrule(m.rows, w, drop)
}

// noteRow tells the keys of a row, with the lock held.
func (m *member) noteRow(w *schemas.Write, p Partition, offset int64, where reconcile.Where) {
	if m.DualLane && m.dualLane.keys.Follows(w.Key) {
		said := m.rows.Stated(w)
		m.dualLane.keys.Row(&said, reconcile.At{Partition: p, Offset: offset}, where)
	}
}

// Covered tells of a row that is in an adopted import's file.
func (b *Batcher) Covered(mapping string, w schemas.Write, p Partition, offset int64) {
	m, ok := b.byName[mapping]
	if !ok || !m.DualLane && !m.Auto {
		return
	}
	q := m.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	hash := xxhash.Sum64String(w.Key)
	if m.Auto { // whichever of them has it: none of its rows is called before
		for _, a := range append(slices.Clip(q.inError), q.adopted) {
			if a != nil {
				a.generation.journals[m.index].Mark(hash)
			}
		}
	}
	switch {
	case q.running != nil:
		q.running.generation.journals[m.index].Mark(hash)
	case q.adopted != nil:
		q.adopted.generation.journals[m.index].Mark(hash)
	}
	m.noteRow(&w, p, offset, reconcile.Flying)
}

// Landed tells of a row that was confirmed before a restart.
func (b *Batcher) Landed(mapping string, w schemas.Write, p Partition, offset int64) {
	m, ok := b.byName[mapping]
	if !ok || !m.DualLane {
		return
	}
	m.queue.locked(func() { m.noteRow(&w, p, offset, reconcile.Landed) })
}

// follow keeps letting go of keys as the other lane confirms their writes.
func (b *Batcher) follow(ctx context.Context) {
	for retry.Sleep(ctx, max(letGoEvery, b.cfg.LookEvery)) == nil {
		for _, m := range b.byName {
			m.queue.locked(m.letGo)
		}
	}
}

// letGo lets go of keys that nothing depends on any more.
func (m *member) letGo() {
	if m.DualLane && len(m.dualLane.suspect) == 0 {
		m.dualLane.keys.Forget(m.queue.confirmed)
	}
}

func (q *tableQueue) confirmed(at reconcile.At) bool {
	p, ok := at.Partition.(Partition)
	return ok && q.batcher.cfg.Peer.Confirmed(p, at.Offset)
}

// Ready reports whether there is room for more rows: in the spool, and for keys
// that both lanes write. A spool that is found full makes room. An import that is being reconciled reads on all the same:
// only that ends it.
func (b *Batcher) Ready() bool {
	ready := !b.Full()
	if !ready {
		notify(b.noRoom)
	}
	var bytes int64
	for _, m := range b.byName {
		m.queue.mu.Lock()
		reads := m.dualLane.reading || len(m.dualLane.suspect) > 0
		n := m.dualLane.keys.Len()
		bytes += m.dualLane.keys.Bytes()
		m.queue.mu.Unlock()
		if reads {
			return true
		}
		ready = ready && n < maxFollowed
	}
	return ready && (b.cfg.MaxFollowed == 0 || bytes < b.cfg.MaxFollowed)
}
