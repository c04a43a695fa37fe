package kafka

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// How often the brokers are asked where the partitions end: always, and while
// somebody looks at the status. Fetches say it too, but a partition that is paused
// or held up is not fetched, and that is when its lag matters.
const (
	endsEvery  = 15 * time.Second
	endsWanted = 2 * time.Second
)

// watchEnds keeps the ends of the assigned partitions until ctx ends.
func (s *Source) watchEnds(ctx context.Context) {
	tick := time.NewTicker(endsWanted)
	defer tick.Stop()
	var looked time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s.endsWanted.Swap(false) || time.Since(looked) >= endsEvery {
			s.lookAtEnds(ctx)
			looked = time.Now()
		}
	}
}

// Status describes the assigned partitions in the order of topics and ids, with
// their lag as it was last known. While somebody asks, it is looked at every two
// seconds.
func (s *Source) Status() []PartitionStatus {
	s.endsWanted.Store(true)
	ps := s.Partitions()
	all := make([]PartitionStatus, len(ps))
	for i, p := range ps {
		st, _ := p.Status()
		st.Lag = -1
		if lag, ok := p.Lag(); ok {
			st.Lag = lag
		}
		all[i] = st
	}
	slices.SortFunc(all, func(a, b PartitionStatus) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition - b.Partition)
	})
	return all
}

// lookAtEnds asks once. What is not answered keeps its former end.
func (s *Source) lookAtEnds(ctx context.Context) {
	topics := topicsOf(s.Partitions())
	if len(topics) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, endsEvery)
	defer cancel()
	// Up to the last stable offset: what lies beyond it cannot be read yet.
	ends, err := s.admin.ListCommittedOffsets(ctx, topics...)
	if err != nil {
		s.log.Debug("the ends of the partitions are not known; asking again", "error", err, "wait", endsEvery)
	}
	ends.Each(func(o kadm.ListedOffset) {
		if p := s.partition(o.Topic, o.Partition); p != nil && o.Err == nil {
			p.reaches(o.Offset)
		}
	})
}

// reaches notes where the partition's log ends.
func (p *Partition) reaches(end int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.logEnd = end
}

// Lag is how many offsets lie between the committed one and the partition's end
// as the brokers said it last, or as far as records were polled since. Without a
// commit it counts from where reading began. ok is false while the partition's ledger is being read.
func (p *Partition) Lag() (offsets int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.loaded {
		return 0, false
	}
	from := p.committed.offset
	if from < 0 {
		from = p.tracker.Watermark()
	}
	return max(p.logEnd, p.polled, from) - from, true
}
