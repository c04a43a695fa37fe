package batcher

import (
	"context"
	"slices"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/waiting"
	"github.com/feedsink/feedsink/connector/retry"
)

// Where the other lane writes the table, too, a call in the place of a row may land behind
// a newer one of that lane. It is made only while nothing of its key is known that the other
// lane has not confirmed. Once it has landed the log is read to its end: what the other lane
// writes later lands later. The row's records are confirmed then. Where the other lane has
// written the key before that, or a file goes out before, the row goes into the open file
// after all, as one that may have landed before: behind that file the key's newest state
// is sent if the other lane has written it.

// landedEvery is how soon it is looked again whether the log was read on behind such calls.
const landedEvery = 100 * time.Millisecond

// meet moves the rows of a key that the other lane has written into the open file, with the
// queue locked, and reports whether a call of one may still land. An error is the disk's, or
// ErrBusy.
func (m *member) meet(key string) (calling bool, err error) {
	k := m.waiting.Key(key)
	switch {
	case k == nil:
		return false, nil
	case k.State == waiting.Ending:
		return false, ErrBusy // soon there is none of its rows, or the next is the first
	}
	g := m.queue.opened()
	calling = k.State == waiting.Calling
	if !calling && k.Tries > 0 && time.Now().Before(m.queue.doubt) {
		calling = true
		m.waiting.Doubt(k.Rows[0])
	}
	if k.Called() { // the table may have it in the place of the newer write
		g.dueNow = true
		notify(m.queue.wake)
	}
	return calling, m.spill(k, g.number)
}

// endedInFile ends the call of a row that is in the open file by now. It reports false for
// any other.
func (m *member) endedInFile(of *waiting.Rows, row *waiting.Row, failure contract.Failure, err error) bool {
	q := m.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if m.waiting != of || !of.EndMoved(row) {
		return false
	}
	if err != nil && q.doubts(failure) {
		of.Doubt(row)
	} else {
		m.dualLane.keys.Called(row.Write.Key)
	}
	notify(q.callWake)
	notify(q.settled)
	return true
}

// doubts reports whether a call that failed may land, and notes until when. The queue is locked.
func (q *tableQueue) doubts(failure contract.Failure) bool {
	if failure != nil && !failure.Unknown() {
		return false
	}
	if doubt := time.Now().Add(q.batcher.cfg.LandsWithin); doubt.After(q.doubt) {
		q.doubt = doubt
	}
	return true
}

// endDoubts says that no call in the place of the queue's rows can land any more.
func (q *tableQueue) endDoubts() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.members {
		for _, key := range m.waiting.EndDoubts() {
			m.dualLane.keys.Called(key)
		}
	}
}

// answered has the log read on behind a call that has landed.
func (m *member) answered(of *waiting.Rows, k *waiting.Key, row *waiting.Row, outcome string) {
	q := m.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if m.waiting != of {
		return
	}
	of.Land(k, row, outcome)
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
	all := of.Landings()
	q.mu.Unlock()
	if slices.ContainsFunc(all, func(l *waiting.Landing) bool { return l.End == 0 }) {
		ends, err := q.batcher.cfg.Peer.Ends(ctx, m.Name)
		if err != nil {
			if ctx.Err() == nil {
				q.log.Warn("find the ends of the log behind calls in the place of rows: asking again", "error", err)
			}
			return retry.Sleep(ctx, time.Second) == nil
		}
		q.mu.Lock()
		for _, l := range all {
			if p, ok := l.Row.At.Partition.(Partition); ok && l.End == 0 {
				l.End = ends[p]
			}
		}
		q.mu.Unlock()
	}
	for _, l := range all {
		p, ok := l.Row.At.Partition.(Partition)
		if !ok || l.End == 0 || p.Read() < l.End || !m.isRead(of, l) {
			more = true
			continue
		}
		m.confirmed(of, l.Key, l.Row, l.Outcome)
	}
	return more
}

// isRead notes that the key's row is about to be confirmed. It reports false if it is in
// a file by now, or may be soon.
func (m *member) isRead(of *waiting.Rows, l *waiting.Landing) bool {
	q := m.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if m.waiting != of || !l.Stands() || q.closing {
		return false
	}
	of.Becomes(l.Key, waiting.Ending)
	return true
}
