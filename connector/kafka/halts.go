package kafka

import (
	"slices"

	"github.com/feedsink/feedsink/connector/ack"
)

// KeepHalt keeps a mapping's halt in the partition's ledger, from the next commit on.
func (p *Partition) KeepHalt(h ack.Halt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ledger.Halts = append(without(p.ledger.Halts, h.Mapping), h)
}

// ForgetHalt takes a mapping's halt off the partition's ledger.
func (p *Partition) ForgetHalt(mapping uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ledger.Halts = without(p.ledger.Halts, mapping)
}

// KeptHalts are the mappings' halts in the partition's ledger.
func (p *Partition) KeptHalts() []ack.Halt {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.ledger.Halts)
}

func without(halts []ack.Halt, mapping uint64) []ack.Halt {
	return slices.DeleteFunc(halts, func(h ack.Halt) bool { return h.Mapping == mapping })
}

// CommitSoon has the offsets committed now instead of in their turn.
func (s *Source) CommitSoon() {
	select {
	case s.soon <- struct{}{}:
	default: // it has been asked for
	}
}
