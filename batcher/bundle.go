package batcher

import (
	"fmt"
	"maps"
	"time"

	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/schemas"
)

// member is one mapping on its line: alone, or with the others of its bundle.
type member struct {
	Mapping
	line     *tableQueue
	index    int // its place on the line, and that of its journal in a generation
	accepts  accepts
	rows     *spool.Rows // encoding is guarded by the line's lock; writing lines only reads and is not
	dualLane *dualLane   // what the other lane writes; of the present assignments
}

// accepts says which operations a mapping takes rows of.
type accepts [schemas.Delete + 1]bool

func acceptsOf(m Mapping) (a accepts) {
	for op := range m.Loads {
		a[op] = true
	}
	return a
}

func (a *accepts) has(op schemas.Op) bool { return int(op) < len(a) && a[op] }

// row says why the mapping takes no rows of op; nil if it does.
func (a *accepts) row(op schemas.Op) error {
	if !a.has(op) {
		return schemas.Invalid("", "op "+op.String()+" has no import in this mapping")
	}
	return nil
}

// add puts a mapping on a line: that of its bundle, or one of its own.
func (b *Batcher) add(m Mapping) error {
	r, err := m.Rows()
	if err != nil {
		return err
	}
	added := &member{Mapping: m, accepts: acceptsOf(m), rows: r, dualLane: new(dualLane)}
	b.byName[m.Name] = added
	for _, l := range b.lines {
		if m.Bundle != "" && l.Bundle == m.Bundle {
			return l.join(added)
		}
	}
	l := &tableQueue{Mapping: m, name: m.Name, batcher: b, log: b.cfg.Log.With("mapping", m.Name), wake: make(chan struct{}, 1)}
	if m.Bundle != "" {
		l.name, l.log, l.CSV.Compression = m.Bundle, b.cfg.Log.With("bundle", m.Bundle), "ZIP"
	}
	l.Loads = maps.Clone(m.Loads)
	l.members, added.line = []*member{added}, l
	b.lines = append(b.lines, l)
	return nil
}

// join makes the mapping the last one of a bundle.
func (l *tableQueue) join(m *member) error {
	for op, load := range m.Loads {
		if has, ok := l.Loads[op]; ok && has.ETL != load.ETL {
			return fmt.Errorf("imports.%v: the files of bundle %s are loaded by one ETL, there are %s and %s", op, l.Bundle, has.ETL, load.ETL)
		} else if !ok {
			l.Loads[op] = load
		}
	}
	if m.Roll != l.Roll {
		return fmt.Errorf("roll: the files of bundle %s are complete together, there are %+v and %+v", l.Bundle, l.Roll, m.Roll)
	}
	l.RetryFailed, l.KeepResults = max(l.RetryFailed, m.RetryFailed), l.KeepResults || m.KeepResults
	m.line, m.index = l, len(l.members)
	l.members = append(l.members, m)
	return nil
}

// findParents finds the lines whose rows go before this one's. Within a bundle the
// order of its entries sees to that.
func (l *tableQueue) findParents() {
	for _, m := range l.members {
		for _, name := range m.After {
			if parent := l.batcher.byName[name]; parent != nil && parent.line != l {
				l.parents = append(l.parents, parent.line)
			}
		}
	}
}

// share is what an import of op holds of each of the line's mappings; nil for a
// line without a bundle. counts are their rows; nil: not known.
func (l *tableQueue) share(op schemas.Op, counts []int64) (members []Member) {
	if l.Bundle == "" {
		return nil
	}
	for i, m := range l.members {
		if _, has := m.Loads[op]; !has {
			continue
		}
		one := Member{Mapping: m.Name, Table: m.Table}
		if counts != nil {
			one.Rows = counts[i]
		}
		members = append(members, one)
	}
	return members
}

// loaded are the line's members that the import loads.
func (l *tableQueue) loaded(imp *Import) (members []*member) {
	for _, load := range imp.Loads() {
		members = append(members, l.batcher.byName[load.Mapping])
	}
	return members
}

// gated is how long the gate holds a file of the line back: an execution takes a
// slot of every table it loads, so that the tightest one decides.
func (l *tableQueue) gated(further bool) (wait time.Duration) {
	gate := l.batcher.cfg.Gate
	if gate == nil {
		return 0
	}
	for _, m := range l.members {
		wait = max(wait, gate.Wait(m.Name, further))
	}
	return min(wait, longestGateWait)
}

// exhausted tells the gate that the service has no import left. Of which table of
// a bundle it does not say.
func (l *tableQueue) exhausted() {
	if gate := l.batcher.cfg.Gate; gate != nil {
		for _, m := range l.members {
			gate.Refused(m.Name)
		}
	}
}

// known is what is known of the members' keys, the line locked.
func (l *tableQueue) known() []*dualLane {
	known := make([]*dualLane, len(l.members))
	for i, m := range l.members {
		known[i] = m.dualLane
	}
	return known
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
