package kafka

import (
	"testing"

	"github.com/feedsink/feedsink/connector/ack"
)

// sharing is a handler with room for so many records, and parts of it for each topic.
type sharing struct {
	holding
	s     *Source
	room  int64
	parts map[string]int
}

func (h *sharing) Ready() bool           { return h.s.Pending() < h.room }
func (h *sharing) Parts() map[string]int { return h.parts }

// shared is a source whose handler has room for ten records.
func shared(t *testing.T, fetched int64) (s *Source, h *sharing, open func(topic string, id int32) *Partition) {
	t.Helper()
	cfg := offline
	cfg.Connection.Fetched = fetched
	s = newSource(t, cfg, nil)
	h = &sharing{holding{pending: map[*Partition][]*ack.Entry{}}, s, 10, map[string]int{"bulk": 4, "urgent": 2}}
	s.handler = h
	return s, h, func(topic string, id int32) *Partition {
		p := s.open(topic, id, "m1", renewed)
		p.tracker = ack.New(0, nil)
		p.begin(renewed)
		s.parts[topicPartition{topic, id}] = p
		return p
	}
}

func TestPartitionThatFillsTheLaneLeavesOthersTheirParts(t *testing.T) {
	s, h, open := shared(t, 0)
	bulk, other, urgent := open("bulk", 0), open("bulk", 1), open("urgent", 0)
	want := func(when string, ready bool, backlogs ...int) {
		t.Helper()
		if s.ready != ready {
			t.Errorf("%s: polls: got %t, want %t", when, s.ready, ready)
		}
		for i, p := range []*Partition{bulk, other, urgent} {
			if got := len(p.backlog); got != backlogs[i] {
				t.Errorf("%s: records of %s[%d] that wait to be taken: got %d, want %d", when, p.Topic, p.ID, got, backlogs[i])
			}
		}
	}

	s.offer(bulk, sized(0, 12, 10))
	s.findRoom()
	s.offer(bulk, sized(12, 5, 10))
	want("one partition fills the lane", true, 5, 0, 0)
	s.offer(other, sized(0, 2, 10))
	s.findRoom()
	s.offer(other, sized(2, 1, 10))
	want("its topic's other has its part", true, 5, 1, 0)
	s.offer(urgent, sized(0, 2, 10))
	s.findRoom()
	s.offer(urgent, sized(2, 1, 10))
	s.offerBacklog()
	want("the other topic has its part", false, 5, 1, 1)

	h.confirm(urgent, 1)
	s.findRoom()
	s.offerBacklog()
	want("one of its records is confirmed", false, 5, 1, 0)

	h.parts = nil // it is not for want of room
	s.findRoom()
	if s.ready {
		t.Error("the handler takes nothing: got polls, want none")
	}
	h.room = 100
	s.findRoom()
	s.offerBacklog()
	want("there is room for all", true, 0, 0, 0)
}

// Else a backlog that was given back would be fetched again each second, for nothing.
func TestBacklogOfAFullPartitionIsNotFetchedAgainBeforeThereIsRoom(t *testing.T) {
	s, h, open := shared(t, 1<<20)
	bulk := open("bulk", 0)
	s.offer(bulk, sized(0, 12, 10))
	s.findRoom()
	s.offer(bulk, sized(12, 12, 50_000))
	s.shed()
	s.applyPauses()
	if len(bulk.backlog) > 0 || !bulk.rest.IsZero() || !bulk.paused.has(givenBack) {
		t.Errorf("while it is full: got %d records, rest until %v, causes %b, want none, no time, given back", len(bulk.backlog), bulk.rest, bulk.paused)
	}
	h.confirm(bulk, 12)
	s.findRoom()
	s.applyPauses()
	if bulk.paused != 0 {
		t.Errorf("with room: got causes %b not to fetch it, want none", bulk.paused)
	}
}
