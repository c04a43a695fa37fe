package calls

import (
	"container/list"
	"errors"
	"net/http"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/feedsink/feedsink/schemas"
)

// BreakerState is what a table's breaker lets through: Closed all calls, Open none,
// HalfOpen a single probe. Its String is "closed", "open" or "half-open".
type BreakerState = gobreaker.State

// The breaker's states.
const (
	Closed   = gobreaker.StateClosed
	HalfOpen = gobreaker.StateHalfOpen
	Open     = gobreaker.StateOpen
)

// stateChange is a change of the breaker on its way to the observer.
type stateChange struct {
	table schemas.Table
	to    BreakerState
	cause error
}

// errNoVerdict tells the breaker that an attempt says nothing about the service.
var errNoVerdict = errors.New("no verdict")

// table is what the lane knows of one table. While calls for it fail it is held:
// its keys wait here, and one of them at a time is tried as a probe. Other tables
// do not notice.
type table struct {
	id       schemas.Table
	breaker  *gobreaker.TwoStepCircuitBreaker[struct{}]
	state    BreakerState // the breaker's, as it was last told
	answered time.Time    // when the latest of the calls that the service dealt with had started

	pending  int  // writes
	held     bool // by the breaker or by refusals: no call but the probe
	refusals int  // probes in a row that were answered 401 or 403
	status   int  // of the last of these
	until    time.Time
	probe    *entry // whose first call is the probe; nil: none
	fresh    fifo   // held back, and never tried
	failed   fifo   // held back, and tried before
	newest   bool   // the next probe is the newest of fresh, not the oldest
	room     bool   // takes one more write, to probe with

	again list.List // of calls that are tried again because they failed, the one that failed first in front
}

// table finds what is known of a table. There are few.
func (l *Lane) table(id schemas.Table) *table {
	if t := l.known(id); t != nil {
		return t
	}
	t := &table{id: id}
	t.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout: l.cfg.Breaker.OpenFor,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return int64(c.ConsecutiveFailures) >= int64(l.cfg.Breaker.Failures)
		},
		IsExcluded:    func(err error) bool { return errors.Is(err, errNoVerdict) },
		OnStateChange: func(_ string, _, to BreakerState) { l.stateChanges(t, to) },
	})
	l.tables = append(l.tables, t)
	return t
}

// known is table for one that had writes already, else nil.
func (l *Lane) known(id schemas.Table) *table {
	for _, t := range l.tables {
		if t.id == id {
			return t
		}
	}
	return nil
}

// queue lets the key's first call start as soon as its table does.
func (l *Lane) queue(e *entry) {
	if t := e.table; t.held {
		t.shelve(e)
		l.probe(t, time.Now())
		return
	}
	l.ready.push(e)
}

func (t *table) shelve(e *entry) {
	if e.head != nil && e.head.tries == 0 {
		t.fresh.push(e)
	} else {
		t.failed.push(e)
	}
}

// probe has one of the keys held back tried, if it is time for that. One that has
// not failed tells most: a few keys may fail whatever the service does. Of these the
// oldest and the newest take turns, since keys that fail may have come together.
func (l *Lane) probe(t *table, now time.Time) {
	for t.held && t.probe == nil && !now.Before(t.until) {
		var e *entry
		switch {
		case t.fresh.length > 0 && t.newest:
			e = t.fresh.last
		case t.fresh.length > 0:
			e = t.fresh.first
		case t.failed.length > 0:
			e = t.failed.first
		}
		if e != nil {
			e.in.remove(e)
		}
		if t.fresh.length == 0 && (e == nil || e.head == nil || e.head.tries > 0) {
			t.room = true
		}
		switch {
		case e == nil:
			return
		case e.head == nil: // its calls were dropped
			l.retire(e)
		default:
			t.newest = !t.newest
			t.probe = e
			l.ready.push(e)
		}
	}
}

// skip takes an entry out of its ready queue if its call does not start: its
// calls were dropped, or its table is held by now.
func (l *Lane) skip(e *entry) bool {
	t := e.table
	switch {
	case e.head == nil:
		l.ready.remove(e)
		l.retire(e)
		if t.probe == e {
			t.probe = nil
			l.probe(t, time.Now())
		}
	case t.held && t.probe != e:
		l.ready.remove(e)
		t.shelve(e)
		l.probe(t, time.Now())
	default:
		return false
	}
	return true
}

// tell draws an attempt's consequences for its table.
func (l *Lane) tell(e *entry, v *verdict, started, ended time.Time) {
	t, c := e.table, e.head
	t.follow(c, v)
	probe := t.probe == e
	if probe {
		t.probe = nil
	}
	l.cause = v.err
	c.outcome(t.health(c, v, probe))
	l.cause = nil

	switch {
	case v.outcome == Abandoned:
	case v.answered:
		if started.After(t.answered) {
			t.answered = started
		}
		if probe {
			t.refusals = 0
		}
	case v.refused() && (probe || !t.held):
		t.refusals++
		t.status = v.status
		l.holdTable(t, ended.Add(l.backOff(t.refusals, v.retryAfter)))
	case probe && !v.refused() && !v.throttled():
		t.refusals = 0
	}
	if t.held && t.refusals == 0 && t.state == Closed {
		t.held = false
		l.held.Add(-1)
		l.ready.take(&t.fresh)
		l.ready.take(&t.failed)
	}
	if probe {
		l.probe(t, ended)
	}
}

// health is what an attempt tells the table's breaker. What opens it is a service
// that cannot be reached or does not work: not one that refuses a write or the
// login, nor one that says 429, which is alive. A key that fails while others of
// its table are answered fails by itself.
func (t *table) health(c *call, v *verdict, probe bool) error {
	closed := t.state == Closed
	switch {
	case v.outcome == Abandoned, v.throttled(), v.shared && closed:
		return errNoVerdict
	case v.answered, v.refused() && probe:
		return nil
	case v.refused(), v.status == http.StatusTooManyRequests && closed:
		return errNoVerdict
	case closed && c.tries > 1 && t.answered.After(c.failed):
		return errNoVerdict
	}
	return v.err
}

// holdTable holds the table back until then; after that a probe is tried.
func (l *Lane) holdTable(t *table, until time.Time) {
	if !t.held {
		t.held, t.room = true, false
		l.held.Add(1)
	}
	if until.After(t.until) {
		t.until = until
	}
	l.wakeAt(t.until)
}

// stateChanges is told that the breaker changes, with the lane's lock held: only the lane asks the
// breaker anything.
func (l *Lane) stateChanges(t *table, to BreakerState) {
	change := stateChange{table: t.id, to: to}
	t.state = to
	if to == Open {
		change.cause = l.cause
		// The breaker lets the probe through strictly after its time.
		l.holdTable(t, time.Now().Add(l.cfg.Breaker.OpenFor+time.Millisecond))
	}
	l.changes = append(l.changes, change)
	l.sound()
}

// tickTables has what is due tried and returns when something will be next, zero if
// nothing will.
func (l *Lane) tickTables(now time.Time) (next time.Time) {
	for _, t := range l.tables {
		l.probe(t, now)
		if t.held && now.Before(t.until) {
			next = sooner(next, t.until)
		}
	}
	return next
}

// Paused reports that taking in more for the table would only make it wait: calls
// for it fail. While all of its keys have failed, one write that may prove the
// contrary is let in for each probe.
func (l *Lane) Paused(id schemas.Table) bool {
	if l.held.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.known(id)
	return t != nil && t.held && !t.room
}

// count notes so many writes more, or less, that are pending.
func (l *Lane) count(t *table, n int) {
	t.pending += n
	l.pending.Add(int64(n))
}

// HeldBack is the number of writes pending for tables whose calls fail. They take no
// room from others: such a table takes in hardly any more.
func (l *Lane) HeldBack() (n int) {
	if l.held.Load() == 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.tables {
		if t.held {
			n += t.pending
		}
	}
	return n
}

// PendingOf is the table's part of Pending.
func (l *Lane) PendingOf(id schemas.Table) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.known(id); t != nil {
		return t.pending
	}
	return 0
}

// Breaker is the state of the table's breaker.
func (l *Lane) Breaker(id schemas.Table) BreakerState {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.known(id); t != nil {
		return t.breaker.State()
	}
	return Closed
}
