package kafka

import (
	"context"
	"testing"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka/memory"
)

// holding keeps each record pending for as long as there is room.
type holding struct {
	pending map[*Partition][]*ack.Entry
	most    int64 // bytes that were pending at once
}

func (h *holding) Records(p *Partition, rs []*Record) (taken int) {
	for _, r := range rs {
		if !p.HasRoom(r) {
			break
		}
		e := &ack.Entry{Bytes: memory.Held(r, 1)}
		p.Track(e, r.Offset)
		h.pending[p] = append(h.pending[p], e)
		h.most = max(h.most, p.memory.Used())
		taken++
	}
	return taken
}

func (h *holding) confirm(p *Partition, n int) {
	for _, e := range h.pending[p][:n] {
		p.Confirm(e)
	}
	h.pending[p] = h.pending[p][n:]
}

func (*holding) Assigned([]*Partition)                 {}
func (*holding) Ready() bool                           { return true }
func (*holding) Release(context.Context, []*Partition) {}

// full is a source with room for limit bytes, and so many partitions.
func full(t *testing.T, limit int64, partitions int) (*Source, *holding, []*Partition) {
	t.Helper()
	h := &holding{pending: map[*Partition][]*ack.Entry{}}
	cfg := offline
	cfg.Pending = memory.New(limit)
	s := newSource(t, cfg, h)
	var ps []*Partition
	for i := range partitions {
		p := s.open("a", int32(i), "m1", renewed)
		p.tracker = ack.New(0, nil)
		p.begin(renewed)
		s.parts[topicPartition{"a", int32(i)}] = p
		ps = append(ps, p)
	}
	return s, h, ps
}

// sized are records of one size, from an offset on.
func sized(from int64, n, size int) (rs []*Record) {
	for i := range n {
		rs = append(rs, &Record{Offset: from + int64(i), Value: make([]byte, size)})
	}
	return rs
}

func TestPendingRecordsAreBoundedInBytes(t *testing.T) {
	const limit, size = 1 << 20, 30_000
	s, h, ps := full(t, limit, 3)
	for _, p := range ps {
		s.offer(p, sized(0, 100, size))
	}
	for len(h.pending[ps[0]])+len(h.pending[ps[1]])+len(h.pending[ps[2]]) > 0 {
		for _, p := range ps {
			h.confirm(p, min(1, len(h.pending[p])))
		}
		s.offerBacklog()
	}
	if h.most > limit+3*size || h.most < limit/2 {
		t.Errorf("pending at once: got %d bytes, want at most %d and one record", h.most, limit)
	}
	for _, p := range ps {
		if p.read != 100 {
			t.Errorf("partition %d: %d records were taken, want all 100", p.ID, p.read)
		}
	}
	if got := s.cfg.Pending.Used(); got != 0 {
		t.Errorf("after all are confirmed: %d bytes are pending", got)
	}
}

// Nothing of the one partition is ever confirmed, as where its table refuses calls.
func TestPartitionOfLargeRecordsLeavesRoomForOthers(t *testing.T) {
	s, h, ps := full(t, 1<<20, 5)
	for _, p := range ps[:4] {
		s.offer(p, sized(0, 50, 20_000))
	}
	next := int64(0)
	for range 100 {
		s.offer(ps[4], sized(next, 10, 300))
		if got := len(h.pending[ps[4]]); got == 0 {
			t.Fatalf("after %d records of a partition of small ones: none more is taken, %d bytes are free", next, 1<<20-s.cfg.Pending.Used())
		}
		h.confirm(ps[4], len(h.pending[ps[4]]))
		next += 10
	}
	if ps[4].read != next {
		t.Errorf("small records taken: got %d, want %d", ps[4].read, next)
	}
}

func TestRecordLargerThanTheMemoryPassesAlone(t *testing.T) {
	s, h, ps := full(t, 1<<20, 2)
	s.offer(ps[0], sized(0, 3, 8<<20))
	s.offer(ps[1], sized(0, 3, 8<<20))
	for passed := range 6 {
		if s.Pending() != 1 {
			t.Fatalf("after %d records that are larger than the memory: got %d pending, want one at a time", passed, s.Pending())
		}
		for _, p := range ps {
			h.confirm(p, len(h.pending[p]))
		}
		s.offerBacklog()
	}
	if ps[0].read != 3 || ps[1].read != 3 {
		t.Errorf("taken: got %d and %d, want all 3 of both", ps[0].read, ps[1].read)
	}
}

func TestEndedAssignmentGivesItsMemoryBack(t *testing.T) {
	s, h, ps := full(t, 1<<20, 2)
	s.offer(ps[0], sized(0, 5, 1000))
	s.offer(ps[1], sized(0, 5, 1000))
	ps[0].end()
	h.confirm(ps[0], 5) // answered after the assignment ended
	if got, want := s.cfg.Pending.Used(), 5*memory.Held(sized(0, 1, 1000)[0], 1); got != want || s.Pending() != 5 {
		t.Errorf("pending after one of two assignments ended: got %d bytes of %d records, want %d of 5", got, s.Pending(), want)
	}
}

// What was polled with a record that is pending stays with it, unless it is copied.
func TestRecordOfALargeBatchIsKeptAlone(t *testing.T) {
	_, _, ps := full(t, 1<<20, 4) // each has a part of 128 KiB
	r := sized(0, 1, 100)[0]
	for _, c := range []struct {
		beside int64
		same   bool
	}{{100_000, true}, {200_000, false}, {0, true}} { // 0: of a lane that keeps none
		ps[0].beside = c.beside
		kept := ps[0].Keep(r)
		if same := &kept.Value[0] == &r.Value[0]; same != c.same || kept.Offset != r.Offset || len(kept.Value) != 100 {
			t.Errorf("%+v: got the same memory %v, want %v", c, same, c.same)
		}
	}
}
