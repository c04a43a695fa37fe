package kafka

import (
	"fmt"

	"github.com/feedsink/feedsink/connector/ack"
)

// gap is records below the log's start that the ledger does not have as confirmed:
// retention has taken them. They are not lost if a file that was sent has them all.
type gap struct {
	committed, logStart int64
	upTo                int64 // after the last of them; 0: there are none
}

// gapBelow is the gap of a ledger committed at an offset.
func gapBelow(logStart, at int64, done ack.Ranges) gap {
	if at >= logStart {
		return gap{}
	}
	open := ack.Ranges{{From: at, To: logStart}}
	for _, r := range done {
		open = open.Remove(r)
	}
	g := gap{committed: at, logStart: logStart}
	if n := len(open); n > 0 {
		g.upTo = open[n-1].To
	}
	return g
}

// afterRetention decides about the gaps of partitions whose ledgers agree by now: a
// partition of which nothing is lost goes on, any other one is halted.
func (s *Source) afterRetention(ps []*Partition) {
	for _, p := range ps {
		var tables []string
		if s.cfg.Filed != nil {
			tables = s.cfg.Filed(p.Topic)
		}
		switch g, why, ok := p.bridge(tables); {
		case !ok:
			s.haltLostData(p, fmt.Sprintf("the committed offset %d is below the log's start %d: %s%s", g.committed, g.logStart, deletedUnread, why))
		case g.upTo > 0:
			s.log.Warn("the topic's retention has deleted records that are not confirmed; all of them are in the files of running imports, so reading goes on",
				"topic", p.Topic, "partition", p.ID, "from", g.committed, "to", g.upTo, "logStart", g.logStart)
		}
	}
}

// bridge takes the partition over its gap, if nothing in it is lost: every table
// that this lane brings the topic's records to by file has a running import that
// covers it. Otherwise ok is false and why tells what lacks, if there is more to say.
func (p *Partition) bridge(tables []string) (g gap, why string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g = p.gap
	if g.upTo > 0 {
		for _, table := range tables {
			if why = p.lacks(g, table); why != "" {
				return g, "; " + why, false
			}
		}
		if len(tables) == 0 {
			return g, "", false
		}
	}
	p.tracker.Advance(g.logStart)
	return g, "", true
}

// lacks says why the table's import, if there is one, does not stand in for the
// records of the gap; "" if it does. p.mu is held.
func (p *Partition) lacks(g gap, table string) string {
	im, sent := p.imports[table]
	upTo, covers := p.covered[table]
	switch {
	case !sent:
		return fmt.Sprintf("table %s has no running import that could have them", table)
	case again(im.State) || !covers: // or another partition's ledger says so
		return fmt.Sprintf("file %s of table %s had some of them and was not loaded, and can't be built again", im.File, table)
	case im.Execution == "":
		return fmt.Sprintf("file %s of table %s had some of them, and nobody can tell whether it was sent", im.File, table)
	case im.Part < im.Parts:
		return fmt.Sprintf("file %s of table %s is number %d of %d that had some of them, and the others can't be built again", im.File, table, im.Part, im.Parts)
	case upTo < g.upTo:
		return fmt.Sprintf("the running import of file %s of table %s has those below offset %d only", im.File, table, upTo)
	case p.routes.Follows:
		return fmt.Sprintf("the running import of file %s of table %s has them, but not which keys of it the other lane wrote meanwhile", im.File, table)
	}
	return ""
}
