package calls

import (
	"slices"
	"time"
)

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

// holds reports whether some origin keeps the refusal from being final. All are
// asked: each stands for a record that was refused.
func (c *call) holds(err error) (held bool) {
	for _, o := range c.origins {
		if h, ok := o.(Holder); ok && h.Hold(err) {
			held = true
		}
	}
	return held
}
