package calls

import (
	"container/heap"
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
	mapping string
	write   schemas.Write
	origins []Origin
	tries   int       // started attempts; none is merged into it after the first
	first   time.Time // when the first attempt started
	failed  time.Time // when the first attempt ended that is tried again
	unsure  bool      // an attempt may have been applied
	probes  bool      // the attempt in flight finds out whether the service takes calls again
	repeats *repeat   // it sends a key's newest state once more, and has no origin

	settled func(error)   // tells the breaker about the attempt in flight
	revoked []*revocation // Drops that met it in flight
	next    *call
}

// place is where an entry is.
type place uint8

const (
	idle    place = iota // nothing to do at present
	queued               // in the lane's ready queue, or held back with its table
	calling              // its first call is in flight
	backing              // its first call waits for another try
	aside                // its first call waits until its mapping is resumed
)

// entry is a key with work: its calls in order.
type entry struct {
	id         keyID
	head, tail *call
	table      *table
	place      place
	repeat     *repeat   // nil: none of its calls may land late
	superseded bool      // none of its calls is to be repeated
	due        time.Time // backing: when to try again
	index      int       // backing: in the heap
	next       *entry    // queued: in the ready queue
}

var (
	calls   = sync.Pool{New: func() any { return new(call) }}
	entries = sync.Pool{New: func() any { return new(entry) }}
)

func newEntry(id keyID) *entry {
	e := entries.Get().(*entry)
	*e = entry{id: id, table: id.table}
	return e
}

func newCall(it *Item) *call {
	c := calls.Get().(*call)
	c.mapping, c.write = it.Mapping, it.Write
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

// premature reports whether any origin says so.
func (c *call) premature() (early bool) {
	for _, o := range c.origins {
		if p, ok := o.(Premature); ok && p.Premature() {
			early = true
		}
	}
	return early
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
	c.free()
}

// absorb merges the item into the last call, if that has not started. One that
// failed has started: it may have been applied, and then its events must not be
// dead-lettered for what a later one says.
func (e *entry) absorb(it *Item) bool {
	c := e.tail
	if c == nil || c.tries > 0 || c.repeats != nil || c.mapping != it.Mapping || !schemas.Merge(&c.write, &it.Write) {
		return false
	}
	c.origins = append(c.origins, it.Origin)
	return true
}

// fifo is the queue of entries whose first call may start.
type fifo struct {
	first, last *entry
	length      int
}

func (q *fifo) push(e *entry) {
	e.place, e.next = queued, nil
	if q.first == nil {
		q.first = e
	} else {
		q.last.next = e
	}
	q.last = e
	q.length++
}

func (q *fifo) pop() *entry {
	e := q.first
	q.first, e.next = e.next, nil
	if q.first == nil {
		q.last = nil
	}
	q.length--
	return e
}

// popLast takes out the entry that was pushed last.
func (q *fifo) popLast() *entry {
	if q.length == 1 {
		return q.pop()
	}
	before := q.first
	for before.next != q.last {
		before = before.next
	}
	e := q.last
	before.next, q.last = nil, before
	q.length--
	return e
}

// append takes over all entries of another.
func (q *fifo) append(other *fifo) {
	switch {
	case other.first == nil:
		return
	case q.first == nil:
		q.first = other.first
	default:
		q.last.next = other.first
	}
	q.last = other.last
	q.length += other.length
	*other = fifo{}
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
