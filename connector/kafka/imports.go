package kafka

import (
	"context"
	"slices"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
)

// A table has at most one import on its way, so its entry in the ledgers is
// known by the table's name. An import of several tables is known by one of them.

// SlotPartition is where the imports of a table are counted: on partition 0 of the topic.
type SlotPartition struct {
	Topic, Table string
	// At is when it is, for an import that takes a slot: one moment, or one for
	// each day that it may be.
	At []time.Time
}

// RecordImport commits a step of an import's life: it replaces the entry in the
// ledger of each partition whose records the import covers, and returns once
// the broker has it. An intent takes one of the day's imports of each table that
// has a home here, noted in the same commit, once for each attempt of a file.
// ErrFenced, or any other error, means that the step is not on record.
func (s *Source) RecordImport(ctx context.Context, im ack.Import, homes []SlotPartition, claims []*Claim) error {
	s.commits.Lock() // no other commit finds the step noted for some of the partitions only
	defer s.commits.Unlock()
	ps := partitionsOf(claims)
	for _, home := range homes {
		at := s.partition(home.Topic, 0)
		if at == nil {
			return ErrFenced
		}
		ps = append(ps, at)
	}
	if im.State == ack.Intended {
		for i, home := range homes {
			if !ps[len(claims)+i].takeSlot(home, im) {
				return ErrFenced
			}
		}
	}
	for _, c := range refusedFirst(claims) {
		if !c.record(im) {
			return ErrFenced
		}
	}
	return s.write(ctx, unique(ps))
}

// ConfirmImport releases the claims, everything they cover being confirmed, and
// removes the table's entry, in one commit. It may be repeated. Records that have no
// other place stay held. table is a KeptKey where only such were left of the import.
func (s *Source) ConfirmImport(ctx context.Context, table string, claims []*Claim) error {
	s.commits.Lock()
	defer s.commits.Unlock()
	var again []*Partition
	for _, c := range refusedFirst(claims) {
		lookAgain, live := c.confirm(table)
		if !live {
			return ErrFenced
		}
		if lookAgain {
			again = append(again, c.p)
		}
	}
	if err := s.write(ctx, unique(partitionsOf(claims))); err != nil {
		return err
	}
	s.ReadAgain(again)
	return nil
}

// StartOver commits the entry, or its removal if im has no part, and then has
// all partitions that belong together with the claims' read again from their
// committed offsets, in new assignments. The handler is told of both.
func (s *Source) StartOver(ctx context.Context, im ack.Import, claims []*Claim) error {
	if im.Part == 0 { // of former routes: what was in the file nothing tells any more
		if err := s.resend(ctx, unique(partitionsOf(claims))); err != nil {
			return err
		}
	}
	s.commits.Lock()
	defer s.commits.Unlock()
	for _, c := range refusedFirst(claims) {
		if !c.record(im) {
			return ErrFenced
		}
	}
	ps := unique(partitionsOf(claims))
	if err := s.write(ctx, ps); err != nil {
		return err
	}
	s.readTogether(ps)
	return nil
}

// readTogether has all partitions read again that belong together with these.
func (s *Source) readTogether(ps []*Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tp, p := range s.parts {
		if slices.ContainsFunc(ps, func(q *Partition) bool { return s.together(tp.topic, q.Topic) }) {
			s.readAgain(p)
		}
	}
}

// ReadAgain has partitions read again from their committed offsets, in new
// assignments, as soon as none of their records is on its way one by one.
func (s *Source) ReadAgain(ps []*Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range ps {
		s.readAgain(p)
	}
}

// readAgain is ReadAgain with the lock held.
func (s *Source) readAgain(p *Partition) {
	p.drain()
	if !slices.Contains(s.again, p) {
		s.again = append(s.again, p)
	}
}

// together reports whether two topics have one owner.
func (s *Source) together(a, b string) bool {
	return a == b || s.cfg.TableOf != nil && s.cfg.TableOf(a) == s.cfg.TableOf(b)
}

// startOver ends the assignments that are to be read again, once none of their
// records is on its way one by one: those would be done twice. It is called by
// the poll loop; the ledgers are read again before its next poll.
func (s *Source) startOver(ctx context.Context) {
	again := s.allToReadAgain()
	if len(again) == 0 || slices.ContainsFunc(again, func(p *Partition) bool { return p.underWay() > 0 }) {
		return
	}
	// The handler lets go while commits still pass: what it is sending for another
	// table of these partitions is written down, so that it is not sent twice.
	releasing, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.ReleaseTimeout)
	defer cancel()
	s.handler.Release(releasing, again)
	if err := s.commit(ctx, again); err != nil {
		s.log.Warn("offsets were not committed; reading again waits for that", "error", err)
		return
	}
	s.mu.Lock()
	s.again = slices.DeleteFunc(s.again, func(p *Partition) bool { return slices.Contains(again, p) })
	for _, p := range again {
		p.end()
		fresh := s.open(p.Topic, p.ID, p.member)
		fresh.paused, fresh.halts = p.paused, p.haltsApart()
		s.parts[topicPartition{p.Topic, p.ID}] = fresh
		s.kept = append(s.kept, fresh)
	}
	s.mu.Unlock()
	s.log.Info("reading records again from the committed offsets", "partitions", len(again))
}

// allToReadAgain are the partitions to be read again, with all that belong together
// with them: the handler lets go of a table as a whole.
func (s *Source) allToReadAgain() []*Partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.again = slices.DeleteFunc(s.again, func(p *Partition) bool { return !p.Live() })
	if len(s.again) == 0 {
		return nil
	}
	for tp, p := range s.parts {
		if slices.ContainsFunc(s.again, func(q *Partition) bool { return s.together(tp.topic, q.Topic) }) {
			s.readAgain(p)
		}
	}
	return slices.Clone(s.again)
}

func partitionsOf(claims []*Claim) []*Partition {
	ps := make([]*Partition, len(claims))
	for i, c := range claims {
		ps[i] = c.p
	}
	return ps
}

func unique(ps []*Partition) []*Partition {
	var out []*Partition
	for _, p := range ps {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// record puts the import on the partition's ledger, or takes it off if it has no
// part; false if the assignment has ended.
func (c *Claim) record(im ack.Import) bool {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if !c.p.live {
		return false
	}
	c.importing = true
	if im.Part == 0 {
		delete(c.p.imports, im.Table)
		c.p.forgetParts(im.Table)
		return true
	}
	im.UpTo, im.Since = c.c.Span().To, c.p.since()
	if before, ok := c.p.imports[im.Table]; ok {
		// Two claims on one partition: what was adopted and what was built again.
		im.UpTo = max(im.UpTo, before.UpTo)
		// What the other lane had not confirmed at the first step may land after
		// the rows of any file of the generation.
		im.Since = min(im.Since, before.Since)
		c.nextPart(before, im)
	}
	if c.p.imports == nil {
		c.p.imports = map[string]ack.Import{}
	}
	c.p.imports[im.Table] = im
	return true
}

func (c *Claim) release(key string) bool {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if !c.p.live {
		return false
	}
	delete(c.p.imports, key)
	delete(c.p.claims, c)
	c.p.tracker.Release(c.c)
	return true
}

// confirm releases the claim, but for records that have no other place. again says
// that the import is to be looked at once more.
func (c *Claim) confirm(key string) (again, live bool) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if !c.p.live || c.ended {
		return false, c.p.live
	}
	c.ended = true
	kept, again := c.keep(key)
	delete(c.p.claims, c)
	if !kept {
		delete(c.p.imports, key)
		c.p.tracker.Release(c.c)
	}
	return again, true
}

// Unconfirmed is how many records of the partition are waiting for what.
type Unconfirmed struct {
	Pending   int   // for their own confirmation
	Buffered  int64 // rows of an open file
	Importing int64 // rows of a file on its way
}

// Unconfirmed counts the partition's records that are not confirmed.
func (p *Partition) Unconfirmed() (u Unconfirmed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loaded {
		u = p.unconfirmed()
	}
	return u
}

// unconfirmed counts with p.mu held, of a partition whose ledger was read.
func (p *Partition) unconfirmed() (u Unconfirmed) {
	u.Pending = p.tracker.Pending()
	for c := range p.claims {
		if c.importing {
			u.Importing += c.c.Records()
		} else {
			u.Buffered += c.c.Records()
		}
	}
	return u
}
