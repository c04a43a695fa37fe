package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/feedsink/feedsink/connector/retry"
)

// How often the brokers are asked where the partitions end: always, and while
// the status is asked for. Fetches say it too, but a partition that is paused
// or held up is not fetched, and that is when its lag matters.
const (
	endsEvery   = 15 * time.Second
	endsSoonest = 2 * time.Second
)

// watchEnds keeps the ends of the assigned partitions until ctx ends.
func (s *Source) watchEnds(ctx context.Context) {
	look(ctx, s.endsWanted, endsSoonest, func() time.Duration { return max(endsEvery, s.cfg.LookEvery) }, s.lookAtEnds)
}

// look calls f until ctx ends: when it is wanted, no sooner than soonest after the last
// time, and when latest has passed.
func look(ctx context.Context, wanted <-chan struct{}, soonest time.Duration, latest func() time.Duration, f func(context.Context)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-wanted:
		case <-time.After(latest() - soonest):
		}
		f(ctx)
		if retry.Sleep(ctx, soonest) != nil {
			return
		}
	}
}

// lookAtEnds asks once. What is not answered keeps its former end.
func (s *Source) lookAtEnds(ctx context.Context) {
	ps := s.Partitions()
	topics := topicsOf(ps)
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
			p.setLogEnd(o.Offset)
		}
	})
	for _, p := range ps {
		p.noteProgress()
	}
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

// setLogEnd notes where the partition's log ends.
func (p *Partition) setLogEnd(end int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.logEnd = end
	switch behind := end > max(p.polled, p.read); {
	case !behind:
		p.behind = time.Time{}
	case p.behind.IsZero():
		p.behind = time.Now()
	}
}

// Lag is how many offsets lie between the committed one and the partition's end
// as the brokers said it last, or as far as records were polled since. Without a
// commit it counts from where reading began. ok is false while the partition's ledger is being read.
func (p *Partition) Lag() (offsets int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != reading {
		return 0, false
	}
	return p.lag(), true
}

// lag is Lag of a partition whose ledger was read, with p.mu held.
func (p *Partition) lag() int64 {
	from := p.committed.offset
	if from < 0 {
		from = p.tracker.Watermark()
	}
	return max(p.logEnd, p.polled, from) - from
}

// Status describes the assigned partitions in the order of topics and ids, with
// their lag as it was last known. While that is asked for, it is looked at every two
// seconds.
func (s *Source) Status() []PartitionStatus {
	notify(s.endsWanted)
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

// PartitionStatus is a partition as an operator sees it.
type PartitionStatus struct {
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Committed int64    `json:"committed"` // -1: nothing yet
	Watermark int64    `json:"watermark"`
	Position  int64    `json:"position"`           // offset after the last record taken
	Lag       int64    `json:"lag"`                // offsets from the watermark to the log's end; -1: not known
	Pending   int      `json:"pending"`            // records on their way one by one
	Buffered  int64    `json:"buffered,omitzero"`  // records in an open file
	Importing int64    `json:"importing,omitzero"` // records in a file on its way
	Halted    []string `json:"halted,omitempty"`
	Waiting   string   `json:"waiting,omitempty"` // what of the other lane its records wait for
}

// Status describes the partition; ok is false while its ledger is being read.
func (p *Partition) Status() (st PartitionStatus, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	st = PartitionStatus{Topic: p.Topic, Partition: p.ID, Committed: -1, Watermark: -1, Position: -1}
	if len(p.halts) > 0 { // thousands of partitions may be asked, and few are halted
		st.Halted = slices.Sorted(maps.Values(p.halts))
	}
	if p.state != reading {
		return st, false
	}
	st.Waiting = p.routes.waiting
	st.Committed, st.Watermark = p.committed.offset, p.tracker.Watermark()
	u := p.unconfirmed()
	st.Position, st.Pending, st.Buffered, st.Importing = p.tracker.Next(), u.Pending, u.Buffered, u.Importing
	return st, true
}

// Unconfirmed is how many records of the partition are waiting for what.
type Unconfirmed struct {
	Pending   int   // for their own confirmation
	Buffered  int64 // rows of an open file
	Importing int64 // rows of a file on its way
}

// Unconfirmed counts the partition's records that are not confirmed.
func (p *Partition) Unconfirmed() (u Unconfirmed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == reading {
		u = p.unconfirmed()
	}
	return u
}

// unconfirmed counts with p.mu held, of a partition whose ledger was read.
func (p *Partition) unconfirmed() (u Unconfirmed) {
	u.Pending = p.tracker.Pending()
	for c := range p.claims {
		if c.state == importing {
			u.Importing += c.c.Records()
		} else {
			u.Buffered += c.c.Records()
		}
	}
	return u
}
