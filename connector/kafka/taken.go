package kafka

import (
	"sync"
	"sync/atomic"

	"github.com/feedsink/feedsink/connector/ack"
)

// takenWrites are what was decided in this assignment about writes that the routes
// give to the other lane. The other lane may take new routes while the file of a
// write that was taken is on its way: what it shows then does not tell any more whose
// the write was.
type takenWrites struct {
	some atomic.Bool // any was taken

	mu sync.Mutex
	by map[uint64]*stretches // by the fingerprint of the mapping's routes
}

// stretches are the offsets between the first and the last of some writes that were
// taken one after the other. What a stretch has between them was not asked about.
type stretches struct {
	ack.Ranges
	open bool // the last write asked about was taken
}

// Took notes that a write which the routes give to the other lane was taken.
func (p *Partition) Took(fingerprint uint64, offset int64) {
	t := &p.taken
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		t.by = map[uint64]*stretches{}
	}
	s := t.by[fingerprint]
	if s == nil {
		s = &stretches{}
		t.by[fingerprint] = s
	}
	from := offset
	if n := len(s.Ranges); n > 0 && s.open {
		from = min(from, s.Ranges[n-1].To)
	}
	s.Ranges, s.open = s.Add(ack.Range{From: from, To: offset + 1}), true
	t.some.Store(true)
}

// Left notes that such a write was left to the other lane.
func (p *Partition) Left(fingerprint uint64, offset int64) {
	t := &p.taken
	if !t.some.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.by[fingerprint]; s != nil {
		s.Ranges, s.open = s.Remove(ack.Range{From: offset, To: offset + 1}), false // taken before, and offered again
	}
}

// Taken reports whether such a write, which is behind by now, is this lane's: as was
// decided in this assignment, or else as would be now.
func (p *Partition) Taken(fingerprint uint64, offset int64) bool {
	t := &p.taken
	t.mu.Lock()
	s := t.by[fingerprint]
	noted := s != nil && s.Contains(offset)
	t.mu.Unlock()
	return noted || !p.decidedHere(offset) && p.Takes(fingerprint, offset)
}

// decidedHere reports whether the record was decided about in this assignment.
func (p *Partition) decidedHere(offset int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return offset >= p.first && offset < p.read
}
