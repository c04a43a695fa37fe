package kafka

import (
	"maps"
	"slices"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
)

// The life of one assignment of one partition. Every change of its state is made in
// this file.
//
//	state    | what is true in it                                     | moved there by, in
//	---------+--------------------------------------------------------+--------------------------------------------
//	assigned | it is ours; what was committed before is not known;    | open, in assigned; askedFor, in toLoad, as
//	         | the client is about to ask startOffsets where to begin | the client asks again until the fetch begins
//	renewed  | the same, of a partition that this member had before:  | reassign, in reopen (our member id has
//	         | the client does not ask, the poll loop calls reload    | changed) and startOver (it is read again)
//	loaded   | its ledger was read and the client knows where to      | loadedByClient, in startOffsets
//	         | begin; the handler does not know of it                 |
//	reading  | the handler knows it: records are offered, tracked and | begin, in beginLoaded and, from renewed,
//	         | confirmed; offsets and ledger are committed            | beginRenewed: the poll loop
//	ended    | the partition is another assignment's, or another      | end, in drop and forget (revoked, lost,
//	         | member's: what is done to this one is ignored          | assigned) and in reassign
//
// Beside its state a partition has causes not to be read, in any number: a pauseCause.
type state uint8

const (
	assigned state = iota
	renewed
	loaded
	reading
	ended
)

// open begins an assignment.
func (s *Source) open(topic string, id int32, member string, st state) *Partition {
	p := newPartition(topic, id, member, st)
	p.total, p.memory, p.times = &s.pending, s.cfg.Pending, s.cfg.Times
	p.memory.Share(1)
	if p.routes = (agreement{TopicRoutes: s.topic(topic), recorded: -1, looks: &s.other.looks}); p.routes.Shared {
		p.other = s.other
	}
	return p
}

// reassign ends an assignment and begins another of the same partition. s.mu is held.
func (s *Source) reassign(p *Partition, member string) *Partition {
	p.end()
	next := s.open(p.Topic, p.ID, member, renewed)
	next.paused = p.paused
	s.parts[topicPartition{p.Topic, p.ID}] = next
	return next
}

// askedFor notes that the client asks where to begin. It reports false if that is
// known: the partition is read.
func (p *Partition) askedFor() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == renewed || p.state == loaded {
		p.state = assigned
	}
	return p.state != reading
}

// loadedByClient notes that the ledger was read and the client is told where to begin.
func (p *Partition) loadedByClient() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == assigned {
		p.state = loaded
	}
}

// begin lets records and commits pass, if the partition is in the state: the ledger
// was read and the client stands where it says.
func (p *Partition) begin(from state) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != from {
		return false
	}
	p.state = reading
	return true
}

// end ends the assignment: from here on nothing changes its offset any more. It tells the
// slots and the imports on record.
func (p *Partition) end() ack.Ledger {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := ack.Ledger{Slots: p.ledger.Slots, Imports: slices.Collect(maps.Values(p.imports))}
	if p.state == ended {
		return left
	}
	p.hold(-p.held.Load())
	p.memory.Share(-1)
	if p.state == reading {
		p.total.Add(-int64(p.tracker.Pending()))
	}
	p.state = ended
	return left
}

func (p *Partition) in(st state) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state == st
}

// Live reports whether this assignment of the partition lasts.
func (p *Partition) Live() bool { return !p.in(ended) }

// partitionsIn are the assignments in a state.
func (s *Source) partitionsIn(st state) []*Partition {
	return slices.DeleteFunc(s.Partitions(), func(p *Partition) bool { return !p.in(st) })
}

// pauseCause is a set of causes not to read a partition.
type pauseCause uint8

const (
	// Records that were polled are not offered to the handler either.
	halted     pauseCause = 1 << iota // a person must see why: Halt, Resume
	ledgerFull                        // no new records until the ledger shrinks: encode
	readAgain                         // it is about to be read again from its committed offset: ReadAgain, startOver
	awaitsLane                        // it waits until the other lane has let go of it, as its ledger says: load, follow
	onRequest                         // a person has paused all mappings that read it: SetPaused

	// Nothing new is fetched.
	backlogged // the handler did not take all that was polled
	givenBack  // the backlog was given back, and there is no room for it yet: shed
	resting    // an error, or giving the backlog back, was a short time ago

	notOffered = halted | ledgerFull | readAgain | awaitsLane | onRequest
)

func (c pauseCause) has(some pauseCause) bool { return c&some != 0 }

// with is the set with the cause or, if it does not hold, without.
func (c pauseCause) with(cause pauseCause, holds bool) pauseCause {
	if holds {
		return c | cause
	}
	return c &^ cause
}

// withheld are the causes not to offer records.
func (p *Partition) withheld() pauseCause {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.causes.with(halted, len(p.halts) > 0).with(awaitsLane, p.ledger.Routes.Hold)
}

// pauses are all causes; the poll loop asks.
func (p *Partition) pauses() pauseCause {
	return p.withheld().with(backlogged, len(p.backlog) > 0).with(givenBack, p.shed > 0).with(resting, time.Now().Before(p.rest))
}

// encode writes the ledger for a commit of the offset, and notes its size: no new records
// at three quarters of the room beside what lasts, such as used slots, and until half of that
// is free again. What did not fit would be repeated after a crash. p.mu is held.
func (p *Partition) encode(offset int64) (metadata string, err error) {
	metadata, _, err = p.ledger.Encode(offset, p.limit)
	size, lasting := len(metadata), 0
	if err != nil || size > p.limit/2 {
		if p.times != nil {
			p.ledger.ForgetSlots(p.times())
			metadata, _, err = p.ledger.Encode(offset, p.limit)
		}
		size, lasting = len(metadata), p.ledger.Lasting(offset)
	}
	most := lasting + (p.limit-lasting)*3/4
	if p.causes.has(ledgerFull) {
		most = lasting + (p.limit-lasting)/2
	}
	p.causes = p.causes.with(ledgerFull, err != nil || size > most)
	return metadata, err
}

// drain takes no new records, for the assignment is about to begin again.
func (p *Partition) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.causes |= readAgain
}

// Halt stops reading the partition for a reason that a person must see. Each
// cause, a mapping or a record that cannot go on, has its own reason, the
// first one given.
func (p *Partition) Halt(cause, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.halts[cause] == "" {
		p.halts[cause] = reason
	}
}

// Resume takes a halt back.
func (p *Partition) Resume(cause string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.halts, cause)
}

// SetPaused stops reading the partition, or goes on, as a person has asked for it.
func (p *Partition) SetPaused(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.causes = p.causes.with(onRequest, yes)
}

// applyPauses has the client fetch what has no cause to be paused, and nothing else.
func (s *Source) applyPauses() {
	for _, p := range s.Partitions() {
		if p.shed > 0 && !p.full && p.memory.Fits(p.shed, p.held.Load()) {
			p.shed = 0
		}
		before := p.paused
		p.paused = p.pauses()
		which := map[string][]int32{p.Topic: {p.ID}}
		switch {
		case before == 0 && p.paused != 0:
			s.client.PauseFetchPartitions(which)
		case before != 0 && p.paused == 0:
			s.client.ResumeFetchPartitions(which)
		}
	}
}

// goesOnSoon reports whether a partition that is paused may be fetched again before a
// poll returns: it has a backlog, has given records back, or waits for the other lane.
func (s *Source) goesOnSoon() bool {
	return slices.ContainsFunc(s.Partitions(), func(p *Partition) bool {
		c := p.pauses()
		return c.has(awaitsLane) || c.has(backlogged|givenBack) && !c.has(notOffered)
	})
}
