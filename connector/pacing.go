package connector

import (
	"slices"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/router"
)

// pacing holds imports back until their table has a slot for them. The slots
// used are on record in the ledger, so that no crash forgets one.
type pacing struct {
	source slotRecord
	tables map[string]tableSlots // by mapping
}

// slotRecord is the ledger's account of slots, as *source.Source keeps it.
type slotRecord interface {
	// Slots are the times of a table's imports lately; ok is false while its
	// record is another member's.
	Slots(home, table string) (used []time.Time, ok bool)
	// FillSlots adds n imports at this moment, for the next commit.
	FillSlots(home, table string, n int)
}

type tableSlots struct {
	batcher.Slots
	table string
	home  string // topic whose partition 0 keeps the record
}

// askAgain is how soon a table is asked for again whose record is not ours to
// read yet.
const askAgain = time.Second

// Wait is how long the mapping's next import has to wait.
func (p *pacing) Wait(mapping string, retry bool) time.Duration {
	t := p.tables[mapping]
	used, ok := p.source.Slots(t.home, t.table)
	if !ok {
		return askAgain
	}
	return t.Wait(time.Now(), used, retry)
}

// Refused notes the service's word that the day's imports are used up.
func (p *pacing) Refused(mapping string) {
	t := p.tables[mapping]
	if used, ok := p.source.Slots(t.home, t.table); ok {
		p.source.FillSlots(t.home, t.table, t.Remaining(time.Now(), used))
	}
}

// answered hears that the service took an import. One that was intended before
// midnight and answered after it has a slot on record for yesterday; which day
// the service counts it on nobody can tell, so it takes one of today's as well.
func (p *pacing) answered(mapping string) {
	t := p.tables[mapping]
	used, ok := p.source.Slots(t.home, t.table)
	if ok && t.Remaining(time.Now(), used) == t.PerDay {
		p.source.FillSlots(t.home, t.table, 1)
	}
}

// used are the imports of the mapping's table on this calendar day, as the ledger
// has them; ok is false while another member owns the table.
func (p *pacing) used(mapping string) (used []time.Time, ok bool) {
	t := p.tables[mapping]
	used, ok = p.source.Slots(t.home, t.table)
	from, _ := day(time.Now(), t.Zone)
	return slices.DeleteFunc(used, func(u time.Time) bool { return u.Before(from) }), ok
}

// took notes an import that was made by hand.
func (p *pacing) took(mapping string) {
	t := p.tables[mapping]
	p.source.FillSlots(t.home, t.table, 1)
}

// remaining is how many imports the mapping's table has left today; ok is false
// while another member owns the table.
func (p *pacing) remaining(mapping string) (n int, ok bool) {
	t := p.tables[mapping]
	used, ok := p.source.Slots(t.home, t.table)
	return t.Remaining(time.Now(), used), ok
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
