package batcher

import (
	"slices"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
)

// Status lists the mappings in the order of the configuration.
func (b *Batcher) Status() []contract.MappingStatus {
	var all []contract.MappingStatus
	for _, q := range b.queues {
		for _, m := range q.members {
			all = append(all, m.status())
		}
	}
	return all
}

// status is what the queue does, as each of its mappings shows it.
func (m *member) status() contract.MappingStatus {
	q := m.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	s := contract.MappingStatus{Mapping: m.Name, Bundle: q.mapping.Bundle, Kept: q.batcher.spool.Kept(q.name)}
	if q.name != m.Name { // of the time before it was in the bundle
		s.Kept = append(s.Kept, q.batcher.spool.Kept(m.Name)...)
	}
	for _, g := range q.unsent() {
		if g.entries() == 0 {
			continue
		}
		j := g.journals[m.index]
		s.Rows, s.Bytes = s.Rows+j.Distinct, s.Bytes+j.Bytes
		if g == q.open {
			s.Until = q.dueAt(g).Round(0)
		}
		if s.Opened.IsZero() {
			s.Opened, s.Age = g.opened, time.Since(g.opened)
		}
	}
	if keys := m.waiting.Len(); keys > 0 {
		came, _ := m.waiting.Oldest()
		s.Callable, s.Rows, s.Until = keys, s.Rows+int64(keys), q.dueAt(q.opened()).Round(0)
		if s.Opened.IsZero() || came.Before(s.Opened) {
			s.Opened, s.Age = came, time.Since(came)
		}
	}
	s.Full = len(q.full)
	g, wait, rows := q.next()
	s.Due = g != nil && wait <= 0 && rows
	if q.running != nil {
		now := q.running.now
		s.Import, s.Halted = &now, q.running.halted
	}
	return s
}

// Claims are the holds on the records of the mapping's files, or of its bundle's, that
// are not confirmed.
func (b *Batcher) Claims(mapping string) (claims []Claim) {
	m, ok := b.byName[mapping]
	if !ok {
		return nil
	}
	q := m.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	held := slices.Concat(q.unsent(), []*generation{q.rebuilding})
	if q.running != nil {
		held = append(held, q.running.generation)
	}
	if q.adopted != nil {
		held = append(held, q.adopted.generation)
	}
	for _, a := range q.inError {
		held = append(held, a.generation)
	}
	for _, g := range held {
		if g != nil {
			claims = append(claims, g.claims...)
		}
	}
	return claims
}

// Halted reports whether the mapping waits for Release, and why. While it does,
// its partitions should be paused: nothing that is appended goes out.
func (b *Batcher) Halted(mapping string) (reason string, halted bool) {
	m, ok := b.byName[mapping]
	if !ok {
		return "", false
	}
	m.queue.mu.Lock()
	defer m.queue.mu.Unlock()
	if r := m.queue.running; r != nil {
		reason = r.halted
	}
	return reason, reason != ""
}

// UnderWay reports whether an import of the mapping is on its way, or to be awaited.
func (b *Batcher) UnderWay(mapping string) bool {
	m, ok := b.byName[mapping]
	if !ok {
		return false
	}
	q := m.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.adopted != nil || len(q.inError) > 0 || q.running != nil && q.running.now.Step != contract.Paused
}

// LastServiceMessage is what the service said last about an import of the mapping that went
// wrong, since this process has its table; false: nothing.
func (b *Batcher) LastServiceMessage(mapping string) (contract.ServiceMessage, bool) {
	m, ok := b.byName[mapping]
	if !ok {
		return contract.ServiceMessage{}, false
	}
	return m.queue.words.Last()
}

// SpoolBytes is what journals, sealed and kept files take on disk.
func (b *Batcher) SpoolBytes() int64 { return b.spool.Used() }

// SpoolFree is how many bytes the spool's disk has left; ok is false if that is not known.
func (b *Batcher) SpoolFree() (bytes int64, ok bool) { return b.spool.Free() }

// Full reports that the spool has reached its limit. Appending still works; the
// partitions should be paused until files were confirmed. It is not full while a
// generation that is built again lacks records: nothing can go out before them,
// so that waiting would not make room.
func (b *Batcher) Full() bool {
	return b.spool.Used() >= b.cfg.MaxBytes && !slices.ContainsFunc(b.queues, (*tableQueue).lacksRecords)
}
