package calls

import "cmp"

// class is the writes of one route. Its weight is its share of the calls that start
// while several classes have keys that wait.
type class struct {
	mapping string
	route   int
	weight  float64
	// ahead is how far it is ahead of the class whose call started last, in calls of
	// weight 1. It is never below 0: a class that had no work has gained nothing.
	ahead float64
	keys  fifo
}

// ready is the keys whose first call may start: by class, and of each the oldest first.
type ready struct {
	classes []*class // that had writes; there are few
	early   *class   // of calls that are likely to change nothing; nil: there was none
	length  int      // keys of all classes
}

// class finds the item's.
func (r *ready) class(it *Item) *class {
	weight := cmp.Or(it.Weight, 1)
	for _, c := range r.classes {
		if c.route == it.Route && c.mapping == it.Mapping {
			c.weight = weight
			return c
		}
	}
	c := &class{mapping: it.Mapping, route: it.Route, weight: weight}
	r.classes = append(r.classes, c)
	return c
}

// classify puts a key into the most urgent class of its calls. Where it waits for its
// turn, it goes behind the class's other keys.
func (r *ready) classify(e *entry) {
	if e.head == nil || e.head == e.tail && e.head.class == e.class {
		return
	}
	most := e.head.class
	for c := e.head.next; c != nil; c = c.next {
		if c.class.weight > most.weight {
			most = c.class
		}
	}
	if most == e.class {
		return
	}
	waits := e.place == queued && e.in == &e.class.keys
	if waits {
		r.remove(e)
	}
	if e.class = most; waits {
		r.push(e)
	}
}

// earlyPart is the part of the calls that goes to those that are likely to change nothing, while others wait.
const earlyPart = 0.1

// earlyClass is of less weight than all others: what comes in it may wait for one of their calls.
func (r *ready) earlyClass() *class {
	if r.early == nil {
		r.early = &class{weight: earlyPart}
		r.classes = append(r.classes, r.early)
	}
	for _, c := range r.classes {
		if c != r.early {
			r.early.weight = min(r.early.weight, earlyPart*c.weight)
		}
	}
	return r.early
}

// hasEarly reports whether such a call waits for its turn. No other one has to: it may be worth a call
// before its turn would come.
func (r *ready) hasEarly() bool { return r.early != nil && r.early.keys.length > 0 }

// first is the key whose call starts next: the oldest of the class that is ahead
// least, of such the one with most weight. There is one.
func (r *ready) first() *entry {
	var least *class
	for _, c := range r.classes {
		if c.keys.length > 0 && (least == nil || c.ahead < least.ahead || c.ahead == least.ahead && c.weight > least.weight) {
			least = c
		}
	}
	return least.keys.first
}

// start takes out the key that first has named, and counts its call.
func (r *ready) start(e *entry) {
	r.remove(e)
	reached := e.class.ahead
	for _, c := range r.classes {
		c.ahead = max(0, c.ahead-reached)
	}
	e.class.ahead = 1 / e.class.weight
}

func (r *ready) push(e *entry) {
	e.class.keys.push(e)
	r.length++
}

func (r *ready) remove(e *entry) {
	e.class.keys.remove(e)
	r.length--
}

// take takes over all keys of a table's queue.
func (r *ready) take(q *fifo) {
	for q.length > 0 {
		e := q.first
		q.remove(e)
		r.push(e)
	}
}

// fifo is a queue of keys.
type fifo struct {
	first, last *entry
	length      int
}

func (q *fifo) push(e *entry) {
	e.place, e.in, e.prev, e.next = queued, q, q.last, nil
	if q.last == nil {
		q.first = e
	} else {
		q.last.next = e
	}
	q.last = e
	q.length++
}

func (q *fifo) remove(e *entry) {
	if e.prev == nil {
		q.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		q.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
	q.length--
}
