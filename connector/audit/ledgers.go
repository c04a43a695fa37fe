package audit

import (
	"slices"
	"time"
)

// takeLedgers prepares the partitions, and judges what their commits say by themselves.
func (a *audit) takeLedgers() {
	slices.SortFunc(a.Partitions, func(x, y Partition) int {
		return (&Gap{Topic: x.Topic, Partition: x.ID}).compare(&Gap{Topic: y.Topic, Partition: y.ID})
	})
	for i := range a.Partitions {
		p := &part{Partition: &a.Partitions[i]}
		p.judged = Judged{Topic: p.Topic, Partition: p.ID, Committed: map[string]int64{}, From: -1}
		for _, lane := range Lanes {
			if c := p.Commits[lane]; c != nil {
				p.judged.Committed[lane.String()] = c.Offset
				a.takeLedger(p, lane, c)
			}
		}
		p.lanes = p.reading()
		p.takeRoutes()
		if a.places[p.Topic] == nil {
			a.places[p.Topic] = map[int32]int32{}
		}
		a.places[p.Topic][p.ID] = int32(len(a.parts))
		a.topics[p.Topic] = true
		a.parts = append(a.parts, p)
	}
}

func (a *audit) takeLedger(p *part, lane Lane, c *Commit) {
	l, err := openLedger(c.Metadata, c.Offset)
	if err != nil {
		a.gap(p, LedgerLost, c.Offset, "the metadata of the %s lane's commit of offset %d cannot be used: %v", lane, c.Offset, err)
		return
	}
	if p.TopicID != [16]byte{} && l.topic != [16]byte{} && l.topic != p.TopicID {
		a.gap(p, OtherLog, c.Offset, "the %s lane's commit of offset %d is of a topic of this name that was there before", lane, c.Offset)
		return
	}
	p.ledgers[lane] = &l
	beyond := func(what string, offset int64) {
		if offset > p.End {
			a.gap(p, OtherLog, p.End, "%s of the %s lane reaches to offset %d, and the log ends at %d", what, lane, offset, p.End)
		}
	}
	beyond("the commit", c.Offset)
	if l.end(c.Offset) != c.Offset {
		beyond("what is confirmed beyond the commit", l.end(c.Offset))
	}
	for _, r := range l.imports {
		beyond("import "+r.file, r.upTo)
	}
}

// reading is the lanes that have to confirm a record: those that have committed and the one
// that shares the topic with them. A lane that takes everything is alone, though the group of
// the other one have offsets of the time before. A lane without routes in the configuration is
// not alone, though a member that had the former file took everything last.
func (p *part) reading() (lanes []Lane) {
	alone, since := -1, int64(0)
	for _, lane := range Lanes {
		routed := len(p.Lanes) == 0 || slices.Contains(p.Lanes, lane)
		if l := p.ledgers[lane]; routed && l != nil && l.routes.known() && !l.routes.shared && l.routes.changed > since {
			alone, since = int(lane), l.routes.changed
		}
	}
	if alone >= 0 {
		return []Lane{Lane(alone)}
	}
	for _, lane := range Lanes {
		other := p.ledgers[1-lane]
		if p.Commits[lane] != nil || other != nil && other.routes.shared {
			lanes = append(lanes, lane)
		}
	}
	return lanes
}

// takeRoutes notes between which offsets records may have ended under several routes.
func (p *part) takeRoutes() {
	for _, lane := range p.lanes {
		if l := p.ledgers[lane]; l != nil {
			p.fickle = max(p.fickle, l.routes.highest)
		}
	}
	for _, lane := range Lanes {
		if c := p.Commits[lane]; c != nil && !slices.Contains(p.lanes, lane) {
			p.former = max(p.former, c.Offset)
			if l := p.ledgers[lane]; l != nil {
				p.former = max(p.former, l.end(c.Offset))
			}
		}
	}
	p.unsure = p.End + 1
	if l := p.ledgers[Batch]; l != nil && slices.Contains(p.lanes, Batch) && l.routes.known() && !l.routes.first {
		p.unsure = l.routes.lowest // it has begun there again, below all that the other lane had not confirmed
	}
}

// oneRoute reports whether all parts of the record at offset ended under the routes that count.
func (p *part) oneRoute(offset int64) bool { return offset >= max(p.fickle, p.former) }

// settled reports whether every lane that reads the partition has confirmed the record.
func (p *part) settled(offset int64) bool {
	for _, lane := range p.lanes {
		c := p.Commits[lane]
		if c == nil {
			return false
		}
		if offset < c.Offset {
			continue
		}
		if l := p.ledgers[lane]; l == nil || !l.confirmed(c.Offset, offset) {
			return false
		}
	}
	return len(p.lanes) > 0
}

// end is the offset beyond all that some lane has confirmed.
func (p *part) end() (end int64) {
	for _, lane := range p.lanes {
		if c := p.Commits[lane]; c != nil {
			end = max(end, c.Offset)
			if l := p.ledgers[lane]; l != nil {
				end = max(end, l.end(c.Offset))
			}
		}
	}
	return min(end, p.End)
}

// start is from which record on a partition is judged: of those from an offset on each must have
// receipts, and of the others those that were written since.
type start struct {
	offset int64 // noOffset: of none by its offset
	since  int64 // in milliseconds of Unix
}

const (
	noOffset = 1<<63 - 1
	notKnown = 1<<63 - 1
)

// slack is how much later a receipt may lie in its topic than its time says.
const slack = int64(10 * time.Minute / time.Millisecond)

// begin is where the judgement of a partition begins. A record that was confirmed before there
// were receipts has none, and nothing says of a record when it was confirmed. But:
//
//   - a lane that had committed nothing before, and began when its group wrote receipts
//     already, has written one for each of its records;
//   - a record that was written after the first assignment of its partition that has
//     receipts was confirmed by it or a later one;
//   - what retention has taken from the receipts topic was written before.
func (a *audit) begin(p *part) start {
	if a.All {
		return start{}
	}
	if !a.From.IsZero() {
		return start{noOffset, a.From.UnixMilli()}
	}
	s := start{}
	for _, lane := range p.lanes {
		l, first := p.ledgers[lane], a.begun[lane]
		if first == 0 {
			first = max(a.begun[0], a.begun[1]) // of the other lane: this one has ended nothing yet
		}
		if first == 0 {
			return start{noOffset, notKnown}
		}
		if l == nil || !l.routes.first || l.routes.changed < first || !a.ReceiptsGone.IsZero() {
			s.offset = noOffset
		} else {
			s.offset = max(s.offset, l.routes.highest)
		}
		if p.begun[lane] != 0 {
			first = p.begun[lane]
		}
		s.since = max(s.since, first)
	}
	if !a.ReceiptsGone.IsZero() {
		s.since = max(s.since, a.ReceiptsGone.UnixMilli()+slack)
	}
	return s
}

// demands reports whether a record must have receipts.
func (s start) demands(offset, written int64) bool { return offset >= s.offset || written >= s.since }
