package source

import (
	"context"

	"github.com/feedsink/feedsink/connector/ack"
)

// RecordImport commits a step of an import's life: it replaces the import's
// entry, known by its generation, in the ledger of each partition whose
// records it covers, and returns once the broker has it. ErrFenced, or any
// other error, means that the step is not on record.
func (s *Source) RecordImport(ctx context.Context, generation string, im ack.Import, claims []*Claim) error {
	for _, c := range claims {
		if !c.record(generation, im) {
			return ErrFenced
		}
	}
	return s.commit(ctx, partitionsOf(claims))
}

// ConfirmImport releases the claims, everything they cover being confirmed, and
// removes the import's entry, in one commit. It may be repeated.
func (s *Source) ConfirmImport(ctx context.Context, generation string, claims []*Claim) error {
	for _, c := range claims {
		if !c.release(generation) {
			return ErrFenced
		}
	}
	return s.commit(ctx, partitionsOf(claims))
}

func partitionsOf(claims []*Claim) []*Partition {
	ps := make([]*Partition, len(claims))
	for i, c := range claims {
		ps[i] = c.p
	}
	return ps
}

// record puts the import on the partition's ledger; false if the assignment
// has ended.
func (c *Claim) record(generation string, im ack.Import) bool {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if !c.p.live {
		return false
	}
	c.importing = true
	im.UpTo = c.c.Span().To
	if c.p.imports == nil {
		c.p.imports = map[string]ack.Import{}
	}
	c.p.imports[generation] = im
	return true
}

func (c *Claim) release(generation string) bool {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if !c.p.live {
		return false
	}
	delete(c.p.imports, generation)
	delete(c.p.claims, c)
	c.p.tracker.Release(c.c)
	return true
}

// Unconfirmed is how many records of the partition are waiting for what.
type Unconfirmed struct {
	Pending   int   // for their own confirmation
	Buffered  int64 // rows of an open file
	Importing int64 // rows of a file on its way
}

// Unconfirmed counts the partition's records that are not confirmed.
func (p *Partition) Unconfirmed() (u Unconfirmed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.loaded {
		return u
	}
	u.Pending = p.tracker.Pending()
	for c := range p.claims {
		if c.importing {
			u.Importing += c.c.Records()
		} else {
			u.Buffered += c.c.Records()
		}
	}
	return u
}
