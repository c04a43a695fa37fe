package batcher

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/feedsink/feedsink/batcher/reconcile"
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
	// maxSubmitted is how many calls of a queue are asked for at the same time: which
	// row is the next to be called is decided late.
	maxSubmitted = 64
	// lookAgain is how soon it is looked again which rows may be called.
	lookAgain = time.Second
	// UsualImport is what an import is taken to need until one has ended.
	UsualImport = 2 * time.Minute
)

// ErrBusy says that a row cannot be taken before a call of its key has ended.
var ErrBusy = errors.New("a call of the key is in flight, and there is no room for more rows behind it")

// Offer is what is known of a row that may be called instead.
type Offer struct {
	Callable bool // there is a call for the write, and its route allows it; else the row only keeps its place behind others of its key
	Route    int
	Within   time.Duration // how old the record may be when the service has it; 0: no matter
	Spare    bool          // it is called with the rate that is left; else only if no file can bring it in time
	Written  time.Time     // when its record was written
	Bytes    int64         // what the record takes in memory
	// Pending begins to hold the record by itself. It is called with a lock held, at
	// most once, and must not call back.
	Pending func() Pending
}

// waitingRows are the rows of a mapping's open file that wait for calls. They belong to
// one set of assignments. They are guarded by the queue's lock.
type waitingRows struct {
	byKey   map[string]*callableKey
	order   []*callableKey        // oldest row first
	hashes  map[uint64]int        // of the keys, and how many have it
	moved   map[*callableRow]bool // are in the open file, while their calls are in flight
	doubted []string              // keys of such rows whose calls may land though they have ended
	records int
	bytes   int64
}

// callableKey is the rows of a key, in their order.
type callableKey struct {
	name    string
	hash    uint64
	rows    []*callableRow
	calling bool      // the first row is being called, or its records are ending
	ends    bool      // its records are being confirmed, or become dead letters
	landed  *landed   // its call, which is not confirmed yet; nil: it has not, or need not be waited for
	byFile  bool      // the rows go by file: one of them cannot be called
	tries   int       // of the first row, which came to nothing
	due     time.Time // no call before
}

// callableRow is one call, of writes that were merged.
type callableRow struct {
	Offer   // of the first write
	write   schemas.Write
	at      reconcile.At // of its newest record
	number  int64        // of the generation that was open
	came    time.Time
	bytes   int64
	records []Pending
}

func newWaitingRows() *waitingRows {
	return &waitingRows{byKey: map[string]*callableKey{}, hashes: map[uint64]int{}, moved: map[*callableRow]bool{}}
}

// Offer is Append for a mapping with auto routes: the write is a row of the open file
// that may be called instead. ErrBusy says that the same call may be made again soon.
func (b *Batcher) Offer(mapping string, w schemas.Write, p Partition, offset int64, o Offer) error {
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
	full := m.waiting.records >= MaxWaiting || b.cfg.MaxWaiting > 0 && b.waiting.Load() >= b.cfg.MaxWaiting
	o.Callable = o.Callable && b.cfg.Calls != nil && m.rows.Callable(&w)
	k := m.waiting.byKey[w.Key]
	switch {
	case k == nil && (full || !o.Callable || m.inUnsent(xxhash.Sum64String(w.Key)) || m.DualLane && m.dualLane.keys.Follows(w.Key)):
		return m.put(g, where, &w, p, offset, false)
	case k != nil && k.calling && full:
		return ErrBusy
	case k != nil && !k.calling && (full || !o.Callable || k.byFile):
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

// wait keeps a row in memory, the queue locked; k is its key's, nil if it is the first.
func (m *member) wait(k *callableKey, w *schemas.Write, o *Offer, at reconcile.At) {
	rows, first := m.waiting, m.queue.waits() == 0
	if k == nil {
		k = &callableKey{hash: xxhash.Sum64String(w.Key)}
	}
	said := m.rows.Stated(w)
	if !w.Table.Custom && w.Op == schemas.Upsert { // its call replaces the whole profile, by all that the record says
		said = *w
	}
	own, bytes := said.Own()
	if len(k.rows) == 0 {
		k.name = own.Key
		rows.byKey[k.name], rows.order = k, append(rows.order, k)
		rows.hashes[k.hash]++
	}
	bytes += o.Bytes
	rows.records, rows.bytes = rows.records+1, rows.bytes+bytes
	m.queue.batcher.waiting.Add(bytes)
	k.byFile = k.byFile || !o.Callable
	pending := o.Pending()
	last, number := len(k.rows)-1, m.queue.opened().number // there is an open file, be its journal empty
	started := last == 0 && (k.calling || k.tries > 0)
	if last >= 0 && k.rows[last].number == number && !started && o.Callable && k.rows[last].Callable && schemas.MergeInto(&k.rows[last].write, &own) {
		row := k.rows[last]
		row.records, row.bytes, row.at = append(row.records, pending), row.bytes+bytes, at
	} else {
		k.rows = append(k.rows, &callableRow{Offer: *o, write: own, at: at, number: number, came: time.Now(), bytes: bytes, records: []Pending{pending}})
	}
	if first {
		notify(m.queue.wake)
	}
	notify(m.queue.callWake)
}

// forget takes out the key's first row.
func (m *member) forget(k *callableKey) {
	row := k.rows[0]
	k.rows, k.tries, k.due = k.rows[1:], 0, time.Time{}
	m.waiting.records -= len(row.records)
	m.waiting.bytes -= row.bytes
	m.queue.batcher.waiting.Add(-row.bytes)
	i := slices.Index(m.waiting.order, k)
	m.waiting.order = slices.Delete(m.waiting.order, i, i+1)
	if len(k.rows) > 0 { // its turn is that of the oldest row that is left
		at, _ := slices.BinarySearchFunc(m.waiting.order, k.rows[0].came, func(other *callableKey, came time.Time) int { return other.rows[0].came.Compare(came) })
		m.waiting.order = slices.Insert(m.waiting.order, at, k)
		return
	}
	delete(m.waiting.byKey, k.name)
	if m.waiting.hashes[k.hash]--; m.waiting.hashes[k.hash] == 0 {
		delete(m.waiting.hashes, k.hash)
	}
}

// spill moves a key's rows up to those of a generation into their files, the queue locked. None
// is being called, unless the other lane writes the table, too. After an error, the disk's, the
// rest of them is where it was.
func (m *member) spill(k *callableKey, upTo int64) error {
	for len(k.rows) > 0 && k.rows[0].number <= upTo {
		row := k.rows[0]
		g := m.queue.opened()
		if i := slices.IndexFunc(m.queue.full, func(full *generation) bool { return full.number == row.number }); i >= 0 {
			g = m.queue.full[i]
		}
		if err := m.makeRoom(g); err != nil {
			return err
		}
		if err := m.encode(g, &row.write); err != nil {
			return err // not met: it was encoded before
		}
		for _, record := range row.records {
			claim := record.Claim()
			if g.claims = append(g.claims, claim); g != m.queue.open {
				claim.Close() // it takes no other row of the record
			}
		}
		if row.came.Before(g.opened) {
			g.opened, g.until = row.came, m.queue.until(row.came)
		}
		g.repeats = m.leavesCall(k) || g.repeats
		m.forget(k)
	}
	return nil
}

// waits is how many keys of the queue wait for calls.
func (q *tableQueue) waits() (keys int) {
	for _, m := range q.members {
		keys += len(m.waiting.order)
	}
	return keys
}

// oldest is when the oldest row came that waits for a call; zero: there is none.
func (q *tableQueue) oldest() (came time.Time) {
	for _, m := range q.members {
		if len(m.waiting.order) > 0 {
			if first := m.waiting.order[0].rows[0].came; came.IsZero() || first.Before(came) {
				came = first
			}
		}
	}
	return came
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
		slot = max(slot, q.batcher.cfg.Gate.Wait(m.Name, false))
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
	for _, k := range slices.Clone(m.waiting.order) {
		if k.calling {
			continue
		}
		if k.byFile { // the disk had no room when its last call ended
			again = m.spill(k, q.opened().number) != nil || again
			continue
		}
		row := k.rows[0]
		late := row.Within > 0 && file.After(row.Written.Add(row.Within))
		if late != urgent {
			continue
		}
		if !late && !row.Spare || k.due.After(now) || m.underWay(k.hash) || q.calls >= maxSubmitted {
			again = true
			continue
		}
		k.calling = true
		q.calls++
		rows := m.waiting
		lent, _ := row.write.Own() // it may become a row all the same
		if !lent.Table.Custom && lent.Op == schemas.Upsert {
			lent.Cells = reconcile.WithoutNulls(lent.Cells)
		}
		q.batcher.cfg.Calls.Submit(Call{
			Mapping: m.Name, Route: row.Route, Spare: !late, Write: lent,
			Ended: func(outcome string, err error) { m.ended(rows, k, row, outcome, err) },
		})
	}
	return again
}

// underWay reports whether an import that has not ended may have a row of the key.
func (m *member) underWay(hash uint64) bool {
	q := m.queue
	if q.running != nil && m.in(q.running.generation, hash) || q.rebuilding != nil && m.in(q.rebuilding, hash) ||
		q.adopted != nil && m.in(q.adopted.generation, hash) {
		return true
	}
	return slices.ContainsFunc(q.inError, func(a *Adopted) bool { return m.in(a.generation, hash) })
}

// importTime is what an import needs from its slot to its end, with the lock held.
func (q *tableQueue) importTime() time.Duration {
	if q.took > 0 {
		return q.took
	}
	return UsualImport
}

// ended draws the consequences of a call.
func (m *member) ended(of *waitingRows, k *callableKey, row *callableRow, outcome string, err error) {
	failure, classified := errors.AsType[Failure](err)
	switch {
	case m.DualLane && m.endedInFile(of, row, failure, err):
	case err == nil && m.DualLane:
		m.answered(of, k, row, outcome)
	case classified && !failure.Transient() && m.DualLane && row.write.Op == schemas.Patch:
		m.settle(of, k, func() { k.byFile = true }) // a newer delete may have landed: the file's rows that find nothing are decided upon when that is known
	case err == nil:
		m.confirmed(of, k, row, outcome)
	case classified && !failure.Transient() && !holds(row.records, err):
		m.refused(of, k, row, err)
	default:
		m.settle(of, k, func() { m.failed(k, failure) })
	}
}

// holds reports whether some record keeps a refusal from being final. All are asked.
func holds(records []Pending, err error) (held bool) {
	for _, record := range records {
		held = record.Hold(err) || held
	}
	return held
}

// failed lets the key rest after a call that came to nothing. One of which the outcome is
// not known may land late: until it cannot any more, neither a call of the key nor a file
// goes out, which it would overtake.
func (m *member) failed(k *callableKey, failure Failure) {
	q := m.queue
	wait := q.batcher.cfg.Retry.Next(k.tries+1, 0, func() float64 { return 1 - q.batcher.rnd.Float64()/2 })
	if failure != nil {
		wait = max(wait, failure.RetryAfter())
	}
	if q.doubts(failure) {
		wait = max(wait, q.batcher.cfg.LandsWithin)
	}
	k.tries++
	k.due = time.Now().Add(wait)
}

// confirmed confirms the records of a row whose call has landed: all but the newest went
// out with that one.
func (m *member) confirmed(of *waitingRows, k *callableKey, row *callableRow, outcome string) {
	records := m.ending(k, row)
	var left atomic.Int64
	left.Store(int64(len(records)))
	for i, record := range records {
		if i < len(records)-1 {
			record.Merged()
		}
		record.Confirm(outcome, func() {
			if left.Add(-1) == 0 {
				m.settle(of, k, func() { m.forget(k) })
			}
		})
	}
}

// ending notes that the records of a key's first row are ending, and returns them.
func (m *member) ending(k *callableKey, row *callableRow) []Pending {
	m.queue.mu.Lock()
	defer m.queue.mu.Unlock()
	k.ends = true
	return slices.Clone(row.records)
}

// refused makes dead letters of the records of a row that the service has refused for
// good. Those that have no other place are in the file.
func (m *member) refused(of *waitingRows, k *callableKey, row *callableRow, err error) {
	q := m.queue
	records := m.ending(k, row)
	left := len(records)
	var kept []Pending
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
				m.settle(of, k, func() { m.afterRefusal(k, row, kept) })
			}
		})
	}
}

// afterRefusal goes on with a key whose first row was refused; kept are its records that have
// no other place than the file.
func (m *member) afterRefusal(k *callableKey, row *callableRow, kept []Pending) {
	if len(kept) == 0 {
		m.forget(k)
		return
	}
	m.waiting.records -= len(row.records) - len(kept)
	row.records, k.byFile = kept, true
}

// settle ends the call of a key's first row with what follows from it, unless the rows
// are a former assignment's.
func (m *member) settle(of *waitingRows, k *callableKey, then func()) {
	q := m.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if m.waiting != of {
		return
	}
	k.calling, k.ends = false, false
	q.calls--
	then()
	if len(k.rows) > 0 && k.byFile {
		_ = m.spill(k, q.opened().number) // else it is tried again with the next calls
	}
	if q.open != nil && !q.openRows() && q.open.asked != nil { // calls have emptied it
		q.open.asked.becomes(nil)
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
		for _, k := range m.waiting.order {
			if k.calling && !k.ends && k.landed == nil { // it was dropped
				k.calling = false
				q.calls--
			}
		}
		m.dropMoved()
	}
	for q.calls > 0 { // their records are ending
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
	if doubt > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(doubt):
		}
	}
	q.endDoubts()
	return nil
}

// goOn lets rows be called again.
func (q *tableQueue) goOn() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closing = false
	notify(q.callWake)
}

// spillAll moves the rows that wait for calls and belong to a generation, which goes out,
// into it, with the lock held.
func (q *tableQueue) spillAll(g *generation) error {
	for _, m := range q.members {
		for _, k := range slices.Clone(m.waiting.order) {
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
		q.batcher.waiting.Add(-m.waiting.bytes)
		m.waiting = newWaitingRows()
	}
	q.calls = 0
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
			records += m.waiting.records
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
	b := q.batcher
	room := m.waiting.records < MaxWaiting && (b.cfg.MaxWaiting == 0 || b.waiting.Load() < b.cfg.MaxWaiting)
	return m.waiting.hashes[hash] > 0 || callable && room && !m.inUnsent(hash)
}
