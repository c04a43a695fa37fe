package batcher

import (
	"context"
	"time"

	"github.com/feedsink/feedsink/connector/retry"
)

// Where the other lane writes the table, too, a call in the place of a row may land behind
// a newer one of that lane. It is made only while nothing of its key is known that the other
// lane has not confirmed. Once it has landed the log is read to its end: what the other lane
// writes later lands later. The row's records are confirmed then. Where the other lane has
// written the key before that, or a file goes out before, the row goes into the open file
// after all, as one that may have landed before: behind that file the key's newest state
// is sent if the other lane has written it.

// landed is a call that has landed and is not confirmed yet.
type landed struct {
	row     *callableRow
	outcome string
	end     int64 // of its partition, once the call had landed; 0: not known yet
}

// landedEvery is how soon it is looked again whether the log was read on behind such calls.
const landedEvery = 100 * time.Millisecond

// meet moves the rows of a key that the other lane has written into the open file, with the
// queue locked, and reports whether a call of one may still land. An error is the disk's, or
// ErrBusy.
func (m *member) meet(key string) (calling bool, err error) {
	k := m.waiting.byKey[key]
	switch {
	case k == nil:
		return false, nil
	case k.ends:
		return false, ErrBusy // soon there is none of its rows, or the next is the first
	}
	g := m.queue.opened()
	calling = k.calling && k.landed == nil
	if !calling && k.tries > 0 && time.Now().Before(m.queue.doubt) {
		calling, m.waiting.doubted = true, append(m.waiting.doubted, k.name)
	}
	if k.calling || k.tries > 0 { // the table may have it in the place of the newer write
		g.dueNow = true
		notify(m.queue.wake)
	}
	return calling, m.spill(k, g.number)
}

// leavesCall ends the waiting of a key's first row, which goes into a file, for its call. It
// reports whether the row may have landed, or may land. The queue is locked.
func (m *member) leavesCall(k *callableKey) bool {
	if !m.DualLane {
		return false
	}
	called := k.calling || k.tries > 0
	if k.calling && k.landed == nil {
		m.waiting.moved[k.rows[0]] = true
	}
	k.calling, k.landed = false, nil
	return called
}

// endedInFile ends the call of a row that is in the open file by now. It reports false for
// any other.
func (m *member) endedInFile(of *waitingRows, row *callableRow, failure Failure, err error) bool {
	q := m.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if m.waiting != of || !of.moved[row] {
		return false
	}
	delete(of.moved, row)
	if err != nil && q.doubts(failure) {
		of.doubted = append(of.doubted, row.write.Key)
	} else {
		m.dualLane.keys.Called(row.write.Key)
	}
	q.calls--
	notify(q.callWake)
	notify(q.settled)
	return true
}

// doubts reports whether a call that failed may land, and notes until when. The queue is locked.
func (q *tableQueue) doubts(failure Failure) bool {
	if failure != nil && !failure.Unknown() {
		return false
	}
	if doubt := time.Now().Add(q.batcher.cfg.LandsWithin); doubt.After(q.doubt) {
		q.doubt = doubt
	}
	return true
}

// dropMoved ends the calls of rows in the open file that were dropped, with the queue locked.
func (m *member) dropMoved() {
	m.queue.calls -= len(m.waiting.moved)
	for row := range m.waiting.moved {
		m.dualLane.keys.Called(row.write.Key)
	}
	clear(m.waiting.moved)
}

// endDoubts says that no call in the place of the queue's rows can land any more.
func (q *tableQueue) endDoubts() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.members {
		for _, key := range m.waiting.doubted {
			m.dualLane.keys.Called(key)
		}
		m.waiting.doubted = nil
	}
}

// answered has the log read on behind a call that has landed.
func (m *member) answered(of *waitingRows, k *callableKey, row *callableRow, outcome string) {
	q := m.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if m.waiting != of {
		return
	}
	k.landed = &landed{row: row, outcome: outcome}
	q.calls--
	notify(q.callWake)
	notify(q.settled)
	notify(q.landedWake)
}

// confirmLanded confirms what has landed once the log was read on, until ctx ends.
func (q *tableQueue) confirmLanded(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.landedWake:
		}
		for again := true; again; {
			again = false
			for _, m := range q.members {
				again = m.confirmLanded(ctx) || again
			}
			if again && retry.Sleep(ctx, landedEvery) != nil {
				return
			}
		}
	}
}

// confirmLanded confirms what has landed and is read on behind. It reports whether more waits.
func (m *member) confirmLanded(ctx context.Context) (more bool) {
	q := m.queue
	q.mu.Lock()
	of := m.waiting
	all, ask := m.allLanded()
	q.mu.Unlock()
	if ask {
		ends, err := q.batcher.cfg.Peer.Ends(ctx, m.Name)
		if err != nil {
			if ctx.Err() == nil {
				q.log.Warn("find the ends of the log behind calls in the place of rows: asking again", "err", err)
			}
			return retry.Sleep(ctx, time.Second) == nil
		}
		q.mu.Lock()
		for _, l := range all {
			if p, ok := l.row.at.Partition.(Partition); ok && l.end == 0 {
				l.end = ends[p]
			}
		}
		q.mu.Unlock()
	}
	for k, l := range all {
		p, ok := l.row.at.Partition.(Partition)
		if !ok || l.end == 0 || p.Read() < l.end || !m.isRead(of, k, l) {
			continue
		}
		m.confirmed(of, k, l.row, l.outcome)
		delete(all, k)
	}
	return len(all) > 0
}

// allLanded are the keys whose calls have landed, and whether the ends of the log have to be
// asked for. The queue is locked.
func (m *member) allLanded() (all map[*callableKey]*landed, ask bool) {
	all = map[*callableKey]*landed{}
	for _, k := range m.waiting.order {
		if l := k.landed; l != nil {
			all[k] = l
			ask = ask || l.end == 0
		}
	}
	return all, ask
}

// isRead notes that the key's row is about to be confirmed. It reports false if it is in
// a file by now, or may be soon.
func (m *member) isRead(of *waitingRows, k *callableKey, l *landed) bool {
	q := m.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if m.waiting != of || k.landed != l || q.closing {
		return false
	}
	k.landed, k.ends = nil, true
	q.calls++
	return true
}
