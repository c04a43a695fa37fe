// Package pacing holds imports back until their table has a slot for them. What a day brings
// to a table it learns from the timestamps in Kafka.
package pacing

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/slots"
	"github.com/feedsink/feedsink/connector/clock"
	"github.com/feedsink/feedsink/connector/observe"
)

// Pacer knows the slots of tables. Those used are on record in the ledger, so that no crash
// forgets one. Its methods may be called from any goroutine.
type Pacer struct {
	record Record
	clock  *clock.Clock
	tables map[string]*Table // by mapping
	taking sync.Mutex        // an import by hand
}

// New makes a pacer of tables by their mappings.
func New(record Record, c *clock.Clock, tables map[string]*Table) *Pacer {
	return &Pacer{record: record, clock: c, tables: tables}
}

// Table is the table of a mapping; nil: there is none of that name.
func (p *Pacer) Table(mapping string) *Table { return p.tables[mapping] }

// Record is the ledger's account of slots, as *kafka.Source keeps it.
type Record interface {
	// Slots are the times of a table's imports recently; ok is false while its
	// record is another member's.
	Slots(home, table string) (used []time.Time, ok bool)
	// HasSlot reports whether an attempt to send a file has a slot on the day of at.
	HasSlot(home, table, file string, attempt int, at time.Time) bool
	// FillSlots adds imports of these times, for the next commit.
	FillSlots(home, table string, at []time.Time)
}

// Table is one whose imports are counted.
type Table struct {
	slots.Plan
	Name   string   // as the ledger knows it
	Label  string   // as metrics and status have it
	Topic  string   // whose partition 0 keeps the record
	Topics []string // of its mapping

	expected   atomic.Pointer[slots.Expected] // nil: it is not known what a day brings
	learnt     time.Time                      // the day on which that was looked for
	learnAgain time.Time                      // not before

	full atomic.Pointer[time.Time] // a day whose imports are used up, as the service has said last; nil: it has not
}

// askAgain is how soon a table is asked for again whose record is not ours to
// read yet.
const askAgain = time.Second

// Wait is how long the mapping's next import has to wait, or the one that is given: until each
// day that it may be has a slot for it.
func (p *Pacer) Wait(mapping string, imp *contract.Import, retry bool) (wait time.Duration) {
	t := p.tables[mapping]
	used, ok := p.record.Slots(t.Topic, t.Name)
	if !ok {
		return askAgain
	}
	plan := t.Plan
	plan.Expected = t.expected.Load()
	for _, now := range p.clock.Candidates() {
		if imp == nil || t.isFull(now) || !p.record.HasSlot(t.Topic, t.Name, imp.File, imp.Attempt, now.In(t.Zone)) {
			wait = max(wait, plan.Wait(now, used, retry))
		}
	}
	return wait
}

// isFull reports whether the service has said that the imports of that day are used up: who has
// a slot of it has none.
func (t *Table) isFull(day time.Time) bool {
	full := t.full.Load()
	return full != nil && t.SameDay(*full, day)
}

// Days are the times that it may be, one for each calendar day of the mapping, in its time zone.
func (p *Pacer) Days(mapping string) []time.Time {
	times, t := p.clock.Candidates(), p.tables[mapping]
	for i := range times {
		times[i] = times[i].In(t.Zone)
	}
	return slices.CompactFunc(times, t.SameDay)
}

// noSlotWait is how long a file waits at most after the service said that the table's
// imports of the day are used up: the gate knows for how long they are.
const noSlotWait = 15 * time.Minute

// Refused notes the service's word that the imports of a day are used up: the day of at,
// by the service's clock; zero: it did not say. Where that clock is behind, the day may be
// over by ours, whose imports are left then; where it is ahead, tomorrow's are used up. A
// time that is more than a day off is none of a clock.
func (p *Pacer) Refused(mapping string, at time.Time) (wait time.Duration) {
	t, days := p.tables[mapping], p.Days(mapping)
	near := func(now time.Time) bool { return at.Sub(now).Abs() < 24*time.Hour }
	if slices.ContainsFunc(days, near) {
		_, ends := slots.Day(at, t.Zone)
		if !slices.ContainsFunc(days, ends.After) {
			return ends.Sub(at)
		}
		days = []time.Time{at.In(t.Zone)}
	}
	used, ok := p.record.Slots(t.Topic, t.Name)
	wait = noSlotWait
	for _, day := range days {
		t.full.Store(&day)
		_, ends := slots.Day(day, t.Zone)
		wait = min(wait, ends.Sub(day))
		if ok {
			p.record.FillSlots(t.Topic, t.Name, slices.Repeat([]time.Time{day}, t.Remaining(day, used)))
		}
	}
	return wait
}

// Took notes an import that was made by hand; false: the table has none left today. Of several
// requests at once each gets a slot of its own.
func (p *Pacer) Took(mapping string) bool {
	p.taking.Lock()
	defer p.taking.Unlock()
	if left, _ := p.Remaining(mapping); left == 0 {
		return false
	}
	t := p.tables[mapping]
	p.record.FillSlots(t.Topic, t.Name, p.Days(mapping))
	return true
}

// Remaining is how many imports the mapping's table has left today; ok is false
// while another member owns the table.
func (p *Pacer) Remaining(mapping string) (n int, ok bool) {
	t := p.tables[mapping]
	used, ok := p.record.Slots(t.Topic, t.Name)
	n = t.PerDay
	for _, now := range p.clock.Candidates() {
		n = min(n, t.Remaining(now, used))
	}
	return n, ok
}

// Day is how far the mapping's table is with the day's slots. Which imports there were is
// left to who knows.
func (p *Pacer) Day(mapping string) *observe.DayStatus {
	t, now := p.tables[mapping], time.Now()
	st := &observe.DayStatus{Zone: t.Zone.String(), PerDay: t.PerDay, Reserve: t.Reserve, Used: []observe.UsedSlots{}}
	st.Begins, st.Ends = slots.Day(now, t.Zone)
	used, ok := p.record.Slots(t.Topic, t.Name)
	if !ok {
		return st
	}
	st.Owned = true
	st.Left, _ = p.Remaining(mapping)
	for _, at := range used {
		if !t.SameDay(at, now) {
			continue
		}
		if n := len(st.Used); n > 0 && st.Used[n-1].At.Equal(at) {
			st.Used[n-1].Count++
			continue
		}
		st.Used = append(st.Used, observe.UsedSlots{At: at, Count: 1})
	}
	if wait := p.Wait(mapping, nil, false); wait > 0 {
		st.Next = time.Now().Add(wait) // since then; midnight is not to show as 23:59
	}
	return st
}
