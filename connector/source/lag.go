package source

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// endsEvery is how often the brokers are asked where the partitions end. Fetches
// say it too, but a partition that is paused or held up is not fetched, and that
// is when its lag matters.
const endsEvery = 15 * time.Second

// watchEnds keeps the ends of the assigned partitions until ctx ends.
func (s *Source) watchEnds(ctx context.Context) {
	tick := time.NewTicker(endsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.lookAtEnds(ctx)
		}
	}
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
// as the brokers said it last, or as far as records were polled since. Without a commit it counts from where reading began.
// ok is false while the partition's ledger is being read.
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
