package calls

import (
	"cmp"
	"container/list"
	"slices"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// A call whose outcome is unknown may still be on its way, and land on top of what
// later calls of its key said. So the key is remembered for Config.RepeatAfter, by
// which time such a call has landed or never will. If later calls were applied
// meanwhile, what they left is then sent once more.

// maxRepeats bounds the keys that are remembered, each with what its calls said
// since. Beyond it a key is not remembered, and the observer is told.
const maxRepeats = 4096

// Lasting is an Origin of a long-lived part, such as a record's partition: Drop is
// asked about that when the write itself has ended and its newest state is still to
// be repeated. Its own methods are not called. An origin without it stands for
// itself.
type Lasting interface{ Lasting() Origin }

// repeat is a key with a call that may still land.
type repeat struct {
	due     time.Time
	at      *list.Element   // in the lane's list of them, the next due first
	unsure  int             // calls that may still land
	changed bool            // another one than the only one of these was applied
	mapping string          // of the newest call
	class   *class          // of that
	writes  []schemas.Write // what was applied since, to be sent in this order
	of      []Origin        // whose writes these are, for Drop
}

// remember notes that the key's first call may land late.
func (l *Lane) remember(e *entry, ended time.Time) {
	if l.cfg.RepeatAfter <= 0 || e.id.by > byProfile || e.superseded {
		return
	}
	c, r := e.head, e.repeat
	if r == nil {
		if l.repeats.Len() >= maxRepeats {
			l.unrepeated = append(l.unrepeated, c.mapping)
			l.said.pause(ended.Add(l.cfg.RepeatAfter))
			l.sound()
			return
		}
		r = &repeat{unsure: 1}
		r.at = l.repeats.PushBack(e)
		l.remembered.Add(1)
		e.repeat = r
		r.keep(c)
	} else if !c.unsure {
		r.unsure++
	}
	r.due = ended.Add(l.cfg.RepeatAfter)
	l.repeats.MoveToBack(r.at)
	l.wakeAt(l.nextRepeat())
}

// applied notes what the service took for a key that is remembered.
func (r *repeat) applied(c *call) {
	r.changed = r.changed || !c.unsure || r.unsure > 1
	r.keep(c)
	w, _ := c.write.Own()
	if w.Op == schemas.Create {
		w.Op = schemas.Upsert // it is there by now
	}
	r.mapping, r.class = c.mapping, c.class
	last := len(r.writes) - 1
	switch {
	case last < 0 || w.Op == schemas.Delete || r.writes[last].Op == schemas.Delete:
		r.writes = append(r.writes[:0], w)
	case !schemas.MergeInto(&r.writes[last], &w):
		r.writes = append(slices.DeleteFunc(r.writes, func(older schemas.Write) bool {
			return older.Op == schemas.Upsert && schemas.Covers(w.Cells, older.Cells)
		}), w)
	}
	if len(r.writes) > maxParts {
		r.writes = slices.Delete(r.writes, 0, 1)
	}
}

// maxParts bounds the calls that a repetition may take. It is one, but for table
// records whose events name different columns: whether the service keeps the
// columns that an upsert does not name, this lane does not know.
const maxParts = 4

// keep remembers whose the call is.
func (r *repeat) keep(c *call) {
	of := c.origins
	if c.repeats != nil {
		of = c.repeats.of
	}
	for _, o := range of {
		o = cmp.Or(lasting(o), o)
		if !slices.Contains(r.of, o) {
			r.of = append(r.of, o)
		}
	}
}

// nextRepeat is when the next key is due, zero without one.
func (l *Lane) nextRepeat() time.Time {
	if first := l.repeats.Front(); first != nil {
		return first.Value.(*entry).repeat.due
	}
	return time.Time{}
}

// tickRepeats has what is due sent again. A key whose call is under way, or waits
// for another try, is seen to when that has ended.
func (l *Lane) tickRepeats(now time.Time) (next time.Time) {
	for at := l.repeats.Front(); at != nil; {
		e := at.Value.(*entry)
		at = at.Next()
		if now.Before(e.repeat.due) {
			return e.repeat.due
		}
		switch e.place {
		case idle:
			l.proceed(e)
		case queued:
			l.repeat(e, now)
			l.ready.classify(e)
		}
	}
	return time.Time{}
}

// repeat puts what is due before the key's other calls, and forgets it: if the
// outcome of these calls is unknown too, it is remembered anew.
func (l *Lane) repeat(e *entry, now time.Time) {
	r := e.repeat
	if r == nil || now.Before(r.due) {
		return
	}
	l.forgetRepeat(e)
	if !r.changed {
		return
	}
	if l.cfg.Repeats != nil && !l.cfg.Repeats(e.id.table.id) {
		l.unrepeated = append(l.unrepeated, r.mapping)
		l.sound()
		return
	}
	for _, w := range slices.Backward(r.writes) {
		c := calls.Get().(*call)
		c.mapping, c.class, c.write, c.repeats = r.mapping, r.class, w, r
		c.next = e.head
		if e.head = c; e.tail == nil {
			e.tail = c
		}
	}
}

func (l *Lane) forgetRepeat(e *entry) {
	l.repeats.Remove(e.repeat.at)
	l.remembered.Add(-1)
	e.repeat = nil
}

// Superseded says that another way than this lane writes the key from here on: what
// was submitted so far is not its newest state any more, and is not repeated. Nor is it
// merged with what comes: that may have to wait for the other way's write, and this one for
// that call.
func (l *Lane) Superseded(w *schemas.Write) {
	if l.remembered.Load() == 0 && l.pending.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.keys[keyID{table: l.known(w.Table), name: w.Key}]
	if e == nil {
		return
	}
	e.superseded = true
	if e.tail != nil {
		e.tail.closed = true
	}
	if e.repeat != nil {
		l.forgetRepeat(e)
		if e.place == idle {
			l.retire(e)
		}
	}
}

// dropped reports whether the repetition is of any write that match forgets. It is
// then forgotten as a whole: the partition's next owner may write newer values.
func (r *repeat) dropped(match func(Origin) bool) bool {
	return r != nil && slices.ContainsFunc(r.of, match)
}
