package kafka

import (
	"cmp"
	"maps"
	"slices"

	"github.com/feedsink/feedsink/connector/ack"
)

// A record whose row is in error has no other place where there is no dead-letter
// topic. Its partition halts with the watermark at that record. All else that the
// import has loaded is confirmed, and the table's other partitions go on; what is
// left of the import stays in this partition's ledger.

// entryKey is where a partition keeps an import: by its table, and beside the one
// that the table has on its way, by its file, one of which rows are in error.
func entryKey(im ack.Import) string {
	if im.State == ack.SetApart {
		return apartKey(im.Table)
	}
	if im.State != ack.InError && im.State != ack.PartInError {
		return im.Table
	}
	return KeptKey(im.Table, im.File)
}

// KeptKey is what ConfirmImport knows an import by of which only rows in error are
// left.
func KeptKey(table, file string) string { return table + "\x00" + file }

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

// keep confirms the claim but for records whose rows are in error, with p.mu held. It
// reports false if there are none. again says that a former owner found them, so that
// nobody knows which they are: the import is looked at once more.
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
		p.claims[&Claim{p: p, c: one, importing: true}] = struct{}{}
	}
	return true, again
}

// refusedFirst puts claims with records that have no other place before those of the
// same partition that have none.
func refusedFirst(claims []*Claim) []*Claim {
	return slices.SortedStableFunc(slices.Values(claims), func(a, b *Claim) int { return cmp.Compare(min(b.Refused(), 1), min(a.Refused(), 1)) })
}

// HaltAtRecord halts the partition at a pending record that has no other place.
func (p *Partition) HaltAtRecord(reason string) {
	p.Halt("record", reason)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stuck++
}

// underWay is how many pending records end by themselves.
func (p *Partition) underWay() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.loaded {
		return 0
	}
	return p.tracker.Pending() - p.stuck
}
