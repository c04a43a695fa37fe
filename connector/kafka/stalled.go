package kafka

import (
	"slices"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
)

// noteProgress begins to count anew, as a commit that moves the offset does, if the partition
// has nothing to get on with: it has no lag, or waits since a person has paused a mapping.
func (p *Partition) noteProgress() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == reading && !p.standsStill() {
		p.standing = time.Now()
	}
}

// Stalled is for how long the partition has lagged while its committed offset did not
// move, within the time between two looks at the logs' ends; 0: it gets on, has no lag, or a
// mapping that reads it, or one of that mapping's bundle, is paused in some lane.
func (p *Partition) Stalled() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != reading || !p.standsStill() {
		return 0
	}
	return time.Since(p.standing)
}

// standsStill is asked of a partition whose ledger was read, with p.mu held.
func (p *Partition) standsStill() bool {
	paused := p.causes.has(onRequest) || slices.ContainsFunc(p.ledger.Pauses, func(x ack.Pause) bool { return !x.Resumed })
	return p.lag() > 0 && !paused
}
