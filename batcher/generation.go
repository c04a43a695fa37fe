package batcher

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/batcher/waiting"
	"github.com/feedsink/feedsink/schemas"
)

// generation is the rows that will go out together and the hold on their offsets.
type generation struct {
	number   int64            // of those that were opened, in their order
	journals []*spool.Journal // of the queue's members
	opened   time.Time        // when its first row came
	until    time.Time        // when it is complete, whatever its size; zero: never
	resumed  time.Time        // when it was opened as the first one since the table became this process': rows of a file that a former owner had open, or this one before a restart or a reload, may come; zero: it is another one
	began    time.Time        // of that one: when that was
	oldest   time.Time        // of that one: when its oldest record was written; zero: it is not known
	byOwner  map[Partition]Claim
	claims   []Claim // in the order of their first record
	last     Partition
	newest   int64           // offset that was held last
	holding  Claim           // last's
	width    int64           // how many rows that record has so far
	widest   int64           // the most that one has
	dueNow   bool            // it is due at once; guarded by queue.mu
	asked    *contract.Asked // to be sent, while it was open; nil: it was not; guarded by queue.mu
	repeats  bool            // rows in it may have landed before; guarded by queue.mu
	fate     reconcile.Fate  // of rows that writes of the other lane have dropped; guarded by queue.mu

	// Of one that is built again from the records it had.
	from contract.Import     // the file whose turn it is
	upTo map[Partition]int64 // partitions that still have records to give; guarded by queue.mu
}

func (q *tableQueue) complete(g *generation) bool {
	rows, bytes := g.size()
	roll := q.mapping.Roll
	return roll.Rows > 0 && rows >= roll.Rows || roll.Bytes > 0 && bytes >= roll.Bytes || q.fills(g, rows, bytes)
}

// entries is how many writes the generation has taken.
func (g *generation) entries() (n int64) {
	for _, j := range g.journals {
		n += j.Entries
	}
	return n
}

// size is how many distinct keys the generation has, and the bytes of their rows.
func (g *generation) size() (rows, bytes int64) {
	for _, j := range g.journals {
		rows += j.Distinct
		bytes += j.Bytes
	}
	return rows, bytes
}

// drop frees what the journals take, as journal.drop does.
func (g *generation) drop() {
	for _, j := range g.journals {
		j.Drop()
	}
}

// append adds a row. repeated says that it may have landed before.
func (m *member) append(w *schemas.Write, p Partition, offset int64, repeated bool) error {
	q := m.queue
	if err := m.takes(w.Op); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	g, where, err := q.generationFor(p, offset)
	if err != nil {
		return err
	}
	if k := m.waiting.Key(w.Key); k != nil && where == reconcile.Open {
		if k.State != waiting.Resting {
			return ErrBusy
		}
		if err := m.spill(k, g.number); err != nil {
			return err
		}
	}
	return m.put(g, where, w, p, offset, repeated)
}

// put puts a row into the generation's journal, the queue locked.
func (m *member) put(g *generation, where reconcile.Where, w *schemas.Write, p Partition, offset int64, repeated bool) error {
	if err := m.makeRoom(g); err != nil {
		return err
	}
	if err := m.encode(g, w); err != nil {
		return err
	}
	m.queue.hold(g, p, offset)
	g.repeats = g.repeats || repeated
	m.noteRow(w, p, offset, where)
	return nil
}

// appendAgain adds a key's newest state that has landed to the open generation.
// Rows of the key that wait there are newer: they follow it once more, and so does what
// the other lane's writes have done to them. It reports false if the other lane has
// written the key meanwhile; nothing is added then.
func (m *member) appendAgain(known *dualLane, n reconcile.Newest) (current bool, err error) {
	q := m.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	newer, current := known.keys.Behind(n)
	p, ok := n.Row.Partition.(Partition)
	if !current || !ok || known != m.dualLane {
		return false, nil
	}
	rows := make([]reconcile.Newer, 0, len(n.Rows)+len(newer))
	for i := range n.Rows {
		rows = append(rows, reconcile.Newer{Write: n.Rows[i], Row: true})
	}
	rows = append(rows, newer...)
	for i := range rows {
		if err := m.takes(rows[i].Op); err != nil && rows[i].Row {
			return true, err
		}
	}
	g := q.opened()
	if err := m.makeRoom(g); err != nil {
		return true, err
	}
	for i := range rows {
		w := &rows[i].Write
		if rows[i].Row {
			if err := m.encode(g, w); err != nil {
				return true, err
			}
		} else if !m.overrules(g, w) {
			known.keys.Overtaken(n.Key)
		}
	}
	// A newer row may be in a file that goes before: were it confirmed with that and this one not,
	// a restart would send the older state alone.
	g.claims = append(g.claims, p.Claim(n.Row.Offset))
	for i := range newer {
		if p, ok := newer[i].Partition.(Partition); ok && newer[i].Earlier {
			g.claims = append(g.claims, p.Claim(newer[i].Offset))
		}
	}
	return true, nil
}

// makeRoom lets rows follow for which the disk is not needed.
func (m *member) makeRoom(g *generation) error {
	if err := g.journals[m.index].MakeRoom(); err != nil {
		return fmt.Errorf("spool of mapping %s: %w", m.Name, err)
	}
	return nil
}

// encode adds a row to the generation's memory.
func (m *member) encode(g *generation, w *schemas.Write) error {
	entry, err := g.journals[m.index].Add(m.rows, w)
	if err != nil {
		return err
	}
	m.count(g, entry)
	return nil
}

// count counts an entry that was added as a row, and wakes who waits for it.
func (m *member) count(g *generation, entry []byte) {
	q := m.queue
	before := q.complete(g)
	g.journals[m.index].Count(entry)
	if g.entries() == 1 {
		g.opened = time.Now()
		g.until = q.mapping.Until(g.opened, q.importTime())
		notify(q.wake)
	}
	if q.complete(g) && !before {
		notify(q.wake)
	}
}

// generationFor is the generation that the record belongs to. One that is built
// again may have landed before: nothing is dropped from it.
func (q *tableQueue) generationFor(p Partition, offset int64) (*generation, reconcile.Where, error) {
	if q.rebuilding != nil {
		if end, has := q.rebuilding.upTo[p]; has && offset < end {
			return q.rebuilding, reconcile.Flying, nil
		}
	}
	err := q.closeFull(p, offset)
	return q.opened(), reconcile.Open, err
}

// opened is the open generation.
func (q *tableQueue) opened() *generation {
	if q.open == nil {
		q.open = q.newGeneration()
		if !q.began.IsZero() {
			q.open.resumed, q.open.began, q.began = time.Now(), q.began, time.Time{}
		}
		q.opens++
		q.open.number = q.opens
	}
	return q.open
}

// usualRows is how many distinct keys a file is prepared for that is complete at no
// number of them.
const usualRows = 500_000

func (q *tableQueue) newGeneration() *generation {
	g := &generation{byOwner: map[Partition]Claim{}, widest: 1}
	for _, m := range q.members {
		name := spool.NewName(m.Name, q.batcher.rnd) + spool.JournalSuffix
		rows := cmp.Or(q.mapping.MaxFile.Rows, q.mapping.Roll.Rows, usualRows)
		g.journals = append(g.journals, spool.NewJournal(q.batcher.spool, name, q.batcher.segment, rows))
	}
	return g
}

// hold keeps the record's offset below the watermark. Records of one partition
// come in runs, so the last claim is usually the one. A record that is a row of
// several mappings of a bundle is held once.
func (q *tableQueue) hold(g *generation, p Partition, offset int64) {
	if p != g.last || offset != g.newest {
		g.width = 0
	}
	g.width++
	g.widest = max(g.widest, g.width)
	if p == g.last {
		if offset != g.newest {
			g.holding.Extend(offset)
		}
		g.newest = offset
		return
	}
	claim, ok := g.byOwner[p]
	if ok {
		claim.Extend(offset)
	} else {
		claim = p.Claim(offset)
		g.byOwner[p] = claim
		g.claims = append(g.claims, claim)
		if oldest := g.before(g.oldest, claim.Oldest()); oldest != g.oldest {
			g.oldest = oldest
			notify(q.wake)
		}
	}
	g.last, g.holding, g.newest = p, claim, offset
}

// before is the earlier of oldest, which may be zero, and of a time at which a record was
// written, where that was before the table became this process'.
func (g *generation) before(oldest, written time.Time) time.Time {
	if written.IsZero() || !written.Before(g.began) || !oldest.IsZero() && !written.Before(oldest) {
		return oldest
	}
	return written
}

// close tells the claims that no row follows.
func (g *generation) close() {
	for _, c := range g.claims {
		c.Close()
	}
}

// Encoder encodes the writes of one mapping as the rows that they will be, before
// it is their turn: a row depends on nothing but its write.
type Encoder struct {
	member *member
	rows   *spool.Rows
}

// Encoder returns a new one.
func (b *Batcher) Encoder(mapping string) (*Encoder, error) {
	m, ok := b.byName[mapping]
	if !ok {
		return nil, unknown(mapping)
	}
	r, err := m.Rows()
	if err != nil {
		return nil, err
	}
	return &Encoder{m, r}, nil
}

var errBothLanes = errors.New("the other lane writes the table too: Append has to see the whole write")

// AppendRow appends the row of w to dst. On an error dst comes back as it was, and
// the batcher's Append decides what becomes of the write. It is for one goroutine,
// and any number of encoders may be at work while rows are filed.
func (e *Encoder) AppendRow(dst []byte, w *schemas.Write) ([]byte, error) {
	if e.member.DualLane {
		return dst, errBothLanes
	}
	if err := e.member.takes(w.Op); err != nil {
		return dst, err
	}
	return e.rows.AppendEntry(dst, w)
}

// Expect is told of rows, end to end, that are about to be filed.
func (e *Encoder) Expect(rows []byte) {
	q := e.member.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if g := q.open; g != nil {
		g.journals[e.member.index].Expect(rows)
	}
}

// File is the batcher's Append for a write whose row an encoder of the mapping has
// made. The row is copied. An error is the disk's, as Append's.
func (e *Encoder) File(row []byte, p Partition, offset int64) error {
	m := e.member
	q := m.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	g, _, err := q.generationFor(p, offset)
	if err != nil {
		return err
	}
	if err := m.makeRoom(g); err != nil {
		return err
	}
	m.count(g, g.journals[m.index].Put(row))
	q.hold(g, p, offset)
	return nil
}
