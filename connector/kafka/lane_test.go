package kafka_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/kafka/memory"
)

// lane is a handler whose every decision a test can make.
type lane struct {
	t    *testing.T
	busy atomic.Int32 // calls under way

	mu       sync.Mutex
	auto     bool          // confirm at once
	full     bool          // not ready
	room     map[int32]int // how many records of a partition are taken from here on; absent: all
	gate     chan struct{} // Records waits until it is closed
	inside   chan struct{} // told when Records has met the gate
	release  func(context.Context, []*kafka.Partition)
	inFile   func(*kafka.Record) bool // these records are rows of the file
	file     *kafka.Claim
	taken    map[string][]int64         // offsets handed on and not done before, by topic[partition]
	pending  map[string]map[int64]*mark // by topic[partition] and offset
	assigned map[*kafka.Partition]bool
	released []string // topic[partition], in order
}

// mark is one record on its way.
type mark struct {
	p *kafka.Partition
	e ack.Entry
}

func newLane(t *testing.T) *lane {
	return &lane{t: t, room: map[int32]int{}, taken: map[string][]int64{}, pending: map[string]map[int64]*mark{}, assigned: map[*kafka.Partition]bool{}}
}

func autoLane(t *testing.T) *lane {
	l := newLane(t)
	l.auto = true
	return l
}

func name(topic string, partition int32) string { return fmt.Sprintf("%s[%d]", topic, partition) }

func (l *lane) Records(p *kafka.Partition, records []*kafka.Record) (taken int) {
	defer l.enter()()
	l.mu.Lock()
	gate, inside := l.gate, l.inside
	l.mu.Unlock()
	if gate != nil {
		select {
		case inside <- struct{}{}:
		default:
		}
		<-gate
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := name(p.Topic, p.ID)
	if !l.assigned[p] {
		l.t.Errorf("%s: records of an assignment nobody told of", at)
	}
	for i, r := range records {
		if room, limited := l.room[p.ID]; limited {
			if room == 0 {
				return i
			}
			l.room[p.ID]--
		}
		if p.Done(r.Offset) {
			continue
		}
		if l.inFile != nil && l.inFile(r) {
			if l.file == nil || !l.file.Live() {
				l.file = p.Claim(r.Offset)
			} else {
				l.file.Extend(r.Offset)
			}
			l.taken[at] = append(l.taken[at], r.Offset)
			continue
		}
		if !p.HasRoom(r) {
			return i
		}
		m := &mark{p: p}
		m.e.Bytes = memory.Held(r, 1)
		p.Track(&m.e, r.Offset)
		l.taken[at] = append(l.taken[at], r.Offset)
		if l.auto {
			p.Confirm(&m.e)
			continue
		}
		if l.pending[at] == nil {
			l.pending[at] = map[int64]*mark{}
		}
		l.pending[at][r.Offset] = m
	}
	return len(records)
}

func (l *lane) Assigned(ps []*kafka.Partition) {
	defer l.enter()()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range ps {
		for other := range l.assigned {
			if other.Topic == p.Topic && other.ID == p.ID && other.Live() {
				l.t.Errorf("%s: told of an assignment while one lasts", name(p.Topic, p.ID))
			}
		}
		l.assigned[p] = true
	}
}

// enter fails the test if another call is under way.
func (l *lane) enter() (leave func()) {
	if l.busy.Add(1) > 1 {
		l.t.Error("calls of the handler: got two at once, want one at a time")
	}
	return func() { l.busy.Add(-1) }
}

func (l *lane) Ready() bool {
	defer l.enter()()
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.full
}

func (l *lane) Release(ctx context.Context, ps []*kafka.Partition) {
	defer l.enter()()
	l.mu.Lock()
	release := l.release
	for _, p := range ps {
		l.released = append(l.released, name(p.Topic, p.ID))
	}
	l.mu.Unlock()
	if release != nil {
		release(ctx, ps)
	}
}

func (l *lane) set(change func(*lane)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

// hold makes the next Records wait; the channel tells when it does, the
// function lets it go on.
func (l *lane) hold() (waiting <-chan struct{}, letGo func()) {
	gate, inside := make(chan struct{}), make(chan struct{}, 1)
	l.set(func(l *lane) { l.gate, l.inside = gate, inside })
	return inside, sync.OnceFunc(func() {
		l.set(func(l *lane) { l.gate, l.inside = nil, nil })
		close(gate)
	})
}

// confirm ends pending records and reports how many of the confirms counted.
func (l *lane) confirm(topic string, partition int32, offsets ...int64) (counted int) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range offsets {
		m := l.pending[name(topic, partition)][o]
		if m == nil {
			l.t.Errorf("%s: offset %d is not pending", name(topic, partition), o)
			continue
		}
		if m.p.Confirm(&m.e) {
			counted++
		}
	}
	return counted
}

func (l *lane) offsets(topic string, partition int32) []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.taken[name(topic, partition)])
}

func (l *lane) wasReleased(topic string, partition int32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.released, name(topic, partition))
}

// awaitOffsets waits until exactly these offsets were handed on.
func (l *lane) awaitOffsets(topic string, partition int32, want ...int64) {
	l.t.Helper()
	eventually(l.t, fmt.Sprintf("%s: offsets %v are handed on", name(topic, partition), want), func() (bool, any) {
		got := l.offsets(topic, partition)
		return slices.Equal(got, want), got
	})
}

// upTo lists the offsets from, …, to-1.
func upTo(from, to int64) (offsets []int64) {
	for o := from; o < to; o++ {
		offsets = append(offsets, o)
	}
	return offsets
}
