package connector

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/batcher/slots"
	"github.com/feedsink/feedsink/connector/clock"
	"github.com/feedsink/feedsink/router"
)

// pacing holds imports back until their table has a slot for them. The slots
// used are on record in the ledger, so that no crash forgets one.
type pacing struct {
	source slotRecord
	tables map[string]*tableSlots // by mapping
	clock  *clock.Clock
}

// slotRecord is the ledger's account of slots, as *source.Source keeps it.
type slotRecord interface {
	// Slots are the times of a table's imports recently; ok is false while its
	// record is another member's.
	Slots(home, table string) (used []time.Time, ok bool)
	// FillSlots adds imports of these times, for the next commit.
	FillSlots(home, table string, at []time.Time)
}

type tableSlots struct {
	slots.Plan
	table     string // as the ledger knows it
	label     string // as metrics and status have it
	slotTopic string // topic whose partition 0 keeps the record
	topics    []string

	expected   atomic.Pointer[slots.Expected] // nil: it is not known what a day brings
	learnt     time.Time                      // the day on which that was looked for
	learnAgain time.Time                      // not before
}

// Wait is how long the table's next import has to wait.
func (t *tableSlots) Wait(now time.Time, used []time.Time, retry bool) time.Duration {
	plan := t.Plan
	plan.Expected = t.expected.Load()
	return plan.Wait(now, used, retry)
}

// askAgain is how soon a table is asked for again whose record is not ours to
// read yet.
const askAgain = time.Second

// Wait is how long the mapping's next import has to wait: until each day that it
// may be has a slot for it.
func (p *pacing) Wait(mapping string, retry bool) (wait time.Duration) {
	t := p.tables[mapping]
	used, ok := p.source.Slots(t.slotTopic, t.table)
	if !ok {
		return askAgain
	}
	for _, now := range p.clock.Candidates() {
		wait = max(wait, t.Wait(now, used, retry))
	}
	return wait
}

// days are the times that it may be, one for each calendar day of the mapping.
func (p *pacing) days(mapping string) []time.Time {
	times, zone := p.clock.Candidates(), p.tables[mapping].Zone
	return slices.CompactFunc(times, func(a, b time.Time) bool {
		from, _ := day(a, zone)
		other, _ := day(b, zone)
		return from.Equal(other)
	})
}

// Refused notes the service's word that the day's imports are used up.
func (p *pacing) Refused(mapping string) {
	t := p.tables[mapping]
	used, ok := p.source.Slots(t.slotTopic, t.table)
	if !ok {
		return
	}
	for _, now := range p.days(mapping) {
		p.source.FillSlots(t.slotTopic, t.table, slices.Repeat([]time.Time{now}, t.Remaining(now, used)))
	}
}

// answered notes that the service took an import. One that was intended before
// midnight and answered after it has a slot on record for yesterday; which day
// the service counts it on is not known, so it takes one of today's as well.
func (p *pacing) answered(mapping string) {
	t := p.tables[mapping]
	used, ok := p.source.Slots(t.slotTopic, t.table)
	if !ok {
		return
	}
	for _, now := range p.days(mapping) {
		if t.Remaining(now, used) == t.PerDay {
			p.source.FillSlots(t.slotTopic, t.table, []time.Time{now})
		}
	}
}

// used are the imports of the mapping's table on the calendar day of now, as the
// ledger has them; ok is false while another member owns the table.
func (p *pacing) used(mapping string, now time.Time) (used []time.Time, ok bool) {
	t := p.tables[mapping]
	used, ok = p.source.Slots(t.slotTopic, t.table)
	from, to := day(now, t.Zone)
	return slices.DeleteFunc(used, func(u time.Time) bool { return u.Before(from) || !u.Before(to) }), ok
}

// took notes an import that was made by hand.
func (p *pacing) took(mapping string) {
	t := p.tables[mapping]
	p.source.FillSlots(t.slotTopic, t.table, p.days(mapping))
}

// remaining is how many imports the mapping's table has left today; ok is false
// while another member owns the table.
func (p *pacing) remaining(mapping string) (n int, ok bool) {
	t := p.tables[mapping]
	used, ok := p.source.Slots(t.slotTopic, t.table)
	n = t.PerDay
	for _, now := range p.clock.Candidates() {
		n = min(n, t.Remaining(now, used))
	}
	return n, ok
}

// slotWait says which records of a topic wait for nothing but a slot of the day.
type slotWait struct {
	open bool // those in the open file, which is complete
	sent bool // those in a file on its way, which is to be sent again
}

// waitingForSlots is, by topic, what waits for a slot. A topic of several mappings
// waits as soon as the file of one of them does: so do its records.
func (s *pipeline) waitingForSlots() map[string]slotWait {
	waits := map[string]slotWait{}
	if s.files == nil {
		return waits
	}
	mappings := map[string]*router.Compiled{}
	for _, m := range s.router.Mappings() {
		mappings[m.Name] = m
	}
	for _, st := range s.files.Status() {
		m := mappings[st.Mapping]
		w := slotWait{
			open: st.Import == nil && st.Halted == "" && s.slotWait(st) > 0,
			sent: st.Import != nil && st.Import.Step == batcher.Waiting,
		}
		for _, topic := range m.Config.Topics {
			waits[topic] = slotWait{open: waits[topic].open || w.open, sent: waits[topic].sent || w.sent}
		}
	}
	return waits
}
