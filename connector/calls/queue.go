package calls

import (
	"container/heap"
	"container/list"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// keyID is what order is kept for: a key of a table, or what a write without a key is
// known by.
type keyID struct {
	table *table
	name  string
	by    uint64 // byKey, byProfile, or a number of its own
}

// What a keyID's name is. A write that names nothing is known by a number beyond.
const (
	byKey uint64 = iota
	byProfile
)

// call is one or several writes that go out as one and share its fate. While it
// is in flight its worker owns it, except revoked.
type call struct {
	mapping   string
	class     *class // the most urgent one of its writes
	write     schemas.Write
	origins   []Origin
	tries     int           // started attempts; none is merged into it after the first
	first     time.Time     // when the first attempt started
	failed    time.Time     // when the first attempt ended that is tried again
	failure   error         // of the last attempt, while again is set
	again     *list.Element // among the table's calls that are tried again because they failed; nil: it is none
	unsure    bool          // an attempt may have been applied
	closed    bool          // nothing more is merged into it
	premature bool          // the last answer was
	probes    bool          // the attempt in flight finds out whether the service takes calls again
	repeats   *repeat       // it sends a key's newest state once more, and has no origin
	source    *source       // where what it says is remembered, if it is applied; nil: nowhere

	outcome func(error)   // tells the breaker about the attempt in flight
	revoked []*revocation // Drops that met it in flight
	next    *call
}

// place is where an entry is.
//
//	place    its first call           left when
//	idle     there is none            a write is submitted, or a repetition is due
//	queued   may start                a worker takes it; it is halted; Drop leaves none
//	calling  is in flight             it ends: done, to be tried again, or held
//	backing  waits for another try    it is due, or dropped
//	aside    waits for Resume         its mapping is resumed, or it is dropped
type place uint8

const (
	idle    place = iota
	queued        // in the lane's ready queues, or held back with its table
	calling       // by a worker, which owns the call
	backing       // in the heap of what waits
	aside         // in the lane's list
)

// entry is a key with work: its calls in order.
type entry struct {
	id         keyID
	head, tail *call
	table      *table
	class      *class // the most urgent one of its calls
	place      place
	repeat     *repeat   // nil: none of its calls may land late
	superseded bool      // none of its calls is to be repeated
	due        time.Time // backing: when to try again
	index      int       // backing: in the heap
	in         *fifo     // queued: its class's, or one of its table
	prev, next *entry    // queued: in that
}

var (
	calls   = sync.Pool{New: func() any { return new(call) }}
	entries = sync.Pool{New: func() any { return new(entry) }}
)

func newEntry(id keyID, of *class) *entry {
	e := entries.Get().(*entry)
	*e = entry{id: id, table: id.table, class: of}
	return e
}

func newCall(it *Item, of *class) *call {
	c := calls.Get().(*call)
	c.mapping, c.class, c.write = it.Mapping, of, it.Write
	c.origins = append(c.origins, it.Origin)
	return c
}

// free gives the call's memory back. Room for many origins is not kept: a hot
// key's burst would stay indefinitely.
func (c *call) free() {
	const kept = 16
	clear(c.origins)
	origins := c.origins[:0]
	if cap(origins) > kept {
		origins = nil
	}
	*c = call{origins: origins}
	calls.Put(c)
}

// ask asks the origins that are a T, and reports whether one of them says yes. All are asked:
// each stands for a record.
func ask[T any](origins []Origin, says func(T) bool) (yes bool) {
	for _, o := range origins {
		if asked, ok := o.(T); ok && says(asked) {
			yes = true
		}
	}
	return yes
}

// forget takes out the origins that match and returns how many did.
func (c *call) forget(match func(Origin) bool) int {
	kept := c.origins[:0]
	for _, o := range c.origins {
		if !match(o) {
			kept = append(kept, o)
		}
	}
	gone := len(c.origins) - len(kept)
	clear(c.origins[len(kept):])
	c.origins = kept
	return gone
}

// failing reports whether the first call failed and is, or will be, tried again.
func (e *entry) failing() bool {
	return e.head != nil && e.head.tries > 0 && (e.place != calling || e.head.tries > 1)
}

func wait(o Origin) {
	if w, ok := o.(Waiter); ok {
		w.Wait()
	}
}

func (e *entry) push(c *call) {
	if e.head == nil {
		e.head = c
	} else {
		e.tail.next = c
	}
	e.tail = c
}

// pop takes out the first call and gives its memory back.
func (e *entry) pop() {
	c := e.head
	e.head = c.next
	if e.head == nil {
		e.tail = nil
	}
	e.table.unlist(c)
	c.free()
}

// absorb merges the item into the last call, if that has not started. One that
// failed has started: it may have been applied, and then its events must not be
// dead-lettered for what a later one says.
func (e *entry) absorb(it *Item, of *class) bool {
	c := e.tail
	if c == nil || c.tries > 0 || c.closed || c.repeats != nil || c.mapping != it.Mapping || !schemas.MergeInto(&c.write, &it.Write) {
		return false
	}
	c.origins = append(c.origins, it.Origin)
	if of.weight > c.class.weight {
		c.class = of
	}
	return true
}

// isVoid reports whether the next call leaves nothing of this one, a patch. That the patch found
// nothing may be due to the newer write: a row for it waits no more where that takes its place.
func (c *call) isVoid() bool {
	n := c.next
	return c.write.Op == schemas.Patch && c.repeats == nil && n != nil && n.repeats == nil && n.mapping == c.mapping && n.write.Voids(&c.write)
}

// joinNext merges the call into the next one, which is as its writes would be had they waited.
func (c *call) joinNext() {
	n := c.next
	n.origins = append(slices.Clip(c.origins), n.origins...)
	c.origins = nil
	if c.class.weight > n.class.weight {
		n.class = c.class
	}
}

// byDue is the heap of entries backing off, the next due first.
type byDue []*entry

func (b byDue) Len() int           { return len(b) }
func (b byDue) Less(i, j int) bool { return b[i].due.Before(b[j].due) }

func (b byDue) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].index, b[j].index = i, j
}

// Push adds an entry at the end.
func (b *byDue) Push(x any) {
	e := x.(*entry)
	e.index = len(*b)
	*b = append(*b, e)
}

// Pop takes out the entry at the end.
func (b *byDue) Pop() any {
	last := len(*b) - 1
	e := (*b)[last]
	(*b)[last] = nil
	*b = (*b)[:last]
	return e
}

func (b *byDue) add(e *entry, due time.Time) {
	e.place, e.due = backing, due
	heap.Push(b, e)
}

func (b *byDue) remove(e *entry) { heap.Remove(b, e.index) }

// revocation is one Drop waiting for the calls it met in flight.
type revocation struct {
	match    func(Origin) bool
	inFlight int
	ended    chan struct{} // closed when inFlight is 0
}

// Drop forgets the pending writes whose origin matches: their partition was
// revoked. A write that waits, for its turn or for another try, is forgotten at
// once and its origin never called. A call in flight runs to its end, which its
// origin is told if it is an end, but is not tried again. Drop returns once no call
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
	l.said.forgetWhere(func(in scope) bool { return match(in.of) })
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
			e.table.unlist(c)
			c.free()
			continue
		}
		last, at = c, &c.next
	}
	e.tail = last
	l.ready.classify(e)
	// An entry in a ready queue may stay there empty: next lets go of it.
	if e.repeat.dropped(r.match) {
		l.forgetRepeat(e)
	}
	switch { // e may be another lane's behind it
	case e.place == backing && e.head != first:
		l.waiting.remove(e)
		l.proceed(e)
	case e.place == aside && e.head != first:
		l.aside = slices.DeleteFunc(l.aside, func(other *entry) bool { return other == e })
		l.proceed(e)
	case e.place == idle:
		l.retire(e)
	}
}

// meet has the call in flight tell the revocation when it ends.
func (r *revocation) meet(c *call) {
	if slices.ContainsFunc(c.origins, r.match) || c.repeats.dropped(r.match) {
		c.revoked = append(c.revoked, r)
		r.inFlight++
	}
}

// may is the error of an attempt under way that is to send nothing more: another member may
// have its partitions, or they are given back to be another's, or the service wants no calls.
func (l *Lane) may(c *call) error {
	if l.cfg.MayCall != nil && !l.cfg.MayCall() {
		return errNotOurs
	}
	if wait := l.service.Held(); wait > 0 {
		return NotSent{Why: "no further request is sent: the service wants no calls for another " + wait.String(), After: wait}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	dropped := func(o Origin) bool {
		return slices.ContainsFunc(c.revoked, func(r *revocation) bool { return r.match(o) })
	}
	for _, o := range c.origins {
		if !dropped(o) {
			return nil // it goes on for this one
		}
	}
	if len(c.revoked) > 0 {
		return errNotOurs
	}
	return nil
}

// errNotOurs ends an attempt whose requests were all answered.
var errNotOurs Failure = NotSent{Why: "no further request is sent: another member may have the partition by now, and sends the write"}

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

// Holder is an Origin that may keep a refusal from being final, because its mapping
// is halted: the write then waits at the head of its key until Resume, and is tried
// again. It is asked before each Reject, as Origin's methods are called.
type Holder interface{ Hold(err error) bool }

// Halt starts no more calls of the mapping: its writes wait in their order. Calls
// in flight run to their end. A key that another mapping writes too waits where
// the halted one's write is its first.
func (l *Lane) Halt(mapping string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.halted, mapping) {
		l.halted = append(l.halted, mapping)
		l.said.forgetWhere(func(in scope) bool { return in.mapping == mapping })
	}
}

// Resume lets the mapping's calls go on.
func (l *Lane) Resume(mapping string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.halted = slices.DeleteFunc(l.halted, func(m string) bool { return m == mapping })
	l.aside = slices.DeleteFunc(l.aside, func(e *entry) bool {
		goes := e.head == nil || !l.isHalted(e.head)
		if goes {
			l.ready.push(e)
		}
		return goes
	})
	l.rouse()
}

// isHalted reports whether the call has to wait for its mapping. Nearly always no
// mapping is halted.
func (l *Lane) isHalted(c *call) bool {
	return len(l.halted) > 0 && slices.Contains(l.halted, c.mapping)
}

// putAside lets a key wait for Resume.
func (l *Lane) putAside(e *entry) {
	e.place = aside
	l.aside = append(l.aside, e)
	if t := e.table; t.probe == e { // another key may tell
		t.probe = nil
		l.probe(t, time.Now())
	}
}

// Halted is the number of writes that wait for Resume. Calls that wait for another
// try, or their turn, are counted once that has come.
func (l *Lane) Halted() (writes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.aside {
		for c := e.head; c != nil; c = c.next {
			writes += len(c.origins)
		}
	}
	return writes
}
