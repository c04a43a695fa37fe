package kafka

import (
	"time"

	"github.com/feedsink/feedsink/connector/ack"
)

// WrittenAt is the record's timestamp. A record without one counts as written now.
func WrittenAt(r *Record) time.Time {
	if r.Timestamp.UnixMilli() <= 0 {
		return time.Now()
	}
	return r.Timestamp
}

// Take notes that the handler takes the record now, so that claims know its timestamp;
// else as Stands.
func (p *Partition) Take(r *Record) (done, restored bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == ended {
		return true, false
	}
	p.taking, p.written, p.kinds = r.Offset, WrittenAt(r), p.kinds[:0]
	return p.tracker.Done(r.Offset), p.tracker.Restored(r.Offset)
}

// Waiting is the timestamp of the oldest record that the handler has not taken, or
// that waits for a person since its row was in error; zero: there is none. Of a
// record that was not fetched it is when the brokers first told of it.
func (p *Partition) Waiting() (since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != reading {
		return since
	}
	if since = p.untaken; since.IsZero() {
		since = p.behind
	}
	for c := range p.claims {
		if c.kept {
			since = older(since, c.oldest)
		}
	}
	return since
}

// older is the earlier of two times of which zero means that there is none.
func older(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// EachPending calls f with what each pending record is (ack.Entry.Of), in the order of
// offsets, until it returns false. f must be quick and must not call the partition.
func (p *Partition) EachPending(f func(of any) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == reading {
		p.tracker.EachPending(f)
	}
}

// CountAs has the record that is taken now counted as one of a kind, too, in the claims of
// the files that take it. A kind is comparable and not nil.
func (p *Partition) CountAs(kind any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kinds = append(p.kinds, kind)
}

// setUntaken notes the first record that was polled and not taken; nil: there is none.
func (p *Partition) setUntaken(r *Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.untaken = time.Time{}
	if r != nil {
		p.untaken = WrittenAt(r)
	}
}

// Oldest is the oldest timestamp of the claim's records, as far as they were read;
// zero: none was, or the claim holds nothing any more.
func (c *Claim) Oldest() time.Time {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.p.state == ended || c.state == confirmed {
		return time.Time{}
	}
	return c.oldest
}

// note notes the timestamp of the record that is taken now, if that is the one at
// offset. p.mu is held.
func (c *Claim) note(offset int64) {
	if offset != c.p.taking || c.p.written.IsZero() {
		return
	}
	c.oldest = older(c.oldest, c.p.written)
	c.written.Add(c.p.written.UnixMilli())
	for _, kind := range c.p.kinds {
		c.countAs(kind, c.p.written)
	}
}

// countAs counts a record of a kind. p.mu is held.
func (c *Claim) countAs(kind any, written time.Time) {
	of := c.kinds[kind]
	if of == nil {
		of = &ack.Timestamps{}
		if c.kinds == nil {
			c.kinds = map[any]*ack.Timestamps{}
		}
		c.kinds[kind] = of
	}
	of.Add(written.UnixMilli())
}

// noteCopy notes the timestamp of a record that another claim holds as well. p.mu is held.
func (c *Claim) noteCopy(offset int64) {
	for other := range c.p.claims {
		if span := other.c.Span(); span.From <= offset && offset < span.To {
			c.oldest = older(c.oldest, other.oldest)
		}
	}
}

// TakeCovered notes that the record at offset, which is taken now, is in a file of the
// table that a former owner sent.
func (p *Partition) TakeCovered(table string, offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.adopted {
		if a.Table == table && offset < a.UpTo {
			a.Claim.note(offset)
			return
		}
	}
}

// EachTimestamp calls f with the timestamps of the claim's records, within a 64th of
// the time that they span, and how many have it.
func (c *Claim) EachTimestamp(f func(at time.Time, records int64)) {
	c.p.mu.Lock()
	written := c.written
	c.p.mu.Unlock()
	written.Each(f)
}

// EachTimestampOf is EachTimestamp for the records of each kind (CountAs). f must not call
// the partition.
func (c *Claim) EachTimestampOf(f func(kind any, at time.Time, records int64)) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	for kind, written := range c.kinds {
		written.Each(func(at time.Time, n int64) { f(kind, at, n) })
	}
}
