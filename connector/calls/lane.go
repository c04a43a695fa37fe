package calls

import (
	"container/list"
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/feedsink/feedsink/schemas"
)

// Item is a write on its way. The lane takes over the write's memory.
type Item struct {
	Mapping string // for the observer; writes of different mappings are not merged
	Write   schemas.Write
	Origin  Origin
}

// Origin is where a write came from and where its end is reported: exactly one
// of the two, exactly once, unless the write is forgotten by Drop, Drain or the
// end of Run. Both are called from any goroutine, outside the lane's lock, and
// should be quick: the key waits.
type Origin interface {
	// Confirm says that the service holds the write: Applied or AbsentAlready.
	Confirm(Outcome)
	// Reject says that the service will not take the write, and why.
	Reject(error)
}

// Premature is an Origin that knows when an answer that there is nothing to
// write to (404), or a record where one is to be created (409), is not the last
// word: the write is then tried again. It is asked
// after each such answer, as Origin's methods are called.
type Premature interface{ Premature() bool }

// Waiter is an Origin that wants to know that its write waits for another try, its
// own or an older one's of its key, to hold no more memory than it has to. It is
// called before each such wait, perhaps with the lane's lock held, and must not
// call the lane.
type Waiter interface{ Wait() }

// Caller makes one attempt to bring a write to the service. It bounds the
// attempt by itself, does not retry, and may be called concurrently, never for
// one key. The write is lent until it returns. retried says that an earlier
// attempt may have been applied. Its errors are asked for Failure; one that is
// none is transient, its outcome unknown.
type Caller interface {
	Call(ctx context.Context, w *schemas.Write, retried bool) error
}

// Attributed is a Caller that wants to know whose writes a call carries: it gets
// CallFor instead of Call. The origins are lent until it returns.
type Attributed interface {
	CallFor(ctx context.Context, w *schemas.Write, retried bool, of []Origin) error
}

// Failure is what the lane asks of an error, found with errors.As.
type Failure interface {
	error
	Transient() bool           // another try may succeed
	Overload() bool            // it was too much: fewer calls may cure it
	RetryAfter() time.Duration // no try before then; 0 if the service named no time
	Unknown() bool             // the attempt may have been applied
	Status() int               // of the answer; 0 without one
}

// Observer hears what happens, outside the lane's lock; it must be quick.
type Observer interface {
	// Called reports an attempt, from any goroutine.
	Called(Attempt)
	// BreakerTurned reports a change of a table's breaker, in order. The cause is the
	// failure that opened it, nil for other changes.
	BreakerTurned(of schemas.Table, to BreakerState, cause error)
	// NotRepeated reports that a call of the mapping may land late and its key is not
	// remembered: too many are.
	NotRepeated(mapping string)
}

// Attempt is one call and how it ended.
type Attempt struct {
	Mapping string
	Op      schemas.Op // of the call; writes merged into it may have had others
	Writes  int        // how many it carries: 1 and those merged with it; 0 for a repetition
	Outcome Outcome
	Took    time.Duration
	Repeat  bool  // it sends a key's newest state once more; nothing waits for it
	Err     error // of a repetition that was refused
}

// Lane brings writes to the service, one call each, in order per key.
type Lane struct {
	cfg    Config
	caller Caller
	owned  Attributed // the caller, if it wants to know; nil: it does not
	obs    Observer

	service *Service
	held    atomic.Int32 // tables
	// remembered is how many keys are in repeats.
	remembered atomic.Int32
	pending    atomic.Int64
	alarm      chan struct{} // an earlier time to wake at was set

	mu       sync.Mutex
	rnd      *rand.Rand
	keys     map[keyID]*entry // every key with work
	nameless uint64           // writes without a key so far
	ready    fifo
	waiting  byDue
	halted   []string  // mappings of which no call starts
	aside    []*entry  // keys that wait for one of them
	tables   []*table  // that had writes
	repeats  list.List // of entries: keys with a call that may land late, the next due first
	limiter  *limiter
	rate     *rate.Limiter // nil: none
	inFlight int

	changes    []stateChange // changes of breakers not yet reported
	unrepeated []string      // mappings of keys that are not remembered, not yet reported
	cause      error         // of the failure a breaker is being told
	overloads  int           // in a row with one call in flight
	notBefore  time.Time     // no call starts before then, zero if one may

	wake    sync.Cond // idle workers wait on it
	spawn   func()    // starts a worker; nil unless running
	workers int
	idle    int // workers waiting
	waking  int // of these, told to wake
	armed   time.Time
	stopped bool // no call starts any more
}

// New returns a lane that makes its calls through caller once Run is called. The
// configuration is valid; rnd is the lane's from now on.
func New(cfg Config, caller Caller, obs Observer, rnd *rand.Rand) *Lane {
	l := &Lane{
		cfg:     cfg,
		caller:  caller,
		obs:     obs,
		alarm:   make(chan struct{}, 1),
		rnd:     rnd,
		keys:    make(map[keyID]*entry),
		limiter: newLimiter(cfg.Concurrency.Start, cfg.Concurrency.Max),
		rate:    newRate(cfg.Rate),
	}
	l.owned, _ = caller.(Attributed)
	l.wake.L = &l.mu
	if l.service = cfg.Service; l.service == nil {
		l.service = &Service{}
	}
	return l
}

// Submit hands a write over; it never blocks. Writes of one key are applied in
// the order of their Submit. After Drain or the end of Run they are forgotten.
func (l *Lane) Submit(it Item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	id := l.identify(&it.Write)
	e, known := l.keys[id]
	if known && e.failing() {
		wait(it.Origin)
		it.Write, _ = it.Write.Own()
	}
	if !known {
		id.name = strings.Clone(id.name) // it may outlast its first write
		e = newEntry(id)
		l.keys[id] = e
	}
	e.table.room = false
	l.count(e.table, 1)
	if e.absorb(&it) {
		return
	}
	e.push(newCall(&it))
	if e.place == idle {
		l.queue(e)
		l.rouse()
	}
}

// identify names what the write's order is kept for. A profile known by nothing
// but the service's id is named by that; a write that names nothing, a record
// created without a business key, has an order of its own.
func (l *Lane) identify(w *schemas.Write) keyID {
	t := l.table(w.Table)
	switch {
	case w.Key != "":
		return keyID{t, w.Key, byKey}
	case w.ProfileID != "":
		return keyID{t, w.ProfileID, byProfile}
	}
	l.nameless++
	return keyID{table: t, by: byProfile + l.nameless}
}

// Pending is the number of writes neither confirmed, rejected nor forgotten.
func (l *Lane) Pending() int { return int(l.pending.Load()) }

// InFlight is the number of calls under way.
func (l *Lane) InFlight() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inFlight
}

// Limit is the number of calls that may be under way at present.
func (l *Lane) Limit() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limiter.Limit()
}
