package ack

import "slices"

// Tracker follows the records of one partition through one assignment.
//
// A record that was read is in exactly one of three situations: it is pending
// on its own (Track, then Confirm), it waits for a file with all others that
// the file's claim spans (Claim, then Release), or it is confirmed. Memory
// follows the number of pending records and claims, never the number of
// records read: confirmed ones are kept as the gaps in between.
//
// Calls are not safe for concurrent use.
type Tracker struct {
	next   int64  // offset after the last record that was handed on
	first  *Entry // pending records, in the order of their offsets
	last   *Entry
	held   int
	claims []*Claim
	// done holds offsets that must count as confirmed though no gap says so:
	// read from the ledger and not reached yet, or confirmed one by one
	// inside the span of a claim.
	done     Ranges
	restored int64  // offset after the last that done had at first
	shown    *shown // nil: what is so
}

// Entry is one pending record. Its zero value is ready for Track, so that it
// can live inside whatever else is kept for the record.
type Entry struct {
	offset     int64
	prev, next *Entry
	pending    bool
	shared     bool // a claim waits for the same record

	Bytes int64 // what the record takes, for others to count
	Of    any   // what the record is, for others to ask
}

// Offset is the record's offset.
func (e *Entry) Offset() int64 { return e.offset }

// Claim is the hold of one file on the records it contains: everything from
// the first to the last of them that was routed to that file. Which of the
// records in between those are is for routing to know; it is a pure function,
// so that a claim needs no list.
type Claim struct {
	first, last int64
	records     int64
	t           *Tracker // nil once released
}

// New returns a tracker that continues at the watermark, with done as read
// from the ledger: offsets beyond it that are confirmed already.
func New(watermark int64, done Ranges) *Tracker {
	t := &Tracker{next: watermark, done: append(Ranges(nil), done.above(watermark)...)}
	if n := len(t.done); n > 0 {
		t.restored = t.done[n-1].To
	}
	return t
}

// Done reports whether the record at offset is confirmed already and must not
// be sent again.
func (t *Tracker) Done(offset int64) bool {
	return offset < t.next || t.done.Contains(offset)
}

// Apart reports whether the record at offset, though some claim spans it, was
// confirmed by itself: the claim does not hold it.
func (t *Tracker) Apart(offset int64) bool { return t.done.Contains(offset) }

// Track makes the record at offset pending in e. Offsets must ascend from call
// to call and be at or beyond Next.
func (t *Tracker) Track(e *Entry, offset int64) {
	if t.last != nil && t.last.offset >= offset || offset < t.next {
		panic("ack: offsets must ascend")
	}
	*e = Entry{offset: offset, prev: t.last, pending: true, Bytes: e.Bytes, Of: e.Of}
	if t.last == nil {
		t.first = e
	} else {
		t.last.next = e
	}
	t.last = e
	t.held++
}

// Waits reports whether the record at offset is pending.
func (t *Tracker) Waits(offset int64) bool {
	for e := t.first; e != nil && e.offset <= offset; e = e.next {
		if e.offset == offset {
			return true
		}
	}
	return false
}

// EachPending calls f with Of of each pending record, in the order of their offsets,
// until it returns false.
func (t *Tracker) EachPending(f func(of any) bool) {
	for e := t.first; e != nil && f(e.Of); e = e.next {
	}
}

// Share marks that the pending record is in a claim as well: two mappings read
// it. Its own confirmation then does not make it done.
func (t *Tracker) Share(e *Entry) { e.shared = true }

// Confirm ends a pending record. It reports false, and does nothing, for a
// record that was confirmed before.
func (t *Tracker) Confirm(e *Entry) bool {
	if !e.pending {
		return false
	}
	e.pending = false
	if e.prev == nil {
		t.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		t.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
	t.held--
	if !e.shared && t.claimed(e.offset) {
		t.done = t.done.Add(Range{e.offset, e.offset + 1})
	}
	return true
}

// claimed reports whether some claim spans offset.
func (t *Tracker) claimed(offset int64) bool {
	for _, c := range t.claims {
		if c.first <= offset {
			return true // it may yet be extended beyond offset
		}
	}
	return false
}

// Claim opens a claim that begins with the record at offset.
func (t *Tracker) Claim(offset int64) *Claim {
	c := &Claim{first: offset, last: offset, records: 1, t: t}
	t.claims = append(t.claims, c)
	return c
}

// Cover opens a claim on everything from the watermark up to, not including,
// upTo: the records of an import that a former owner of the partition began.
func (t *Tracker) Cover(upTo int64) *Claim {
	c := t.Claim(t.Watermark())
	c.last = max(c.first, upTo-1)
	c.records = c.last - c.first + 1 // at most: which of them it holds is for routing to know
	return c
}

// Extend takes the record at offset, beyond all before, into the claim.
func (c *Claim) Extend(offset int64) {
	c.last = offset
	c.records++
}

// Records is how many records the claim holds.
func (c *Claim) Records() int64 { return c.records }

// Span is the offsets from the first record of the claim to its last.
func (c *Claim) Span() Range { return Range{c.first, c.last + 1} }

// Release ends the claim: every record in it is confirmed. It reports false,
// and does nothing, the second time.
func (t *Tracker) Release(c *Claim) bool {
	if c.t != t {
		return false
	}
	c.t = nil
	t.claims = slices.DeleteFunc(t.claims, func(open *Claim) bool { return open == c })
	return true
}

// mostKept is how many ranges Keep holds apart from each other.
const mostKept = 1000

// Keep ends the claim but for the records in rs, which are some of its own: the rest
// is confirmed, as far as it lies between the first thousand ranges. It returns what
// holds them, nil if the claim was released before.
func (t *Tracker) Keep(c *Claim, rs Ranges) (kept []*Claim) {
	if !t.Release(c) {
		return nil
	}
	for i, r := range rs {
		if i == mostKept {
			kept[i-1].last = rs[len(rs)-1].To - 1
			kept[i-1].records += rs[len(rs)-1].To - r.From
			break
		}
		one := t.Claim(r.From)
		one.last, one.records = r.To-1, r.To-r.From
		kept = append(kept, one)
	}
	return kept
}

// Advance notes that all records below next were handed on: they are pending,
// claimed, or need nothing more.
func (t *Tracker) Advance(next int64) {
	t.next = max(t.next, next)
	if t.next >= t.restored {
		t.shown = nil
	}
}

// Next is the offset after the last record that was handed on.
func (t *Tracker) Next() int64 { return t.next }

// Pending is the number of records tracked and not yet confirmed.
func (t *Tracker) Pending() int { return t.held }

// Watermark is the offset below which everything is confirmed: what may be
// committed.
func (t *Tracker) Watermark() int64 {
	if t.shown != nil {
		return t.shown.watermark
	}
	w := t.next
	if t.first != nil {
		w = min(w, t.first.offset)
	}
	for _, c := range t.claims {
		w = min(w, c.first)
	}
	return w
}

// Confirmed is the set of confirmed offsets at or beyond the watermark, for
// the ledger.
func (t *Tracker) Confirmed() Ranges {
	if t.shown != nil {
		return slices.Clone(t.shown.done)
	}
	w := t.Watermark()
	t.done = t.done.above(w)
	var out Ranges
	from := w
	for e := t.first; e != nil && e.offset < t.next; e = e.next {
		out = out.Add(Range{from, e.offset})
		from = e.offset + 1
	}
	out = out.Add(Range{from, t.next})
	for _, c := range t.claims {
		out = out.Remove(c.Span())
	}
	for _, r := range t.done {
		out = out.Add(r)
	}
	return out
}
