package kafka

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

// Claim is the hold of one file on the records of one assignment.
type Claim struct {
	p *Partition
	c *ack.Claim

	// Guarded by p.mu.
	state     claimState
	dead      int64                   // records that have become dead letters
	refused   ack.Ranges              // records that have no other place
	refusedIn []string                // files in which their rows are in error
	partial   bool                    // of its last record only some rows are in the file
	kept      bool                    // of a confirmed import only the records are left that have no other place
	oldest    time.Time               // of the timestamps of its records; zero: none was read
	written   ack.Timestamps          // of its records
	kinds     map[any]*ack.Timestamps // likewise, by kind
}

// claimState is how far a claim's file is; it never goes back.
type claimState uint8

const (
	filling   claimState = iota // the file is open: Extend
	importing                   // it is sealed: record, adopt
	confirmed                   // the claim is released, but for records that have no other place: confirm
)

// Claim holds the watermark at offset until the claim is confirmed.
func (p *Partition) Claim(offset int64) *Claim {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &Claim{p: p, c: p.tracker.Claim(offset)}
	if offset == p.taking {
		c.note(offset)
	} else {
		c.noteCopy(offset)
	}
	p.claims[c] = struct{}{}
	return c
}

// RoomForDone reports whether the ledger has room to note records as confirmed one by one
// while older ones wait for a file. At half of its room it has none: beyond three quarters
// the partition would be read no further.
func (p *Partition) RoomForDone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.committed.metadata) < p.limit/2
}

// ClaimPending puts a claim in the place of a pending record that was written then. kind
// is what the record is counted as (CountAs); nil: nothing.
func (p *Partition) ClaimPending(e *ack.Entry, written time.Time, kind any) *Claim {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &Claim{p: p, c: p.tracker.Claim(e.Offset()), oldest: written}
	c.written.Add(written.UnixMilli())
	if kind != nil {
		c.countAs(kind, written)
	}
	p.claims[c] = struct{}{}
	if p.tracker.Share(e); p.tracker.Confirm(e) && p.state != ended {
		p.total.Add(-1)
		p.hold(-e.Bytes)
	}
	return c
}

// Extend takes the record at offset into the file.
func (c *Claim) Extend(offset int64) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.c.Extend(offset)
	c.note(offset)
}

// AddingRows notes that several rows of the record at offset go into files, one after the
// other. Until RowsAdded says that they are there, a file that is closed may lack some.
func (p *Partition) AddingRows(offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.adding = offset + 1
}

// RowsAdded notes that all rows of the record that AddingRows named are in files.
func (p *Partition) RowsAdded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.adding = 0
}

// Close notes that the file takes no more rows. A record of which only some are in it is
// none of those that the import covers: the next owner reads it again.
func (c *Claim) Close() {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.partial = c.p.adding == c.c.Span().To
}

// upTo is the offset below which the file has all rows of the claim's records, with p.mu
// held.
func (c *Claim) upTo() int64 {
	if c.partial {
		return c.c.Span().To - 1
	}
	return c.c.Span().To
}

// UpTo is the offset below which the file has all rows of the claim's records.
func (c *Claim) UpTo() int64 {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	return c.upTo()
}

// Partition is the assignment that the claim's records came from.
func (c *Claim) Partition() *Partition { return c.p }

// Topic is the topic of the records.
func (c *Claim) Topic() string { return c.p.Topic }

// Records is how many records the claim holds, for an adopted import at most.
func (c *Claim) Records() int64 {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	return c.c.Records()
}

// Holds reports whether the claim may hold the record: it holds some of p from
// before to after it.
func (c *Claim) Holds(p *Partition, offset int64) bool {
	if c.p != p {
		return false
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	span := c.c.Span()
	return span.From <= offset && offset < span.To
}

// Apart reports whether the record at offset, in the span of some claim, was
// confirmed by itself: no claim holds it.
func (c *Claim) Apart(offset int64) bool {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	return c.p.tracker.Apart(offset)
}

// Live reports whether the assignment lasts that the claim was made in.
func (c *Claim) Live() bool { return c.p.Live() }

// DeadLetter notes that one of the claim's records has become a dead letter.
func (c *Claim) DeadLetter() {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.dead++
}

// Dead is how many of the claim's records have become dead letters.
func (c *Claim) Dead() int64 {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	return c.dead
}

// record puts the import on the partition's ledger, or takes it off if it has no
// part; false if the assignment has ended.
func (c *Claim) record(im ack.Import) bool {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.p.state == ended {
		return false
	}
	c.state = max(c.state, importing)
	if im.Part == 0 {
		delete(c.p.imports, im.Table)
		c.p.forgetParts(im.Table)
		return true
	}
	im.UpTo, im.Since = c.upTo(), c.p.OtherWatermark()
	if before, ok := c.p.imports[im.Table]; ok {
		// Two claims on one partition: what was adopted and what was built again.
		im.UpTo = max(im.UpTo, before.UpTo)
		// What the other lane had not confirmed at the first step may land after
		// the rows of any file of the generation.
		im.Since = min(im.Since, before.Since)
		c.nextPart(before, im)
	}
	c.p.imports[im.Table] = im
	return true
}

func (c *Claim) release(key string) bool {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.p.state == ended {
		return false
	}
	delete(c.p.imports, key)
	delete(c.p.claims, c)
	c.p.tracker.Release(c.c)
	return true
}

// confirm releases the claim, but for records that have no other place. again says
// that the import is to be looked at once more.
func (c *Claim) confirm(key string) (again, live bool) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.p.state == ended || c.state == confirmed {
		return false, c.p.state != ended
	}
	c.state = confirmed
	kept, again := c.keep(key)
	delete(c.p.claims, c)
	if !kept {
		delete(c.p.imports, key)
		c.p.tracker.Release(c.c)
	}
	return again, true
}

// setApart replaces the import's entry by the note; false if the assignment has ended.
func (c *Claim) setApart(im ack.Import) bool {
	p := c.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == ended {
		return false
	}
	// Nothing of the other lane has to be seen that is older than the records: their
	// rows go out once more.
	im.State, im.UpTo, im.Since = ack.SetApart, c.upTo(), p.tracker.Watermark()
	for _, key := range []string{im.Table, apartKey(im.Table)} {
		if before, ok := p.imports[key]; ok {
			im.UpTo = max(im.UpTo, before.UpTo)
		}
	}
	delete(p.imports, im.Table)
	p.forgetParts(im.Table)
	p.imports[apartKey(im.Table)] = im
	return true
}

// Refuse notes that the row of a record of the claim is in error in the import of
// that file and that there is no other place for the record. The claim goes on to
// hold it once the import is confirmed.
func (c *Claim) Refuse(offset int64, file string) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.refused = c.refused.Add(ack.Range{From: offset, To: offset + 1})
	if !slices.Contains(c.refusedIn, file) {
		c.refusedIn = append(c.refusedIn, file)
	}
}

// Refused is how many of the claim's records have no other place.
func (c *Claim) Refused() (n int64) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	for _, r := range c.refused {
		n += r.To - r.From
	}
	return n
}

// keep confirms the claim but for records whose rows are in error, with p.mu held. It
// reports false if there are none. again says that a former owner found them, so that
// it is not known which they are: the import is looked at once more.
func (c *Claim) keep(key string) (kept, again bool) {
	p := c.p
	im, found := p.imports[key]
	if !found {
		return false, false // another claim of the partition has seen to it
	}
	held := c.refused
	var left []ack.Import
	if slices.Contains(c.refusedIn, im.File) {
		left = append(left, im)
	}
	if key == im.Table {
		for _, part := range p.imports {
			if part.Table == im.Table && part.State == ack.PartInError {
				left = append(left, part)
				again = again || !slices.Contains(c.refusedIn, part.File)
			}
		}
	}
	if len(left) == 0 {
		return false, false
	}
	if again {
		held = ack.Ranges{{From: min(c.c.Span().From, p.tracker.Watermark()), To: max(c.c.Span().To, im.UpTo)}}
	}
	delete(p.imports, key)
	for _, one := range left {
		delete(p.imports, entryKey(one))
		one.State, one.UpTo = ack.InError, held[len(held)-1].To
		p.imports[entryKey(one)] = one
	}
	for _, one := range p.tracker.Keep(c.c, held) {
		p.claims[&Claim{p: p, c: one, state: importing, kept: true, oldest: c.oldest}] = struct{}{}
	}
	return true, again
}

// nextPart keeps the entry of a file of which records are refused beside that of the
// next one of its generation, with p.mu held.
func (c *Claim) nextPart(before, next ack.Import) {
	if before.Part < next.Part && slices.Contains(c.refusedIn, before.File) {
		before.State = ack.PartInError
		c.p.imports[entryKey(before)] = before
	}
}

// forgetParts takes off what nextPart kept: all records are read again. p.mu is held.
func (p *Partition) forgetParts(table string) {
	maps.DeleteFunc(p.imports, func(_ string, im ack.Import) bool { return im.Table == table && im.State == ack.PartInError })
}

// refusedFirst puts claims with records that have no other place before those of the
// same partition that have none.
func refusedFirst(claims []*Claim) []*Claim {
	return slices.SortedStableFunc(slices.Values(claims), func(a, b *Claim) int { return cmp.Compare(min(b.Refused(), 1), min(a.Refused(), 1)) })
}

// partitionsOf names each of the claims' partitions once.
func partitionsOf(claims []*Claim) (ps []*Partition) {
	for _, c := range claims {
		if !slices.Contains(ps, c.p) {
			ps = append(ps, c.p)
		}
	}
	return ps
}

// Stretches are what claims span, each record once, ordered by topic, partition
// and offset.
func Stretches(claims []*Claim) []cluster.Stretch {
	var all []cluster.Stretch
	for _, c := range claims {
		c.p.mu.Lock()
		span := c.c.Span()
		c.p.mu.Unlock()
		all = append(all, cluster.Stretch{TopicPartition: cluster.TopicPartition{Topic: c.p.Topic, Partition: c.p.ID}, Span: cluster.Span{From: span.From, To: span.To}})
	}
	return cluster.Joined(all)
}

// Reread reads stretches once more, as Reader.Reread does.
func (s *Source) Reread(ctx context.Context, stretches []cluster.Stretch, each func(i int, r *Record) error) error {
	reader, err := cluster.NewReader(s.cfg.Connection)
	if err != nil {
		return err
	}
	defer reader.Close()
	return reader.Reread(ctx, s.log, stretches, each)
}
