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
	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

// How often the other lane's commits are looked at: while records wait for it, and to
// follow its routes and pauses.
const (
	wantedEvery   = 200 * time.Millisecond
	followEvery   = 2 * time.Second
	slowestFollow = 10 * time.Second
)

// lookEvery is how often a group of so many ledgers is looked at: all of them are fetched.
func (s *Source) lookEvery(ledgers int) time.Duration {
	return max(min(max(time.Duration(ledgers)*time.Millisecond, followEvery), slowestFollow), s.cfg.LookEvery)
}

// otherLane is what this lane knows of the other one: what that one's group had
// committed when it was last looked at. Its methods may be called from any
// goroutine.
type otherLane struct {
	group   string
	commits *cluster.Commits
	wanted  chan struct{} // has one once another look is asked for
	looks   atomic.Int64  // that have begun

	unreadable atomic.Bool // the last look failed

	mu     sync.Mutex
	number int64 // of the look that known comes from
	known  map[topicPartition]committedElsewhere
	ids    map[string]ack.TopicID // of the topics, as they are read here
}

// committedElsewhere is the other group's ledger of one partition.
type committedElsewhere struct {
	ack.View
	topic   ack.TopicID
	imports []ack.Import
	pauses  []ack.Pause
}

// LookAtOther reads what the other lane has committed.
func (s *Source) LookAtOther(ctx context.Context) error {
	number := s.other.looks.Add(1)
	committed, err := s.other.commits.Fetch(ctx)
	s.other.unreadable.Store(err != nil)
	if err != nil {
		return fmt.Errorf("fetch offsets of %s: %w", s.cfg.Other, err)
	}
	known := map[topicPartition]committedElsewhere{}
	committed.Each(func(o kadm.OffsetResponse) {
		if o.Err != nil || o.At < 0 {
			return
		}
		ledger, err := s.decode(o.Topic, commit{o.At, o.LeaderEpoch, o.Metadata})
		if err != nil { // what is below the offset is confirmed all the same
			ledger = ack.Ledger{}
		}
		known[topicPartition{o.Topic, o.Partition}] = committedElsewhere{
			ack.View{Committed: true, Offset: o.At, Done: ledger.Done, Routes: ledger.Routes, Refused: ledger.Refused}, ledger.Topic, ledger.Imports, ledger.Pauses,
		}
	})
	s.other.mu.Lock()
	defer s.other.mu.Unlock()
	if number > s.other.number {
		s.other.known, s.other.number = known, number
	}
	return nil
}

// followOther looks at the other lane's commits until ctx ends.
func (s *Source) followOther(ctx context.Context) {
	look(ctx, s.other.wanted, wantedEvery, func() time.Duration { return s.lookEvery(s.other.ledgers()) }, s.follow)
}

func (o *otherLane) ledgers() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.known)
}

// at is what is known of a partition, and the number of the look that it comes from.
func (o *otherLane) at(topic string, id int32) (c committedElsewhere, number int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c = o.known[topicPartition{topic, id}]; c.Routes.Known() && c.topic.Differs(o.ids[topic]) {
		c = committedElsewhere{imports: c.imports} // of another topic of this name: they may run all the same
	}
	return c, o.number
}

// know notes the id of a topic that is read here.
func (o *otherLane) know(topic string, id ack.TopicID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ids[topic] = id
}

// elsewhere is what is known of the other lane's ledger; nothing where that does not matter.
func (p *Partition) elsewhere() (c committedElsewhere) {
	if p.other != nil {
		c, _ = p.other.at(p.Topic, p.ID)
	}
	return c
}

// OtherConfirmed reports whether the other lane's ledger, as it was last looked
// at, shows the record at offset as confirmed.
func (p *Partition) OtherConfirmed(offset int64) bool {
	v := p.elsewhere()
	return v.Confirmed(offset)
}

// OtherRefused reports whether it shows the record as one that may be a dead letter, and that is.
func (p *Partition) OtherRefused(offset int64) (may, is bool) {
	return p.elsewhere().Refused.Contains(offset), slices.Contains(p.elsewhere().Refused, ack.Range{From: offset, To: offset + 1})
}

// OtherHalted reports whether it shows the partition as halted there.
func (p *Partition) OtherHalted() bool {
	return p.elsewhere().Routes.Halted
}

// OtherRouted reports whether the other lane may have written a record itself: it
// does not apply the routes of this lane to it, or one of the two has applied other
// routes since the record was written.
func (p *Partition) OtherRouted(offset int64, written time.Time) bool {
	v := p.elsewhere()
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

// AssignedFor is since when no other member may have applied the record's writes: when the
// partition was assigned; now where the other lane, which has or had other routes for the
// record, may have done so since.
func (p *Partition) AssignedFor(r *Record) time.Time {
	if p.OtherRouted(r.Offset, r.Timestamp) {
		return time.Now()
	}
	return p.Assigned()
}

// changedSince reports whether a lane that had applied other routes before has applied
// these since a time, or is about to.
func changedSince(r *ack.Routes, at time.Time) bool {
	return !r.First && r.Changed >= at.UnixMilli()
}

// OtherPassed reports whether the other lane's ledger shows everything below
// offset as confirmed, or as part of an import of the table that has ended. Where the
// partition was set apart the import's rows are sent again.
func (p *Partition) OtherPassed(table string, offset int64) bool {
	if p.other == nil {
		return true // nothing of the topic is the other lane's
	}
	notify(p.other.wanted)
	c, _ := p.other.at(p.Topic, p.ID)
	if !c.Committed || offset < c.Offset {
		return c.Committed
	}
	for _, im := range c.imports {
		if im.Table == table && im.State == ack.Reconciling && offset < im.UpTo {
			return true
		}
	}
	return false
}

// OtherReconciles reports whether the other lane's ledger shows an import of the table that
// has ended, covers the record at offset and not the newer one: the file of that is not
// sent before the import is confirmed.
func (p *Partition) OtherReconciles(table string, offset, newer int64) bool {
	c := p.elsewhere()
	return c.Committed && slices.ContainsFunc(c.imports, func(im ack.Import) bool {
		return im.Table == table && im.State == ack.Reconciling && offset < im.UpTo && im.UpTo <= newer
	})
}

// OtherWatermark is the offset below which the other lane has confirmed everything; 0
// where that is not known, or does not matter.
func (p *Partition) OtherWatermark() int64 {
	return p.elsewhere().Offset
}
