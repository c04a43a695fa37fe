package connector

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/router"
)

// pacing holds imports back until their table has a slot for them. The slots
// used are on record in the ledger, so that no crash forgets one.
type pacing struct {
	source slotRecord
	tables map[string]tableSlots // by mapping
	clock  clock
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
	batcher.Slots
	table     string // as the ledger knows it
	label     string // as metrics and status have it
	slotTopic string // topic whose partition 0 keeps the record
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
	for _, now := range p.clock.candidateTimes() {
		wait = max(wait, t.Wait(now, used, retry))
	}
	return wait
}

// days are the moments that it may be, one for each calendar day of the mapping.
func (p *pacing) days(mapping string) []time.Time {
	moments, zone := p.clock.candidateTimes(), p.tables[mapping].Zone
	return slices.CompactFunc(moments, func(a, b time.Time) bool {
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

// answered hears that the service took an import. One that was intended before
// midnight and answered after it has a slot on record for yesterday; which day
// the service counts it on nobody can tell, so it takes one of today's as well.
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
	for _, now := range p.clock.candidateTimes() {
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
func (s *Sink) waitingForSlots() map[string]slotWait {
	waits := map[string]slotWait{}
	if s.files == nil {
		return waits
	}
	rolls := map[string]*router.Compiled{}
	for _, m := range s.router.Mappings() {
		rolls[m.Name] = m
	}
	for _, st := range s.files.Status() {
		m := rolls[st.Mapping]
		w := slotWait{
			open: st.Import == nil && st.Halted == "" && complete(st, m.Config.Imports.Roll) && s.pacing.Wait(st.Mapping, false) > 0,
			sent: st.Import != nil && st.Import.Step == batcher.Waiting,
		}
		for _, topic := range m.Config.Topics {
			waits[topic] = slotWait{open: waits[topic].open || w.open, sent: waits[topic].sent || w.sent}
		}
	}
	return waits
}

// complete reports whether the mapping's open file would be sent, had it a slot.
func complete(st batcher.MappingStatus, roll router.Roll) bool {
	return st.Rows > 0 && (st.Rows >= roll.Rows || st.Bytes >= int64(roll.Bytes) || st.Age >= roll.Age)
}

// The machine's clock may be moved while the sink runs: by a person, by NTP, or
// because the machine was suspended. Durations do not notice, they are measured
// by a clock that only ever goes on. Which calendar day it is, is read off the one
// that can be moved.

// clock tells when it is. While the machine's clock shows something else than it
// should after what it showed before, nobody here can tell which of the two the
// service's clock shows, and both hold.
type clock struct {
	wall func() time.Time // what the machine's clock shows; nil: time.Now
	log  *slog.Logger     // nil: nothing is logged

	mu    sync.Mutex
	shown time.Time     // when it was last right, without a monotonic reading
	at    time.Time     // the same moment, with one; zero: it was never read
	moved time.Duration // how far it is off what it should show; 0: it is right
	since time.Time     // when it was moved, with a monotonic reading
}

const (
	// clockSlack is how far the clock may be moved at once without being in doubt.
	clockSlack = time.Minute
	// clockTrust is for how long a clock that was moved is in doubt. Whoever
	// moved it by mistake has seen it by then.
	clockTrust = 24 * time.Hour
)

// candidateTimes are when it may be: what the machine's clock shows and, while that is
// in doubt, what it should show.
func (c *clock) candidateTimes() []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, shown := time.Now(), c.read()
	if c.at.IsZero() {
		c.shown, c.at = shown, now
		return []time.Time{shown}
	}
	expected := c.shown.Add(now.Sub(c.at))
	off := shown.Sub(expected)
	switch {
	case off.Abs() <= clockSlack:
		if c.moved != 0 {
			c.say("the machine's clock shows again what it should")
		}
		c.shown, c.at, c.moved = shown, now, 0
		return []time.Time{shown}
	case (off - c.moved).Abs() > clockSlack:
		c.moved, c.since = off, now
		c.say("the machine's clock was moved; for a day imports count for the day that it shows and for the one that it should show", "by", off.Round(time.Second))
	case now.Sub(c.since) >= clockTrust:
		c.shown, c.at, c.moved = shown, now, 0
		c.say("the machine's clock was moved a day ago and is believed from here on", "by", off.Round(time.Second))
		return []time.Time{shown}
	}
	return []time.Time{shown, expected}
}

func (c *clock) read() time.Time {
	if c.wall == nil {
		return time.Now().Round(0)
	}
	return c.wall().Round(0)
}

func (c *clock) say(words string, facts ...any) {
	if c.log != nil {
		c.log.Warn(words, facts...)
	}
}
