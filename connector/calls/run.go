package calls

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/schemas"
)

// Run makes the calls until ctx ends, which cuts off the calls in flight, and
// returns nil once every goroutine it started has ended. It is called once.
func (l *Lane) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	l.mu.Lock()
	l.spawn = func() { workers.Go(func() { l.work(ctx) }) }
	l.mu.Unlock()

	l.keepTime(ctx)

	l.mu.Lock()
	l.spawn, l.stopped = nil, true
	l.wake.Broadcast()
	l.mu.Unlock()
	workers.Wait()
	return nil
}

// keepTime is the lane's only clock: it moves on what became due, and tells the
// observer about the breaker.
func (l *Lane) keepTime(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		l.mu.Lock()
		next := l.tick(time.Now())
		turns, unrepeated := l.changes, l.unrepeated
		l.changes, l.unrepeated = nil, nil
		l.mu.Unlock()
		for _, t := range turns {
			l.obs.BreakerTurned(t.table, t.to, t.cause)
		}
		for _, mapping := range unrepeated {
			l.obs.NotRepeated(mapping)
		}
		timer.Stop()
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-l.alarm:
		}
	}
}

// tick moves what is due and returns when something will be next, zero if
// nothing will.
func (l *Lane) tick(now time.Time) time.Time {
	if !l.notBefore.After(now) {
		l.notBefore = time.Time{}
	}
	for len(l.waiting) > 0 && !l.waiting[0].due.After(now) {
		e := l.waiting[0]
		l.waiting.remove(e)
		c := e.head
		early := c.isEarly()
		if early && l.ready.hasEarly() {
			l.waiting.add(e, now.Add(l.backOff(c.tries, 0)))
			continue
		}
		l.ready.classify(e)
		if early {
			e.class = l.ready.earlyClass()
		}
		l.queue(e)
	}
	l.armed = sooner(l.notBefore, sooner(l.tickRepeats(now), l.tickTables(now)))
	if len(l.waiting) > 0 {
		l.armed = sooner(l.armed, l.waiting[0].due)
	}
	l.rouse()
	return l.armed
}

// isEarly reports whether another call is likely to change nothing, as the origins of a premature write know.
func (c *call) isEarly() bool {
	return c.premature && !c.isVoid() && !ask(c.origins, Premature.Arrived)
}

// sooner is the earlier of two times of which zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// wakeAt has tick called then.
func (l *Lane) wakeAt(t time.Time) {
	if l.armed.IsZero() || t.Before(l.armed) {
		l.armed = t
		l.sound()
	}
}

// sound has tick called now.
func (l *Lane) sound() {
	select {
	case l.alarm <- struct{}{}:
	default: // it has been and was not heard yet
	}
}

// rouse wakes or starts as many workers as may find a call to make.
func (l *Lane) rouse() {
	if l.spawn == nil || l.stopped || !l.notBefore.IsZero() {
		return
	}
	for n := min(l.ready.length, l.limiter.limit-l.inFlight) - l.waking; n > 0; n-- {
		switch {
		case l.idle > l.waking:
			l.waking++
			l.wake.Signal()
		case l.workers < l.cfg.Concurrency.Max:
			l.workers++
			l.waking++
			l.idle++
			l.spawn()
		default:
			return
		}
	}
}

// work makes one call after another, whichever key's it is, until the lane ends.
// Between two calls it takes the lock once.
func (l *Lane) work(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awake()
	for {
		e, started := l.next()
		if e == nil {
			if l.spawn == nil {
				l.workers--
				return
			}
			l.idle++
			l.wake.Wait()
			l.awake()
			continue
		}
		c := e.head
		remembers := c.source != nil
		l.mu.Unlock()
		err := l.caller.Call(ctx, &c.write, Try{c.unsure, c.origins, func() error { return l.may(c) }})
		ended := time.Now()
		v := l.judge(ctx, c, err, ended)
		if remembers && v.outcome == Applied {
			v.print = l.said.print(&c.write)
		}
		l.report(c, &v, ended.Sub(started))
		l.mu.Lock()
		l.finish(e, &v, started, ended)
	}
}

func (l *Lane) awake() {
	l.idle--
	if l.waking > 0 {
		l.waking--
	}
}

// next takes the key whose first call starts now, or none if none may.
func (l *Lane) next() (*entry, time.Time) {
	for !l.stopped && l.notBefore.IsZero() && l.ready.length > 0 && l.inFlight < l.limiter.limit {
		e := l.ready.first()
		if l.skip(e) {
			continue
		} else if l.isHalted(e.head) {
			l.ready.remove(e)
			l.putAside(e)
			continue
		}
		now := time.Now()
		probes, wait := l.admit(now)
		if wait > 0 {
			l.hold(now.Add(wait))
			break
		}
		l.ready.start(e)
		e.place = calling
		l.inFlight++
		c := e.head
		if c.tries == 0 {
			c.first = now
		}
		c.tries++
		c.probes = probes
		// Nothing is refused: of a table whose breaker is not closed, nothing but a
		// probe in its time comes here.
		c.outcome, _ = e.table.breaker.Allow()
		return e, now
	}
	return nil, time.Time{}
}

// report tells the origins and the observer, outside the lock.
func (l *Lane) report(c *call, v *verdict, took time.Duration) {
	switch v.outcome {
	case Applied, AbsentAlready:
		for i, o := range c.origins {
			if m, ok := o.(Merged); ok && i < len(c.origins)-1 {
				m.Merged()
			}
			o.Confirm(v.outcome)
		}
	case Rejected:
		for _, o := range c.origins {
			o.Reject(v.err)
		}
	case Retried:
		if c.tries == 1 {
			for _, o := range c.origins {
				wait(o)
			}
			c.write, _ = c.write.Own()
		}
	}
	a := Attempt{Mapping: c.mapping, Op: c.write.Op, Writes: len(c.origins), Outcome: v.outcome, Status: v.status, Took: took, Repeat: c.repeats != nil}
	if a.Repeat && v.outcome == Rejected {
		a.Err = v.err
	}
	l.obs.Called(a)
}

// finish draws the consequences of an attempt: for the limit, for the breaker,
// and for the key, whose next call may start or whose first is tried again later.
func (l *Lane) finish(e *entry, v *verdict, started, ended time.Time) {
	c := e.head
	l.tell(e, v, started, ended)
	l.hear(v, c.probes, ended)
	if v.outcome != Abandoned {
		l.limiter.observe(sample{
			started: started, ended: ended,
			inFlight: l.inFlight, answered: v.answered, overload: v.overload,
		})
		l.easeOff(v, ended)
	}
	l.inFlight--
	if v.unsure {
		l.remember(e, ended)
	}
	c.unsure = c.unsure || v.unsure
	if e.repeat != nil && (v.outcome == Applied || v.outcome == AbsentAlready) {
		e.repeat.applied(c)
	}
	gone, revoked := 0, c.revoked
	if v.outcome == Retried {
		gone = c.forgetRevoked()
	}
	if v.void && c.isVoid() {
		c.joinNext()
	}
	c.revoked = nil

	if v.outcome == Retried && (len(c.origins) > 0 || c.repeats != nil) {
		if c.failed.IsZero() {
			c.failed = ended
		}
		c.premature = v.premature
		l.count(e.table, -gone)
		if v.held && l.isHalted(c) {
			l.putAside(e)
		} else {
			due := ended.Add(l.backOff(c.tries, v.retryAfter))
			l.waiting.add(e, due)
			l.wakeAt(due)
		}
	} else {
		l.count(e.table, -gone-len(c.origins))
		if v.outcome == Applied && c.source != nil {
			l.applied(e, v.print, started, ended)
		}
		e.pop()
		l.proceed(e)
	}
	l.rouse()
	release(revoked)
}

// proceed queues the key for its next call, or lets go of it.
func (l *Lane) proceed(e *entry) {
	if e.repeat != nil {
		l.repeat(e, time.Now())
	}
	if e.head == nil {
		l.retire(e)
		return
	}
	l.ready.classify(e)
	l.queue(e)
}

// retire lets go of a key without work, unless one of its calls may still land.
func (l *Lane) retire(e *entry) {
	if e.repeat != nil {
		e.place = idle
		return
	}
	delete(l.keys, e.id)
	entries.Put(e)
}

// Outcome is how an attempt ended.
type Outcome uint8

// The outcomes. The first two and the last confirm a write.
const (
	Applied       Outcome = iota + 1 // the service said yes
	AbsentAlready                    // delete of what is not there (operations 3 and 7: 404)
	Rejected                         // the service will not take it, or it was given up
	Retried                          // it failed and will be tried again
	Abandoned                        // the lane ended before another try
	Unchanged                        // the key's last call has said the same: none is made, and it is confirmed
)

var outcomes = [...]string{"unknown", "applied", "absent", "rejected", "retried", "abandoned", "unchanged"}

// String is the outcome's word in metrics.
func (o Outcome) String() string { return outcomes[o] }

// verdict is what an attempt came to.
type verdict struct {
	outcome    Outcome
	err        error // nil if confirmed
	answered   bool  // the service dealt with it, whatever it said
	unsure     bool  // it may have been applied
	noToken    bool  // no call was made
	shared     bool  // another attempt tells of the same failure
	overload   bool
	retryAfter time.Duration
	status     int
	held       bool        // refused, and kept until its mapping is resumed
	premature  bool        // the answer may be another one once what the write is for has come
	void       bool        // the newer write behind it leaves nothing of it
	print      fingerprint // of the write, if it is applied and may be remembered
}

// judge reads an attempt's error. An attempt that was cut off because the lane
// ends is neither confirmed nor rejected: the write is still to be done.
func (l *Lane) judge(ctx context.Context, c *call, err error, now time.Time) verdict {
	if err == nil {
		return verdict{outcome: Applied, answered: true}
	}
	v := verdict{outcome: Retried, err: err, unsure: true}
	if f, ok := errors.AsType[Failure](err); ok {
		v.status, v.overload, v.retryAfter, v.unsure = f.Status(), f.Overload(), f.RetryAfter(), f.Unknown()
		v.noToken, v.shared = f.NoToken(), f.Shared()
		v.answered = !f.Transient()
	}
	switch {
	case v.answered && v.status == http.StatusNotFound && c.write.Op == schemas.Delete:
		v.outcome, v.err = AbsentAlready, nil
	case v.answered && v.status == http.StatusNotFound && l.isVoid(c):
		v.void = true
	case v.answered && early(v.status, c.write.Op) && ask(c.origins, Premature.Premature):
		v.premature = true
	case v.answered:
		v.outcome = Rejected
	case ctx.Err() != nil:
		v.outcome = Abandoned
	case !v.noToken && !v.refused() && l.givesUp(c, now):
		v.outcome = Rejected
		v.err = &GivenUp{now.Sub(c.first), c.tries, c.unsure || v.unsure, err}
	}
	if v.outcome == Rejected && ask(c.origins, func(h Holder) bool { return h.Hold(v.err) }) {
		v.outcome, v.held = Retried, true
	}
	return v
}

// early reports whether the answer may be another one later: there is nothing to
// write to, or a record where a create is to make one.
func early(status int, op schemas.Op) bool {
	return status == http.StatusNotFound || status == http.StatusConflict && op == schemas.Create
}

// isVoid reports whether nothing is to be gained by trying a patch of nothing again.
func (l *Lane) isVoid(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return c.isVoid()
}

// refused reports whether the login or its rights were refused, which says nothing
// about the write.
func (v *verdict) refused() bool {
	return !v.answered && (v.status == http.StatusUnauthorized || v.status == http.StatusForbidden)
}

// givesUp reports whether the write was tried for long enough. That the lane may not call,
// or has no token, says nothing about the write, so it waits.
func (l *Lane) givesUp(c *call, now time.Time) bool {
	after := l.cfg.Retry.GiveUpAfter
	return after > 0 && now.Sub(c.first) >= after
}

// GivenUp is the refusal of a write that was tried for as long as Retry.GiveUpAfter.
type GivenUp struct {
	After  time.Duration
	Tries  int
	Unsure bool // one of the tries may have been applied
	Err    error
}

func (e *GivenUp) Error() string {
	return fmt.Sprintf("given up after %s, at try %d: %v", e.After.Round(time.Millisecond), e.Tries, e.Err)
}
func (e *GivenUp) Unwrap() error { return e.Err }

// backOff is the pause after so many failures in a row, and never shorter than the
// service asked for.
func (l *Lane) backOff(failures int, after time.Duration) time.Duration {
	return retry.Backoff{Initial: l.cfg.Retry.Initial, Max: l.cfg.Retry.Max}.Next(failures, after, l.rnd.Float64)
}
