package kafka

import (
	"slices"
	"strconv"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
)

// Slots are when imports of the table were triggered recently, as the ledger of
// its home topic's partition 0 has it; ok is false while that is not ours.
func (s *Source) Slots(home, table string) (used []time.Time, ok bool) {
	p := s.partition(home, 0)
	if p == nil || !p.ready() {
		return nil, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sl := range p.ledger.Slots {
		if sl.Table == table {
			for _, sec := range sl.Used {
				used = append(used, time.Unix(sec, 0))
			}
		}
	}
	return used, true
}

// FillSlots notes further imports of the table: the service says that there have
// been so many.
func (s *Source) FillSlots(home, table string, at []time.Time) {
	if p := s.partition(home, 0); p != nil && p.ready() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.useSlots(table, at)
	}
}

// takeSlot notes the use of a slot of the table by an attempt to send a file, once.
func (p *Partition) takeSlot(home SlotPartition, im ack.Import) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.live || !p.loaded {
		return false
	}
	attempt := im.File + " " + strconv.Itoa(im.Attempt)
	if p.counted[home.Table] == attempt {
		return true
	}
	if p.counted == nil {
		p.counted = map[string]string{}
	}
	p.counted[home.Table] = attempt
	p.useSlots(home.Table, home.At)
	return true
}

// quarter is what the times of earlier uses are rounded to, in seconds: calendar
// days begin on a quarter of an hour in every zone, so that a use stays on its
// day, and any number of uses takes a bounded room in the ledger.
const quarter = 15 * 60

// slotMemory is for how long the use of a slot is remembered: longer than any
// calendar day, wherever it begins.
const slotMemory = 50 * time.Hour

// useSlots notes uses at these times, those of one moment together. What is further
// from them than any calendar day is forgotten: it was long ago, or a clock that
// was wrong has said it.
func (p *Partition) useSlots(table string, at []time.Time) {
	if len(at) == 0 {
		return
	}
	i := slices.IndexFunc(p.ledger.Slots, func(sl ack.Slots) bool { return sl.Table == table })
	if i < 0 {
		i = len(p.ledger.Slots)
		p.ledger.Slots = append(p.ledger.Slots, ack.Slots{Table: table})
	}
	sl := &p.ledger.Slots[i]
	first := slices.MinFunc(at, time.Time.Compare).Add(-slotMemory).Unix()
	last := slices.MaxFunc(at, time.Time.Compare).Add(slotMemory).Unix()
	sl.Used = slices.DeleteFunc(sl.Used, func(u int64) bool { return u < first || u > last })
	for i, u := range sl.Used {
		sl.Used[i] = u - u%quarter
	}
	for _, t := range at {
		sl.Used = append(sl.Used, t.Unix())
	}
	slices.Sort(sl.Used) // a clock may have been moved back
}
