package calls

import (
	"context"
	"fmt"
	"slices"
)

// revocation is one Drop waiting for the calls it met in flight.
type revocation struct {
	match    func(Origin) bool
	inFlight int
	ended    chan struct{} // closed when inFlight is 0
}

// Drop forgets the pending writes whose origin matches: their partition was
// revoked. A write that waits, for its turn or for another try, is forgotten at
// once and its origin never called. A call in flight runs to its end, which its
// origin hears if it is an end, but is not tried again. Drop returns once no call
// of theirs is in flight, so that the partition's next owner cannot be overtaken
// by one, or with an error when ctx ends first.
//
// The newest state of a key that is to be repeated is forgotten if any of it came
// from a matching origin.
//
// A call that merged writes of matching and other origins stays, for the others.
// match is called under the lane's lock.
func (l *Lane) Drop(ctx context.Context, match func(Origin) bool) error {
	l.mu.Lock()
	r := &revocation{match: match, ended: make(chan struct{})}
	for _, e := range l.keys {
		l.dropFrom(e, r)
	}
	inFlight := r.inFlight
	l.rouse()
	l.mu.Unlock()
	if inFlight == 0 {
		return nil
	}
	select {
	case <-r.ended:
		return nil
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		return fmt.Errorf("calls of dropped writes still in flight: %d: %w", r.inFlight, context.Cause(ctx))
	}
}

// Drain starts no more calls and waits for those in flight, whose origins hear
// their end. Everything else is forgotten. It returns an error when ctx ends
// first; the end of Run then cuts the calls off.
func (l *Lane) Drain(ctx context.Context) error {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	return l.Drop(ctx, func(Origin) bool { return true })
}

// dropFrom forgets one key's matching writes.
func (l *Lane) dropFrom(e *entry, r *revocation) {
	first := e.head
	var last *call
	for at := &e.head; *at != nil; {
		c := *at
		inFlight := c == first && e.place == calling
		if inFlight {
			r.meet(c)
		} else {
			l.count(e.table, -c.forget(r.match))
		}
		if !inFlight && len(c.origins) == 0 && (c.repeats == nil || c.repeats.dropped(r.match)) {
			*at = c.next
			c.free()
			continue
		}
		last, at = c, &c.next
	}
	e.tail = last
	// An entry in the ready queue may stay there empty: next lets go of it.
	if e.repeat.dropped(r.match) {
		l.forgetRepeat(e)
	}
	switch {
	case e.place == backing && e.head != first:
		l.waiting.remove(e)
		l.proceed(e)
	case e.place == idle:
		l.retire(e)
	}
	if e.place == aside && e.head != first {
		l.aside = slices.DeleteFunc(l.aside, func(other *entry) bool { return other == e })
		l.proceed(e)
	}
}

// meet has the call in flight tell the revocation when it ends.
func (r *revocation) meet(c *call) {
	if slices.ContainsFunc(c.origins, r.match) || c.repeats.dropped(r.match) {
		c.revoked = append(c.revoked, r)
		r.inFlight++
	}
}

// forgetRevoked forgets, of a call that would be tried again, the writes of the Drops
// that wait for it, and returns how many those are.
func (c *call) forgetRevoked() (gone int) {
	for _, r := range c.revoked {
		gone += c.forget(r.match)
		if c.repeats.dropped(r.match) {
			c.repeats = nil
		}
	}
	return gone
}

// release tells the Drops that waited for a call that its attempt ended. Nothing of
// that is left to do then: they return at once.
func release(revoked []*revocation) {
	for _, r := range revoked {
		if r.inFlight--; r.inFlight == 0 {
			close(r.ended)
		}
	}
}
