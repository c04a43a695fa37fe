package batcher

import (
	"fmt"
	"slices"
	"time"

	"github.com/feedsink/feedsink/batcher/contest"
	"github.com/feedsink/feedsink/schemas"
)

func (l *line) append(w *schemas.Write, p Partition, offset int64) error {
	if _, ok := l.Loads[w.Op]; !ok {
		return schemas.Invalid("", "op "+w.Op.String()+" has no import in this mapping")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	g, where := l.generationFor(p, offset)
	if err := l.add(g, w); err != nil {
		return err
	}
	g.hold(p, offset)
	l.row(w, p, offset, where)
	return nil
}

// appendAgain adds a key's newest state that has landed to the open generation.
// Rows of the key that wait there are newer: they follow it once more. It reports
// false if the other lane has written the key meanwhile; nothing is added then.
func (l *line) appendAgain(known *both, n contest.Newest) (current bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	newer, current := known.keys.Behind(n)
	p, ok := n.Row.Partition.(Partition)
	if !current || !ok || known != l.both {
		return false, nil
	}
	rows := append(slices.Clone(n.Writes), newer...)
	for i := range rows {
		if _, ok := l.Loads[rows[i].Op]; !ok {
			return true, schemas.Invalid("", "op "+rows[i].Op.String()+" has no import in this mapping")
		}
	}
	g := l.opened()
	if err := l.makeRoom(g); err != nil {
		return true, err
	}
	for i := range rows {
		if err := l.encode(g, &rows[i]); err != nil {
			return true, err
		}
	}
	g.claims = append(g.claims, p.Claim(n.Row.Offset)) // beside the claim on newer records
	return true, nil
}

// add adds a row to a generation.
func (l *line) add(g *generation, w *schemas.Write) error {
	if err := l.makeRoom(g); err != nil {
		return err
	}
	return l.encode(g, w)
}

// makeRoom lets rows follow for which the disk is not needed.
func (l *line) makeRoom(g *generation) error {
	if err := g.makeRoom(); err != nil {
		return fmt.Errorf("spool of mapping %s: %w", l.Name, err)
	}
	return nil
}

// encode adds a row to the generation's memory.
func (l *line) encode(g *generation, w *schemas.Write) error {
	start := len(g.memory)
	memory, err := l.rows.appendEntry(g.memory, w)
	g.memory = memory
	if err != nil {
		return err
	}
	before := l.complete(g)
	g.added(start)
	if g.entries == 1 {
		g.opened = time.Now()
		poke(l.wake)
	}
	if l.complete(g) && !before {
		poke(l.wake)
	}
	return nil
}

// generationFor is the generation that the record belongs to. One that is built
// again may have landed before: nothing is dropped from it.
func (l *line) generationFor(p Partition, offset int64) (*generation, contest.Where) {
	if l.rebuilding != nil && l.rebuilding.takes(p, offset) {
		return l.rebuilding.generation, contest.Flying
	}
	return l.opened(), contest.Open
}

// opened is the open generation.
func (l *line) opened() *generation {
	if l.open == nil {
		l.open = l.newGeneration()
	}
	return l.open
}

func (l *line) newGeneration() *generation {
	name := l.batcher.chance.name(l.Name) + journalSuffix
	return &generation{
		journal: newJournal(l.batcher.spool, name, l.batcher.segment, l.Roll.Rows),
		byOwner: map[Partition]Claim{},
	}
}

// hold keeps the record's offset below the watermark. Records of one partition
// come in runs, so the last claim is usually the one.
func (g *generation) hold(p Partition, offset int64) {
	if p == g.last {
		g.holding.Extend(offset)
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
	g.last, g.holding = p, claim
}
