package batcher

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/batcher/waiting"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/schemas"
)

// The open file of a mapping with auto routes has two parts: its journal, and the rows
// of some keys that are kept in memory because they may be called instead. All rows of a
// key are in one of the two, so that no call and no row of a key overtake each other: a
// key with a row in a journal that is not sent stays there, and one of an import that is
// under way is not called before that has ended. A record of a row in memory is held by
// itself, and confirmed once its call has landed. When a file goes out, calls end, and
// what is left in memory goes with it: below the offsets that the ledger says it covers
// there is no record that is neither confirmed nor in it. A row in memory belongs to the
// file that was open when its records came, also once that is full and another one is
// open: rows of later files have greater offsets.

const (
	// MaxWaiting bounds the records of a mapping that wait for calls: what comes
	// beyond goes by file. Config.MaxWaiting bounds what those of all mappings take.
	MaxWaiting = 4096
	// maxSubmitted is how many calls of a route are asked for at the same time: which row of it
	// is the next to be called is decided late, and which route's by the weights.
	maxSubmitted = 64
	// lookAgain is how soon it is looked again which rows may be called.
	lookAgain = time.Second
	// UsualImport is what an import is taken to need until one has ended.
	UsualImport = 2 * time.Minute
)

// ErrBusy says that a row cannot be taken before a call of its key has ended.
var ErrBusy = errors.New("a call of the key is in flight, and there is no room for more rows behind it")

// Offer is Append for a mapping with auto routes: the write is a row of the open file
// that may be called instead. ErrBusy says that the same call may be made again soon.
func (b *Batcher) Offer(mapping string, w schemas.Write, p Partition, offset int64, o waiting.Offer) error {
	m, ok := b.byName[mapping]
	if !ok {
		return unknown(mapping)
	}
	if err := m.takes(w.Op); err != nil {
		return err
	}
	q := m.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, err := m.rows.AppendEntry(nil, &w); err != nil {
		return err // it can never be a row
	}
	g, where, err := q.generationFor(p, offset)
	if err != nil {
		return err
	}
	if where != reconcile.Open {
		return m.put(g, where, &w, p, offset, false)
	}
	full := m.manyWait()
	o.Callable = o.Callable && b.cfg.Calls != nil && m.rows.Callable(&w)
	k := m.waiting.Key(w.Key)
	switch {
	case k == nil && (full || !o.Callable || m.inUnsent(xxhash.Sum64String(w.Key)) || m.DualLane && m.dualLane.keys.Follows(w.Key)):
		return m.put(g, where, &w, p, offset, false)
	case k != nil && k.State != waiting.Resting && full:
		return ErrBusy
	case k != nil && k.State == waiting.Resting && (full || !o.Callable || k.ByFile):
		if err := m.spill(k, g.number); err != nil {
			return err
		}
		return m.put(g, where, &w, p, offset, false)
	}
	m.wait(k, &w, &o, reconcile.At{Partition: p, Offset: offset})
	return nil
}

// inUnsent reports whether a file that is not sent may have a row of a key in its
// journal.
func (m *member) inUnsent(hash uint64) bool {
	return slices.ContainsFunc(m.queue.unsent(), func(g *generation) bool { return m.in(g, hash) })
}

// manyWait reports whether there is no room for more records that wait, the queue locked.
func (m *member) manyWait() bool {
	b := m.queue.batcher
	return m.waiting.Records() >= MaxWaiting || b.cfg.MaxWaiting > 0 && b.waiting.Load() >= b.cfg.MaxWaiting
}

// wait keeps a row in memory, the queue locked; k is its key's, nil if it is the first.
func (m *member) wait(k *waiting.Key, w *schemas.Write, o *waiting.Offer, at reconcile.At) {
	first := m.queue.waits() == 0
	said := m.rows.Stated(w)
	if !w.Table.Custom && w.Op == schemas.Upsert { // its call replaces the whole profile, by all that the record says
		said = *w
	}
	m.waiting.Add(k, &said, o, at, m.queue.opened().number) // there is an open file, be its journal empty
	if first {
		notify(m.queue.wake)
	}
	notify(m.queue.callWake)
}

// spill moves a key's rows up to those of a generation into their files, the queue locked. None
// is being called, unless the other lane writes the table, too. After an error, the disk's, the
// rest of them is where it was.
func (m *member) spill(k *waiting.Key, upTo int64) error {
	for len(k.Rows) > 0 && k.Rows[0].Number <= upTo {
		row := k.Rows[0]
		g := m.queue.opened()
		if i := slices.IndexFunc(m.queue.full, func(full *generation) bool { return full.number == row.Number }); i >= 0 {
			g = m.queue.full[i]
		}
		if err := m.makeRoom(g); err != nil {
			return err
		}
		if err := m.encode(g, &row.Write); err != nil {
			return err // not met: it was encoded before
		}
		for _, record := range row.Records {
			claim := record.Claim()
			if g.claims = append(g.claims, claim); g != m.queue.open {
				claim.Close() // it takes no other row of the record
			}
		}
		if row.Came.Before(g.opened) {
			g.opened, g.until = row.Came, m.queue.mapping.Until(row.Came, m.queue.importTime())
		}
		g.repeats = m.DualLane && m.waiting.Leave(k) || g.repeats
		m.waiting.Forget(k)
	}
	return nil
}

// waits is how many keys of the queue wait for calls.
func (q *tableQueue) waits() (keys int) {
	for _, m := range q.members {
		keys += m.waiting.Len()
	}
	return keys
}

// oldest is when the oldest row came that waits for a call; zero: there is none.
func (q *tableQueue) oldest() (came, written time.Time) {
	for _, m := range q.members {
		if first, at := m.waiting.Oldest(); came.IsZero() || !first.IsZero() && first.Before(came) {
			came, written = first, at
		}
	}
	return came, written
}

// calls is how many rows of the queue are being called, or become dead letters.
func (q *tableQueue) calls() (n int) {
	for _, m := range q.members {
		n += m.waiting.Calls()
	}
	return n
}

// openRows reports whether the open file has any row, in its journal or in memory.
func (q *tableQueue) openRows() bool {
	return q.open != nil && q.open.entries() > 0 || q.waits() > 0
}

// auto reports whether rows of the queue may be called.
func (q *tableQueue) auto() bool {
	return q.batcher.cfg.Calls != nil && slices.ContainsFunc(q.members, func(m *member) bool { return m.Auto })
}

// call has rows called until ctx ends.
func (q *tableQueue) call(ctx context.Context) {
	for {
		var timer <-chan time.Time
		if q.startCalls() {
			timer = time.After(lookAgain)
		}
		select {
		case <-ctx.Done():
			return
		case <-q.callWake:
		case <-timer:
		}
	}
}

// startCalls has the oldest rows called that may be, those first that no file can bring
// in time. It reports whether others wait for their time.
func (q *tableQueue) startCalls() (again bool) {
	q.mu.Lock()
	keys := q.waits()
	q.mu.Unlock()
	if keys == 0 {
		return false
	}
	halted := func(m *member) bool { return q.batcher.cfg.Calls.Halted(m.Name) }
	if q.paused() || slices.ContainsFunc(q.members, halted) || slices.ContainsFunc(q.parents, (*tableQueue).hasRows) {
		return true
	}
	slot := time.Duration(0) // until a file may go
	for _, m := range q.members {
		slot = max(slot, q.batcher.cfg.Gate.Wait(m.Name, nil, false))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closing || q.running != nil && q.running.halted != "" {
		return true
	}
	file := time.Now().Add(slot + q.importTime())
	if q.running != nil || len(q.full) > 0 {
		file = file.Add(q.importTime()) // one after the other
	}
	for _, urgent := range []bool{true, false} {
		for _, m := range q.members {
			again = m.startCalls(urgent, file) || again
		}
	}
	return again
}

// startCalls has the mapping's urgent rows called, or its others. file is when a file that
// goes now has landed.
func (m *member) startCalls(urgent bool, file time.Time) (again bool) {
	q, now := m.queue, time.Now()
	for _, k := range m.waiting.Keys() {
		if k.State != waiting.Resting {
			continue
		}
		if k.ByFile { // the disk had no room when its last call ended
			again = m.spill(k, q.opened().number) != nil || again
			continue
		}
		row := k.Rows[0]
		late := row.Within > 0 && file.After(row.Written.Add(row.Within))
		if late != urgent {
			continue
		}
		if !late && !row.Spare || k.Due.After(now) || m.underWay(k.Hash) || m.waiting.Submitted(row.Route) >= maxSubmitted {
			again = true
			continue
		}
		rows := m.waiting
		rows.Becomes(k, waiting.Calling)
		lent, _ := row.Write.Own() // it may become a row all the same
		if !lent.Table.Custom && lent.Op == schemas.Upsert {
			lent.Cells = reconcile.WithoutNulls(lent.Cells)
		}
		q.batcher.cfg.Calls.Submit(contract.Call{
			Mapping: m.Name, Route: row.Route, Spare: !late, Write: lent,
			Ended: func(outcome string, err error) { m.ended(rows, k, row, outcome, err) },
		})
	}
	return again
}

// underWay reports whether an import that has not ended may have a row of the key.
func (m *member) underWay(hash uint64) bool {
	sent, _ := m.isSent(hash)
	return sent || slices.ContainsFunc(m.queue.inError, func(a *Adopted) bool { return m.in(a.generation, hash) })
}

// isSent reports whether a file that is on its way, or goes before the open ones, may have a row of the
// key, and whether a former owner had files of that generation.
func (m *member) isSent(hash uint64) (sent, former bool) {
	is := func(g *generation, adopted bool) {
		if m.in(g, hash) {
			sent, former = true, former || adopted || g.from.Part > 1
		}
	}
	q := m.queue
	if q.running != nil {
		is(q.running.generation, q.running.adopted != nil)
	}
	if q.adopted != nil {
		is(q.adopted.generation, true)
	}
	if q.rebuilding != nil {
		is(q.rebuilding, false)
	}
	return sent, former
}

// lasted notes what an import has needed.
func (q *tableQueue) lasted(took time.Duration) time.Duration {
	q.locked(func() { q.took = took })
	return took
}

// importTime is what an import needs from its slot to its end, with the lock held.
func (q *tableQueue) importTime() time.Duration {
	return cmp.Or(q.took, UsualImport)
}

// ended draws the consequences of a call.
func (m *member) ended(of *waiting.Rows, k *waiting.Key, row *waiting.Row, outcome string, err error) {
	failure, classified := errors.AsType[contract.Failure](err)
	switch {
	case m.DualLane && m.endedInFile(of, row, failure, err):
	case err == nil && m.DualLane:
		m.answered(of, k, row, outcome)
	case classified && !failure.Transient() && m.DualLane && row.Write.Op == schemas.Patch:
		m.settle(of, k, func() { k.ByFile = true }) // a newer delete may have landed: the file's rows that find nothing are decided upon when that is known
	case err == nil:
		m.confirmed(of, k, row, outcome)
	case classified && !failure.Transient() && !holds(row.Records, err):
		m.refused(of, k, row, err)
	default:
		m.settle(of, k, func() { m.failed(k, failure) })
	}
}

// holds reports whether some record keeps a refusal from being final. All are asked.
func holds(records []contract.Pending, err error) (held bool) {
	for _, record := range records {
		held = record.Hold(err) || held
	}
	return held
}

// failed lets the key rest after a call that came to nothing. One of which the outcome is
// not known may land late: until it cannot any more, neither a call of the key nor a file
// goes out, which it would overtake.
func (m *member) failed(k *waiting.Key, failure contract.Failure) {
	q := m.queue
	wait := q.batcher.cfg.Retry.Next(k.Tries+1, 0, func() float64 { return 1 - q.batcher.rnd.Float64()/2 })
	if failure != nil {
		wait = max(wait, failure.RetryAfter())
	}
	if q.doubts(failure) {
		wait = max(wait, q.batcher.cfg.LandsWithin)
	}
	k.Tries++
	k.Due = time.Now().Add(wait)
}

// confirmed confirms the records of a row whose call has landed: all but the newest went
// out with that one.
func (m *member) confirmed(of *waiting.Rows, k *waiting.Key, row *waiting.Row, outcome string) {
	records := m.ending(of, k, row)
	var left atomic.Int64
	left.Store(int64(len(records)))
	for i, record := range records {
		if i < len(records)-1 {
			record.Merged()
		}
		record.Confirm(outcome, func() {
			if left.Add(-1) == 0 {
				m.settle(of, k, func() { of.Forget(k) })
			}
		})
	}
}

// ending notes that the records of a key's first row are ending, and returns them.
func (m *member) ending(of *waiting.Rows, k *waiting.Key, row *waiting.Row) []contract.Pending {
	m.queue.mu.Lock()
	defer m.queue.mu.Unlock()
	of.Becomes(k, waiting.Ending)
	return slices.Clone(row.Records)
}

// refused makes dead letters of the records of a row that the service has refused for
// good. Those that have no other place are in the file.
func (m *member) refused(of *waiting.Rows, k *waiting.Key, row *waiting.Row, err error) {
	q := m.queue
	records := m.ending(of, k, row)
	left := len(records)
	var kept []contract.Pending
	for _, record := range records {
		record.Reject(err, func(stays bool) {
			q.mu.Lock()
			if stays {
				kept = append(kept, record)
			}
			left--
			last := left == 0
			q.mu.Unlock()
			if last {
				m.settle(of, k, func() { of.Keep(k, kept) })
			}
		})
	}
}

// settle ends the call of a key's first row with what follows from it, unless the rows
// are a former assignment's.
func (m *member) settle(of *waiting.Rows, k *waiting.Key, then func()) {
	q := m.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if m.waiting != of {
		return
	}
	of.Becomes(k, waiting.Resting)
	then()
	if len(k.Rows) > 0 && k.ByFile {
		_ = m.spill(k, q.opened().number) // else it is tried again with the next calls
	}
	if q.open != nil && !q.openRows() && q.open.asked != nil { // calls have emptied it
		q.open.asked.Becomes(nil)
		q.open.asked = nil
	}
	notify(q.wake)
	notify(q.callWake)
	notify(q.settled)
}

// endCalls ends all calls of the queue and starts none until goOn: a file is about to go
// out. Those that have not started are dropped, and their rows are in the file. It
// returns once none can land any more, or with an error.
func (q *tableQueue) endCalls(ctx context.Context) error {
	q.mu.Lock()
	q.closing = true
	q.mu.Unlock()
	for _, m := range q.members {
		if err := q.batcher.cfg.Calls.Drop(ctx, m.Name); err != nil {
			return err
		}
	}
	q.mu.Lock()
	for _, m := range q.members {
		for _, key := range m.waiting.Dropped() {
			m.dualLane.keys.Called(key)
		}
	}
	for q.calls() > 0 { // their records are ending
		q.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-q.settled:
		}
		q.mu.Lock()
	}
	doubt := time.Until(q.doubt)
	q.mu.Unlock()
	if err := retry.Sleep(ctx, doubt); err != nil {
		return err
	}
	q.endDoubts()
	return nil
}

// goOn lets rows be called again.
func (q *tableQueue) goOn() {
	q.locked(func() { q.closing = false })
	notify(q.callWake)
}

// spillAll moves the rows that wait for calls and belong to a generation, which goes out,
// into it, with the lock held.
func (q *tableQueue) spillAll(g *generation) error {
	for _, m := range q.members {
		for _, k := range m.waiting.Keys() {
			if err := m.spill(k, g.number); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropWaiting forgets the rows that wait for calls: their assignments end. The queue is
// locked.
func (q *tableQueue) dropWaiting() {
	for _, m := range q.members {
		m.waiting.Drop()
		m.waiting = waiting.New(&q.batcher.waiting)
	}
	notify(q.settled)
}

// hasRows reports whether rows of the queue, in files or in memory, are not confirmed.
func (q *tableQueue) hasRows() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.running != nil || q.adopted != nil || q.rebuilding != nil || len(q.full) > 0 || len(q.inError) > 0 || q.openRows()
}

// Waiting is how many records wait for calls in the place of rows.
func (b *Batcher) Waiting() (records int) {
	for _, q := range b.queues {
		q.mu.Lock()
		for _, m := range q.members {
			records += m.waiting.Records()
		}
		q.mu.Unlock()
	}
	return records
}

// Whole reports whether an encoded row has to be offered as the write that it was: a row
// of its key waits for a call, or it may be called itself.
func (e *Encoder) Whole(row []byte, callable bool) bool {
	m := e.member
	if !m.Auto || m.queue.batcher.cfg.Calls == nil {
		return false
	}
	q := m.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	hash := e.rows.Hash(row)
	return m.waiting.Has(hash) || callable && !m.manyWait() && !m.inUnsent(hash)
}
