package source

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// lagEvery is how often the ends of the logs are listed while somebody looks at
// the status.
const lagEvery = 2 * time.Second

// lag is told by the ends of the assigned partitions' logs as they were last
// listed. Its methods may be called from any goroutine.
type lag struct {
	wanted atomic.Bool // somebody has asked since the last listing

	mu    sync.Mutex
	known map[topicPartition]int64
}

// Status describes the assigned partitions in the order of topics and ids, with
// their lag as far as the ends of their logs are known: they are listed every
// two seconds, and only while somebody asks, so that the first answer after a
// while has none or an old one.
func (s *Source) Status() []PartitionStatus {
	s.lag.wanted.Store(true)
	ps := s.Partitions()
	all := make([]PartitionStatus, len(ps))
	s.lag.mu.Lock()
	known := s.lag.known // replaced, never changed
	s.lag.mu.Unlock()
	for i, p := range ps {
		st, ok := p.Status()
		st.Lag = -1
		if end, listed := known[topicPartition{p.Topic, p.ID}]; ok && listed {
			st.Lag = max(end-st.Watermark, 0)
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

// followLag lists the ends while somebody asks for them, until ctx ends.
func (s *Source) followLag(ctx context.Context) {
	tick := time.NewTicker(lagEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !s.lag.wanted.Swap(false) {
			continue
		}
		listing, cancel := context.WithTimeout(ctx, commitTimeout)
		if err := s.lookAtEnds(listing); err != nil && ctx.Err() == nil {
			s.log.Debug("the lag is not known; asking again", "error", err)
		}
		cancel()
	}
}

func (s *Source) lookAtEnds(ctx context.Context) error {
	topics := map[string]bool{}
	for _, p := range s.Partitions() {
		topics[p.Topic] = true
	}
	known := map[topicPartition]int64{}
	if len(topics) > 0 { // of no topics the client would list those of all
		names := make([]string, 0, len(topics))
		for topic := range topics {
			names = append(names, topic)
		}
		// What transactions have not committed yet cannot be read, and is no lag.
		listed, err := s.admin.ListCommittedOffsets(ctx, names...)
		if err != nil {
			return fmt.Errorf("list end offsets: %w", err)
		}
		listed.Each(func(end kadm.ListedOffset) {
			if end.Err == nil {
				known[topicPartition{end.Topic, end.Partition}] = end.Offset
			}
		})
	}
	s.lag.mu.Lock()
	defer s.lag.mu.Unlock()
	s.lag.known = known
	return nil
}
