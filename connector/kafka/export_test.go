package kafka

import "context"

// LookAtEnds is what a running source does every fifteen seconds.
func (s *Source) LookAtEnds(ctx context.Context) { s.lookAtEnds(ctx) }

// Config is the source's, with its defaults.
func (s *Source) Config() Config { return s.cfg }

// Shed is how often records were given back.
func (s *Source) Shed() int64 { return s.sheds.Load() }

// Repeats reports whether the record's row may be in the table already, the partition
// having been set apart.
func (p *Partition) Repeats(table string, offset int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return offset < p.repeats[table]
}
