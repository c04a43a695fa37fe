package kafka

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Memory bounds the bytes of records that are on their way one by one. The
// sources of one process share it. Half of it is for who comes first, and of
// the other half each partition has an equal part: however long the records of
// some are not confirmed, there is room for the others'.
type Memory struct {
	limit      int64
	used       atomic.Int64
	partitions atomic.Int64 // that share it
}

// Defaults of Config.Pending, and of what is fetched ahead.
const (
	defaultPending = 64 << 20
	defaultFetched = 32 << 20
)

// NewMemory returns room for so many bytes; 0: the default.
func NewMemory(limit int64) *Memory {
	if limit <= 0 {
		limit = defaultPending
	}
	return &Memory{limit: limit}
}

// Used is how many bytes are taken.
func (m *Memory) Used() int64 { return m.used.Load() }

// fits reports whether one who holds so much may take more. A record that is
// larger than its partition's part may pass if it is the partition's only one: it
// can be the last to pass until others have ended.
func (m *Memory) fits(more, held int64) bool {
	used, half := m.used.Load(), m.limit/2
	return used+more <= half || held+more <= half/max(m.partitions.Load(), 1) || held == 0 && used < m.limit
}

// hold notes what a pending record takes, or gives back; p.mu is held.
func (p *Partition) hold(bytes int64) {
	p.held.Add(bytes)
	p.memory.used.Add(bytes)
}

// HasRoom reports whether the record may become pending.
func (p *Partition) HasRoom(r *Record) bool {
	return p.memory.used.Load() == 0 || p.memory.fits(HeldBytes(r, 1), p.held.Load())
}

// HeldBytes is what a record takes while it is pending: itself, and at most as
// much again for each write that it becomes.
func HeldBytes(r *Record, writes int) int64 {
	n := pendingBytes + len(r.Key) + len(r.Value)*(1+writes)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return int64(n)
}

// sizeOf is what a record takes until the handler has it.
func sizeOf(r *Record) int64 {
	n := int64(len(r.Key)+len(r.Value)) + recordBytes
	for i := range r.Headers {
		n += int64(len(r.Headers[i].Key) + len(r.Headers[i].Value))
	}
	return n
}

// What a record takes beside its bytes: fetched, and pending.
const (
	recordBytes  = 256
	pendingBytes = 1 << 10
)

// shed gives backlogs back to the brokers while all of them together take too
// much. A partition that is full is fetched again once it has room, another one a
// moment later. Partitions that have room are read on meanwhile.
func (s *Source) shed() {
	ps := s.Partitions()
	var waiting int64
	for _, p := range ps {
		waiting += p.waiting
	}
	most := s.cfg.Connection.fetched() / 2
	if waiting <= most {
		return
	}
	slices.SortFunc(ps, func(a, b *Partition) int { return cmp.Compare(b.waiting, a.waiting) })
	starts := map[*Partition]int64{}
	for _, p := range ps {
		if p.waiting == 0 || waiting <= most {
			break
		}
		if p.ready() {
			waiting -= p.waiting
			s.sheds.Add(1)
			if p.shed = HeldBytes(p.backlog[0], 1); p.memory.fits(p.shed, p.held.Load()) {
				p.rest = time.Now().Add(restAfterShed) // it is not for want of room that they were not taken
			}
			starts[p] = p.giveBack()
		}
	}
	s.setOffsets(starts)
}

// restAfterShed is how soon records that were given back are fetched again at the earliest.
const restAfterShed = time.Second

// giveBack empties the backlog and returns where it began.
func (p *Partition) giveBack() (from int64) {
	from = p.backlog[0].Offset
	p.backlog, p.waiting = nil, 0
	p.mu.Lock()
	defer p.mu.Unlock()
	p.polled = from
	return from
}

// putBack makes records the backlog: polled and not taken.
func (p *Partition) putBack(records []*Record) {
	p.backlog, p.waiting = records, 0
	for _, r := range records {
		p.waiting += sizeOf(r)
	}
}

// setOffsets has the client fetch partitions from given offsets on.
func (s *Source) setOffsets(starts map[*Partition]int64) {
	if len(starts) == 0 {
		return
	}
	set := map[string]map[int32]kgo.EpochOffset{}
	for p, at := range starts {
		if set[p.Topic] == nil {
			set[p.Topic] = map[int32]kgo.EpochOffset{}
		}
		set[p.Topic][p.ID] = kgo.EpochOffset{Epoch: -1, Offset: at}
	}
	s.client.SetOffsets(set)
}
