package source

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/feedsink/feedsink/connector/ack"
)

// other is what this lane knows of the other one: what that one's group had
// committed when it was last looked at. Its methods may be called from any
// goroutine.
type other struct {
	wanted atomic.Bool // somebody who does not look for himself has asked since the last look

	mu    sync.Mutex
	known map[topicPartition]committedElsewhere
}

// committedElsewhere is the other group's ledger of one partition.
type committedElsewhere struct {
	offset  int64
	done    ack.Ranges
	imports []ack.Import
}

// LookAtOther reads what the other lane has committed.
func (s *Source) LookAtOther(ctx context.Context) error {
	committed, err := committedBy(ctx, s.admin, s.cfg.Other)
	if err != nil {
		return fmt.Errorf("fetch offsets of %s: %w", s.cfg.Other, err)
	}
	known := map[topicPartition]committedElsewhere{}
	committed.Each(func(o kadm.OffsetResponse) {
		if o.Err != nil || o.At < 0 {
			return
		}
		ledger, err := s.decode(o.Topic, commit{o.At, o.Metadata})
		if err != nil { // what is below the offset is confirmed all the same
			ledger = ack.Ledger{}
		}
		known[topicPartition{o.Topic, o.Partition}] = committedElsewhere{o.At, ledger.Done, ledger.Imports}
	})
	s.other.mu.Lock()
	defer s.other.mu.Unlock()
	s.other.known = known
	return nil
}

// followOther looks at the other lane's commits once a second while somebody
// asks whether it has passed. Who asks what it has confirmed looks for himself.
func (s *Source) followOther(ctx context.Context) {
	tick := time.NewTicker(peerEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !s.other.wanted.Swap(false) {
			continue
		}
		looking, cancel := context.WithTimeout(ctx, commitTimeout)
		if err := s.LookAtOther(looking); err != nil && ctx.Err() == nil {
			s.log.Warn("what the other lane has confirmed cannot be seen; asking again", "error", err)
		}
		cancel()
	}
}

func (o *other) look(topic string, id int32) (committedElsewhere, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c, ok := o.known[topicPartition{topic, id}]
	return c, ok
}

// OtherConfirmed reports whether the other lane's ledger, as it was last looked
// at, shows the record at offset as confirmed.
func (p *Partition) OtherConfirmed(offset int64) bool {
	c, ok := p.other.look(p.Topic, p.ID)
	return ok && (offset < c.offset || c.done.Contains(offset))
}

// OtherPassed reports whether the other lane's ledger shows everything below
// offset as confirmed, or as part of an import of the table that has ended.
func (p *Partition) OtherPassed(table string, offset int64) bool {
	p.other.wanted.Store(true)
	c, ok := p.other.look(p.Topic, p.ID)
	if !ok || offset < c.offset {
		return ok
	}
	for _, im := range c.imports {
		if im.Table == table && im.State == ack.Settling && offset < im.UpTo {
			return true
		}
	}
	return false
}

// since is the offset below which the other lane has confirmed everything; 0
// where that is not known, or does not matter.
func (p *Partition) since() int64 {
	if p.other == nil {
		return 0
	}
	c, _ := p.other.look(p.Topic, p.ID)
	return c.offset
}

// startFor is where reading begins: at the committed offset, or before it as far
// as writes of the other lane may not have landed, or may have landed after the
// rows of an import that is on its way.
func (s *Source) startFor(p *Partition, at int64, imports []ack.Import, logStart int64) int64 {
	if p.other == nil {
		return at
	}
	start := at
	if c, ok := p.other.look(p.Topic, p.ID); ok || !s.cfg.FromEnd {
		start = min(start, c.offset)
	}
	for _, im := range imports {
		start = min(start, im.Since)
	}
	return max(start, min(at, logStart))
}

// Ends are the offsets at which the logs of the topics' assigned partitions end
// at present: what was committed to them before the call is below.
func (s *Source) Ends(ctx context.Context, topics []string) (map[*Partition]int64, error) {
	listed, err := s.admin.ListCommittedOffsets(ctx, topics...)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list end offsets: %w", err)
	}
	ends := map[*Partition]int64{}
	listed.Each(func(end kadm.ListedOffset) {
		if p := s.partition(end.Topic, end.Partition); p != nil {
			ends[p] = end.Offset
		}
	})
	return ends, nil
}
