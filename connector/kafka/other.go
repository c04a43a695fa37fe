package kafka

import (
	"context"
	"fmt"
	"slices"
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
	group  string
	wanted atomic.Bool  // somebody who does not look for himself has asked since the last look
	looks  atomic.Int64 // that have begun

	unreadable atomic.Bool // the last look failed

	mu     sync.Mutex
	number int64 // of the look that known comes from
	known  map[topicPartition]committedElsewhere
}

// committedElsewhere is the other group's ledger of one partition.
type committedElsewhere struct {
	ack.View
	topic   ack.TopicID
	imports []ack.Import
}

// LookAtOther reads what the other lane has committed.
func (s *Source) LookAtOther(ctx context.Context) error {
	number := s.other.looks.Add(1)
	committed, err := committedBy(ctx, s.admin, s.cfg.Other)
	s.other.unreadable.Store(err != nil)
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
		known[topicPartition{o.Topic, o.Partition}] = committedElsewhere{
			ack.View{Committed: true, Offset: o.At, Done: ledger.Done, Routes: ledger.Routes}, ledger.Topic, ledger.Imports,
		}
	})
	s.other.mu.Lock()
	defer s.other.mu.Unlock()
	if number > s.other.number {
		s.other.known, s.other.number = known, number
	}
	return nil
}

// followOther looks at the other lane's commits: soon while records wait for it,
// and every few seconds where it reads the same topics, as its routes may change.
func (s *Source) followOther(ctx context.Context) {
	tick := time.NewTicker(wantedEvery)
	defer tick.Stop()
	var looked time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if wanted := s.other.wanted.Swap(false); wanted || time.Since(looked) >= followEvery && s.shares() {
			s.follow(ctx)
			looked = time.Now()
		}
	}
}

// shares reports whether any partition depends on the other lane.
func (s *Source) shares() bool {
	return slices.ContainsFunc(s.Partitions(), func(p *Partition) bool { return p.other != nil || p.waitsForOther() })
}

func (o *other) at(topic string, id int32) (c committedElsewhere, number int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known[topicPartition{topic, id}], o.number
}

// look is the other lane's ledger of a partition and the number of the look that
// it comes from.
func (o *other) look(topic string, id int32) (v ack.View, number int64) {
	c, number := o.at(topic, id)
	return c.View, number
}

func (o *other) imports(topic string, id int32) []ack.Import {
	c, _ := o.at(topic, id)
	return c.imports
}

func (o *other) topicID(topic string, id int32) ack.TopicID {
	c, _ := o.at(topic, id)
	return c.topic
}

// OtherConfirmed reports whether the other lane's ledger, as it was last looked
// at, shows the record at offset as confirmed.
func (p *Partition) OtherConfirmed(offset int64) bool {
	v, _ := p.other.look(p.Topic, p.ID)
	return v.Confirmed(offset)
}

// OtherHalted reports whether it shows the partition as halted there.
func (p *Partition) OtherHalted() bool {
	if p.other == nil {
		return false
	}
	v, _ := p.other.look(p.Topic, p.ID)
	return v.Routes.Halted
}

// OtherRouted reports whether the other lane may have written a record itself: it
// does not apply the routes of this lane to it, or one of the two has applied other
// routes since the record was written.
func (p *Partition) OtherRouted(offset int64, written time.Time) bool {
	if p.other == nil {
		return false
	}
	v, _ := p.other.look(p.Topic, p.ID)
	if !v.Committed {
		return false
	}
	p.mu.Lock()
	own := p.ledger.Routes
	p.mu.Unlock()
	return changedSince(&own, written) || changedSince(&v.Routes, written) || slices.ContainsFunc(p.routes.Fingerprints, func(f uint64) bool {
		from, ok := v.Routes.From(f)
		return !ok || offset < from
	})
}

// changedSince reports whether a lane that had applied other routes before has applied
// these since a time, or is about to.
func changedSince(r *ack.Routes, at time.Time) bool {
	return !r.First && r.Changed >= at.UnixMilli()
}

// Ended reports whether the record at offset was taken by the handler, and is not
// pending.
func (p *Partition) Ended(offset int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return offset < p.read && !p.tracker.Waits(offset)
}

// OtherPassed reports whether the other lane's ledger shows everything below
// offset as confirmed, or as part of an import of the table that has ended.
func (p *Partition) OtherPassed(table string, offset int64) bool {
	if p.other == nil {
		return true // nothing of the topic is the other lane's
	}
	p.other.wanted.Store(true)
	c, _ := p.other.at(p.Topic, p.ID)
	if !c.Committed || offset < c.Offset {
		return c.Committed
	}
	for _, im := range c.imports {
		if im.Table == table && (im.State == ack.Settling || im.State == ack.SetApart) && offset < im.UpTo {
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
	v, _ := p.other.look(p.Topic, p.ID)
	return v.Offset
}

// startFor is where reading begins: at the committed offset, or before it as far
// as writes of the other lane may not have landed, or may have landed after the
// rows of an import that is on its way.
func (s *Source) startFor(p *Partition, at int64, imports []ack.Import, logStart int64) int64 {
	if !p.routes.Follows {
		return at
	}
	start := at
	if v, _ := p.other.look(p.Topic, p.ID); v.Committed || !s.cfg.FromEnd {
		start = min(start, v.Offset)
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
