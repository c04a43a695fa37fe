package calls

import (
	"context"
	"sync"
	"time"
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
		l.queue(e)
	}
	l.armed = sooner(l.notBefore, sooner(l.tickRepeats(now), l.tickTables(now)))
	if len(l.waiting) > 0 {
		l.armed = sooner(l.armed, l.waiting[0].due)
	}
	l.rouse()
	return l.armed
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
	for n := min(l.ready.length, l.limiter.Limit()-l.inFlight) - l.waking; n > 0; n-- {
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
		l.mu.Unlock()
		err := l.call(ctx, c)
		ended := time.Now()
		v := l.judge(ctx, c, err, ended)
		l.report(c, &v, ended.Sub(started))
		l.mu.Lock()
		l.settle(e, &v, started, ended)
	}
}

func (l *Lane) call(ctx context.Context, c *call) error {
	if l.owned != nil {
		return l.owned.CallFor(ctx, &c.write, c.unsure, c.origins)
	}
	return l.caller.Call(ctx, &c.write, c.unsure)
}

func (l *Lane) awake() {
	l.idle--
	if l.waking > 0 {
		l.waking--
	}
}

// askAgain is how soon the lane asks again whether it may call.
const askAgain = 20 * time.Millisecond

// shareAgain is how soon it asks again for its share of the rate.
const shareAgain = 250 * time.Millisecond

// next takes the key whose first call starts now, or none if none may.
func (l *Lane) next() (*entry, time.Time) {
	for !l.stopped && l.notBefore.IsZero() && l.ready.length > 0 && l.inFlight < l.limiter.Limit() {
		if l.skip(l.ready.first) {
			continue
		} else if l.isHalted(l.ready.first.head) {
			l.putAside(l.ready.pop())
			continue
		}
		now := time.Now()
		if l.cfg.MayCall != nil && !l.cfg.MayCall() {
			l.hold(now.Add(askAgain))
			break
		}
		if wait := l.shortOf(now); wait > 0 {
			l.hold(now.Add(wait))
			break
		}
		probes, wait := l.service.admit(now)
		if wait > 0 {
			l.hold(now.Add(wait))
			break
		}
		if l.rate != nil {
			l.rate.AllowN(now, 1)
		}
		e := l.ready.pop()
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
		c.settled, _ = e.table.breaker.Allow()
		return e, now
	}
	return nil, time.Time{}
}

// report tells the origins and the observer, outside the lock.
func (l *Lane) report(c *call, v *verdict, took time.Duration) {
	switch v.outcome {
	case Applied, AbsentAlready:
		for _, o := range c.origins {
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
	a := Attempt{Mapping: c.mapping, Op: c.write.Op, Writes: len(c.origins), Outcome: v.outcome, Took: took, Repeat: c.repeats != nil}
	if a.Repeat && v.outcome == Rejected {
		a.Err = v.err
	}
	l.obs.Called(a)
}

// settle draws the consequences of an attempt: for the limit, for the breaker,
// and for the key, whose next call may start or whose first is tried again later.
func (l *Lane) settle(e *entry, v *verdict, started, ended time.Time) {
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
	c.revoked = nil

	if v.outcome == Retried && (len(c.origins) > 0 || c.repeats != nil) {
		if c.failed.IsZero() {
			c.failed = ended
		}
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
