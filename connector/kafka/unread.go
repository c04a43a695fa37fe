package kafka

import (
	"context"
	"maps"
	"slices"
)

// WriteAgain commits that writes of the other lane below these ends are to be written
// again, as soon as both lanes apply the same routes: they were not read before an
// import ended that may have overwritten them.
func (s *Source) WriteAgain(ctx context.Context, ends map[*Partition]int64) error {
	s.commits.Lock()
	defer s.commits.Unlock()
	for p, end := range ends {
		if !p.writeAgain(end) {
			return ErrFenced
		}
	}
	return s.write(ctx, slices.Collect(maps.Keys(ends)))
}

// writeAgain notes that on the partition's ledger; false if the assignment has ended.
func (p *Partition) writeAgain(end int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ledger.Routes.Resend = max(p.ledger.Routes.Resend, end)
	return p.live
}
