package batcher

import (
	"maps"
	"slices"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/batcher/said"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/batcher/waiting"
	"github.com/feedsink/feedsink/schemas"
)

// member is one mapping on its queue: alone, or with the others of its bundle.
type member struct {
	files.Mapping
	queue    *tableQueue
	index    int                  // its place on the queue, and that of its journal in a generation
	accepts  [schemas.OpsEnd]bool // operations that it takes rows of: those with a Load
	rows     *spool.Rows          // encoding is guarded by the queue's lock; writing rows only reads and is not
	dualLane *dualLane            // what the other lane writes; of the present assignments
	waiting  *waiting.Rows        // for calls
}

func (m *member) loads(op schemas.Op) bool { return int(op) < len(m.accepts) && m.accepts[op] }

// takes says why the mapping takes no rows of op; nil: it does.
func (m *member) takes(op schemas.Op) error {
	if !m.loads(op) {
		return schemas.Invalid("", "op "+op.String()+" has no import in this mapping")
	}
	return nil
}

// add puts a mapping on a queue: that of its bundle, or one of its own.
func (b *Batcher) add(m files.Mapping) error {
	r, err := m.Rows()
	if err != nil {
		return err
	}
	added := &member{Mapping: m, rows: r, dualLane: &dualLane{keys: reconcile.Keys{Refused: b.mayBeRefused}}, waiting: waiting.New(&b.waiting)}
	for op := range m.Loads {
		added.accepts[op] = true
	}
	b.byName[m.Name] = added
	for _, q := range b.queues {
		if m.Bundle != "" && q.mapping.Bundle == m.Bundle {
			q.join(added)
			return nil
		}
	}
	q := &tableQueue{mapping: m, name: m.Name, batcher: b, began: time.Now(), log: b.cfg.Log.With("mapping", m.Name), words: said.New(m.Name), wake: make(chan struct{}, 1), callWake: make(chan struct{}, 1), landedWake: make(chan struct{}, 1), settled: make(chan struct{}, 1)}
	if m.Bundle != "" {
		q.name, q.log, q.mapping.CSV.Compression = m.Bundle, b.cfg.Log.With("bundle", m.Bundle), "ZIP"
	}
	q.mapping.Loads = maps.Clone(m.Loads)
	b.queues = append(b.queues, q)
	q.join(added)
	return nil
}

// join makes the mapping the last one of the queue.
func (q *tableQueue) join(m *member) {
	for op, load := range m.Loads {
		if _, ok := q.mapping.Loads[op]; !ok {
			q.mapping.Loads[op] = load
		}
	}
	q.mapping.KeepResults = q.mapping.KeepResults || m.KeepResults
	m.queue, m.index = q, len(q.members)
	q.members = append(q.members, m)
	q.words.Add(m.Columns)
}

// findParents finds the queues whose rows go before this one's. Within a bundle the
// order of its entries sees to that.
func (q *tableQueue) findParents() {
	for _, m := range q.members {
		for _, name := range m.After {
			if parent := q.batcher.byName[name]; parent != nil && parent.queue != q {
				q.parents = append(q.parents, parent.queue)
			}
		}
	}
}

// share is what an import of op holds of each of the queue's mappings; nil for a
// queue without a bundle. counts are their rows; nil: not known.
func (q *tableQueue) share(op schemas.Op, counts []int64) (members []contract.Member) {
	if q.mapping.Bundle == "" {
		return nil
	}
	for i, m := range q.members {
		if !m.loads(op) {
			continue
		}
		one := contract.Member{Mapping: m.Name, Table: m.Table}
		if counts != nil {
			one.Rows = counts[i]
		}
		members = append(members, one)
	}
	return members
}

// in reports whether the generation may hold a row of the mapping's key.
func (m *member) in(g *generation, hash uint64) bool { return g.journals[m.index].Has(hash) }

// anyDualLane reports whether the other lane writes to any of the queue's tables.
func (q *tableQueue) anyDualLane() bool {
	return slices.ContainsFunc(q.members, func(m *member) bool { return m.DualLane })
}
