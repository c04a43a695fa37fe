// Package calls sends writes as single calls: each write becomes one call,
// in order per key, concurrently across keys.
//
// A Lane keeps, for every key with work, the calls not yet confirmed. A key has
// at most one call in flight, so its writes arrive in the order they were
// submitted; a key that is busy, failing or backing off holds up only itself.
// Which key's call starts next follows from the weights of the routes that have work:
// while calls are scarce, each route has its share of them.
// Writes of one key that have not started are merged into one call where that
// cannot be told from sending them one by one. How many calls are in flight is
// found out by a limiter from what comes back; a breaker for each table stops calls
// that fail, and probes the table; what the service says of all calls (Retry-After)
// holds them all. A call whose outcome is unknown may land late: what its key said
// since is then sent once more.
//
// It knows writes and whether a call may be tried again. It knows nothing about
// Kafka, offsets, dead letters, HTTP or tokens: those are behind Origin and
// Caller.
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

// Config is what a Lane may do to the service. That it can work is checked where the
// configuration file is read: all counts and times but Rate, RepeatAfter and GiveUpAfter
// are above 0, and nothing starts above its Max.
type Config struct {
	Concurrency Concurrency
	Rate        Rate
	Breaker     Breaker
	Retry       Retry
	// MayCall is asked before each call: while it says no, none starts, because
	// the writes may be another owner's by now. It must be quick; nil: always.
	MayCall func() bool
	// Share is which part of Rate is this lane's at present, from 0 to 1, where
	// several lanes share it; nil: all of it. What lanes of one Service have no calls for
	// others of them may use. It must be quick.
	Share func() float64
	// Service is what this lane and others that call the same service know of it
	// together; nil: it is alone.
	Service *Service
	// RepeatAfter is when a call whose outcome is unknown has landed or never will:
	// what later calls of its key said is then sent once more. 0: it never is.
	RepeatAfter time.Duration
	// Repeats is asked then whether what this lane sent last for a key of the table is
	// its newest state, unless Superseded said otherwise; nil: it always is. It must be
	// quick.
	Repeats func(schemas.Table) bool
	// Remember is what may be remembered of what was applied, for items that say so. It
	// wants RepeatAfter, and that one row has one key.
	Remember Remember
}

// Concurrency bounds the calls in flight: the first limit, and the highest that
// the limiter may find.
type Concurrency struct{ Start, Max int }

// Rate is the most calls to start per period, evenly spread, by all lanes that
// share it; 0 calls means no such bound.
type Rate struct {
	Calls int
	Per   time.Duration
}

// Breaker says how many failed calls in a row, over all keys of a table, stop its
// calls, and how long it then waits before it tries one.
type Breaker struct {
	Failures int
	OpenFor  time.Duration
}

// Retry is the back-off of one key: Initial, doubling up to Max, jittered. A
// write that still fails GiveUpAfter its first try is rejected; 0 means never.
type Retry struct{ Initial, Max, GiveUpAfter time.Duration }

// Item is a write on its way. The lane takes over the write's memory.
type Item struct {
	Mapping string // for the observer; writes of different mappings are not merged
	// Route is which of the mapping's routes the write is of. All writes of a route are
	// one class, and where calls are scarce classes share them by their weights.
	Route  int
	Weight float64 // of the route, above 0; 0 stands for 1
	Write  schemas.Write
	Origin Origin
	// Unchanged is for how long a later write of the key that says the same as this one is
	// not sent, once this one was applied, unless another came between: it is confirmed as
	// Unchanged. One for all items of a mapping, and all that write its table say so; 0:
	// each is sent. It is for origins that are Lasting.
	Unchanged time.Duration
}

// Origin is where a write came from and where its end is reported: exactly one
// of the two, exactly once, unless the write is forgotten by Drop or the end of
// Run. Both are called from any goroutine, outside the lane's lock, and
// should be quick: the key waits.
type Origin interface {
	// Confirm says that the service holds the write: Applied, AbsentAlready, or Unchanged,
	// which is said before Submit returns.
	Confirm(Outcome)
	// Reject says that the service will not take the write, and why.
	Reject(error)
}

// Merged is an Origin that wants to know that its write was merged into that of a newer
// one. It is called before Confirm.
type Merged interface{ Merged() }

// Premature is an Origin that knows when an answer that there is nothing to
// write to (404), or a record where one is to be created (409), is not the last
// word: the write is then tried again.
type Premature interface {
	// Premature is asked after each such answer, as Origin's methods are called.
	Premature() bool
	// Arrived reports whether another answer is to be expected by now. It is asked with the lane's
	// lock held, and must not call the lane.
	Arrived() bool
}

// Waiter is an Origin that wants to know that its write waits for another try, its
// own or an older one's of its key, to hold no more memory than it has to. It is
// called before each such wait, perhaps with the lane's lock held, and must not
// call the lane.
type Waiter interface{ Wait() }

// Caller makes one attempt to bring a write to the service. It bounds the
// attempt by itself, does not retry, and may be called concurrently, never for
// one key. The write, and the origins of the writes that are merged in it, are lent
// until it returns. Its errors are asked for Failure; one that is none is transient, its
// outcome unknown.
type Caller interface {
	Call(ctx context.Context, w *schemas.Write, try Try) error
}

// Try is one attempt.
type Try struct {
	Retried bool     // an earlier attempt may have been applied
	Of      []Origin // of the writes that are merged
	// May is asked before each further request of the attempt. Its error says that another
	// member may have the write by now, and ends the attempt.
	May func() error
}

// Failure is what the lane asks of an error, found with errors.As.
type Failure interface {
	error
	Transient() bool           // another try may succeed
	Overload() bool            // it was too much: fewer calls may cure it
	RetryAfter() time.Duration // no try before then; 0 if the service named no time
	Unknown() bool             // the attempt may have been applied
	NoToken() bool             // there was none to call with: nothing was said about the write
	Shared() bool              // another attempt tells of the same failure
	Status() int               // of the answer; 0 without one
}

// NotSent is the Failure of a request that was not sent.
type NotSent struct {
	unsaid
	Why   string
	After time.Duration // no try before then
	Never bool          // no other try either
}

func (e NotSent) Error() string { return e.Why }

// Transient implements Failure.
func (e NotSent) Transient() bool { return !e.Never }

// RetryAfter implements Failure.
func (e NotSent) RetryAfter() time.Duration { return e.After }

// unsaid is what nothing was heard of.
type unsaid struct{}

func (unsaid) Overload() bool { return false }
func (unsaid) Unknown() bool  { return false }
func (unsaid) NoToken() bool  { return false }
func (unsaid) Shared() bool   { return false }
func (unsaid) Status() int    { return 0 }

// Observer is told what happens, outside the lane's lock; it must be quick.
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
	Status  int // of an answer that was no yes; 0: a yes, or no answer
	Took    time.Duration
	Repeat  bool  // it sends a key's newest state once more; nothing waits for it
	Err     error // of a repetition that was refused
}

// Lane brings writes to the service, one call each, in order per key.
type Lane struct {
	cfg    Config
	caller Caller
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
	ready    ready
	waiting  byDue
	halted   []string  // mappings of which no call starts
	aside    []*entry  // keys that wait for one of them
	tables   []*table  // that had writes
	repeats  list.List // of entries: keys with a call that may land late, the next due first
	said     *said     // what was said last of keys; nil: nothing is remembered
	limiter  *limiter
	rate     *rate.Limiter // nil: none
	short    time.Time     // until then its calls wait for the rate; guarded by the service's rates
	inFlight int

	changes    []stateChange // changes of breakers not yet reported
	unrepeated []string      // mappings of keys that are not remembered, not yet reported
	cause      error         // of the failure a breaker is being told
	overloads  int           // in a row with one call in flight
	throttled  Wait          // for what the service answered last instead of yes or no; no Status: nothing
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
		said:    newSaid(cfg.Remember),
	}
	l.wake.L = &l.mu
	if l.service = cfg.Service; l.service == nil {
		l.service = &Service{}
	}
	if l.rate != nil {
		l.service.join(l)
	}
	return l
}

// Submit hands a write over; it never blocks. Writes of one key are applied in
// the order of their Submit. After the end of Run they are forgotten.
func (l *Lane) Submit(it Item) {
	if l.said == nil || it.Unchanged <= 0 || it.Write.Key == "" {
		l.submit(&it, nil)
		return
	}
	f := l.said.print(&it.Write)
	if l.submit(&it, &f) {
		it.Origin.Confirm(Unchanged)
	}
}

// submit is Submit. f is the write's fingerprint where that may be remembered; unchanged says that the write has
// nothing to do, and was not taken.
func (l *Lane) submit(it *Item, f *fingerprint) (unchanged bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return false
	}
	id := l.identify(&it.Write)
	e, known := l.keys[id]
	var from *source
	if f != nil {
		if unchanged, from = l.unchanged(it, *f, !known); unchanged {
			return true
		}
	}
	of := l.ready.class(it)
	if known && e.failing() {
		wait(it.Origin)
		it.Write, _ = it.Write.Own()
	}
	if !known {
		id.name = strings.Clone(id.name) // it may outlast its first write
		e = newEntry(id, of)
		l.keys[id] = e
	}
	e.table.room = false
	l.count(e.table, 1)
	if !e.absorb(it, of) {
		e.push(newCall(it, of))
	}
	e.tail.source = from
	if of != e.class {
		l.ready.classify(e)
	}
	if e.place == idle {
		l.queue(e)
		l.rouse()
	}
	return false
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
	return l.limiter.limit
}
