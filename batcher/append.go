package batcher

import (
	"fmt"
	"slices"
	"time"

	"github.com/feedsink/feedsink/batcher/contest"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/schemas"
)

// append adds a row. repeated says that it may have landed before.
func (m *member) append(w *schemas.Write, p Partition, offset int64, repeated bool) error {
	l := m.line
	if err := m.accepts.row(w.Op); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	g, where := l.generationFor(p, offset)
	if err := m.add(g, w); err != nil {
		return err
	}
	g.hold(p, offset)
	g.repeats = g.repeats || repeated
	m.row(w, p, offset, where)
	return nil
}

// appendAgain adds a key's newest state that has landed to the open generation.
// Rows of the key that wait there are newer: they follow it once more. It reports
// false if the other lane has written the key meanwhile; nothing is added then.
func (m *member) appendAgain(known *dualLane, n contest.Newest) (current bool, err error) {
	l := m.line
	l.mu.Lock()
	defer l.mu.Unlock()
	newer, current := known.keys.Behind(n)
	p, ok := n.Row.Partition.(Partition)
	if !current || !ok || known != m.dualLane {
		return false, nil
	}
	rows := append(slices.Clone(n.Rows), newer...)
	for i := range rows {
		if err := m.accepts.row(rows[i].Op); err != nil {
			return true, err
		}
	}
	g := l.opened()
	if err := m.makeRoom(g); err != nil {
		return true, err
	}
	for i := range rows {
		if err := m.encode(g, &rows[i]); err != nil {
			return true, err
		}
	}
	g.claims = append(g.claims, p.Claim(n.Row.Offset)) // beside the claim on newer records
	return true, nil
}

// add adds a row to a generation.
func (m *member) add(g *generation, w *schemas.Write) error {
	if err := m.makeRoom(g); err != nil {
		return err
	}
	return m.encode(g, w)
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
	l := m.line
	before := l.complete(g)
	g.journals[m.index].Count(entry)
	if g.entries() == 1 {
		g.opened = time.Now()
		poke(l.wake)
	}
	if l.complete(g) && !before {
		poke(l.wake)
	}
}

// generationFor is the generation that the record belongs to. One that is built
// again may have landed before: nothing is dropped from it.
func (l *tableQueue) generationFor(p Partition, offset int64) (*generation, contest.Where) {
	if l.rebuilding != nil && l.rebuilding.takes(p, offset) {
		return l.rebuilding.generation, contest.Flying
	}
	return l.opened(), contest.Open
}

// opened is the open generation.
func (l *tableQueue) opened() *generation {
	if l.open == nil {
		l.open = l.newGeneration()
	}
	return l.open
}

func (l *tableQueue) newGeneration() *generation {
	g := &generation{byOwner: map[Partition]Claim{}}
	for _, m := range l.members {
		name := l.batcher.rnd.name(m.Name) + spool.JournalSuffix
		g.journals = append(g.journals, spool.NewJournal(l.batcher.spool, name, l.batcher.segment, l.Roll.Rows))
	}
	return g
}

// hold keeps the record's offset below the watermark. Records of one partition
// come in runs, so the last claim is usually the one. A record that is a row of
// several mappings of a bundle is held once.
func (g *generation) hold(p Partition, offset int64) {
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
	}
	g.last, g.holding, g.newest = p, claim, offset
}
