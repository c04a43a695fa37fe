package source

import (
	"slices"
	"strconv"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
)

// Slots are when imports of the table were triggered lately, as the ledger of
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

// FillSlots notes n further imports of the table at this moment: the service
// says that there have been so many.
func (s *Source) FillSlots(home, table string, n int) {
	if p := s.partition(home, 0); p != nil && p.ready() {
		p.mu.Lock()
		defer p.mu.Unlock()
		now := time.Now()
		for range n {
			p.useSlot(table, now)
		}
	}
}

// takeSlot notes the use of a slot of the table by an attempt to send a file, once.
func (p *Partition) takeSlot(table string, im ack.Import, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.live || !p.loaded {
		return false
	}
	attempt := im.File + " " + strconv.Itoa(im.Attempt)
	if p.counted[table] == attempt {
		return true
	}
	if p.counted == nil {
		p.counted = map[string]string{}
	}
	p.counted[table] = attempt
	p.useSlot(table, now)
	return true
}

// quarter is what the times of earlier uses are rounded to, in seconds: calendar
// days begin on a quarter of an hour in every zone, so that a use stays on its
// day, and any number of uses takes a bounded room in the ledger.
const quarter = 15 * 60

// slotMemory is how long the use of a slot is remembered: longer than any
// calendar day, wherever it begins.
const slotMemory = 50 * time.Hour

func (p *Partition) useSlot(table string, now time.Time) {
	i := slices.IndexFunc(p.ledger.Slots, func(sl ack.Slots) bool { return sl.Table == table })
	if i < 0 {
		i = len(p.ledger.Slots)
		p.ledger.Slots = append(p.ledger.Slots, ack.Slots{Table: table})
	}
	sl := &p.ledger.Slots[i]
	old := now.Add(-slotMemory).Unix()
	sl.Used = slices.DeleteFunc(sl.Used, func(u int64) bool { return u < old })
	for i, u := range sl.Used {
		sl.Used[i] = u - u%quarter
	}
	sl.Used = append(sl.Used, now.Unix())
}
