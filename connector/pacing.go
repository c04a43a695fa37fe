package connector

import (
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/source"
)

// pacing holds imports back until their table has a slot for them. The slots
// used are on record in the ledger, so that no crash forgets one.
type pacing struct {
	source *source.Source
	tables map[string]tableSlots // by mapping
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

// remaining is how many imports the mapping's table has left today; ok is false
// while another member owns the table.
func (p *pacing) remaining(mapping string) (n int, ok bool) {
	t := p.tables[mapping]
	used, ok := p.source.Slots(t.home, t.table)
	return t.Remaining(time.Now(), used), ok
}
