package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
)

// A table has at most one import on its way, so its entry in the ledgers is
// known by the table's name. An import of several tables is known by one of them.

// SlotPartition is where the imports of a table are counted: partition 0 of the topic.
type SlotPartition struct {
	Topic, Table string
	At           []time.Time // of an import that takes a slot: one of each day that it may be, in the table's time zone
}

// RecordImport commits a step of an import's life: it replaces the entry in the
// ledger of each partition whose records the import covers, and returns once
// the broker has it. An intent takes one of the day's imports of each table that
// has a home here, noted in the same commit, once for each attempt of a file, and so does an
// execution that the service names on another day: which day it counts is not known.
// ErrFenced, ErrNoRoom or any other error means that the step is not on record.
func (s *Source) RecordImport(ctx context.Context, im ack.Import, homes []SlotPartition, claims []*Claim) error {
	s.commits.Lock() // no other commit finds the step noted for some of the partitions only
	defer s.commits.Unlock()
	ps := partitionsOf(claims)
	at := make([]*Partition, len(homes))
	for i, home := range homes {
		if at[i] = s.partition(home.Topic, 0); at[i] == nil {
			return ErrFenced
		}
		if !slices.Contains(ps, at[i]) {
			ps = append(ps, at[i])
		}
	}
	for _, p := range ps {
		covers := slices.ContainsFunc(claims, func(c *Claim) bool { return c.p == p })
		if im.State != ack.Intended {
			continue
		}
		if err := p.hasRoom(im, homes, covers); err != nil {
			return err // nothing is noted yet
		}
	}
	for i, home := range homes {
		if (im.State == ack.Intended || im.State == ack.Running) && !at[i].takeSlot(home, im) {
			return ErrFenced
		}
	}
	for _, c := range refusedFirst(claims) {
		if !c.record(im) {
			return ErrFenced
		}
	}
	return s.write(ctx, ps)
}

// ConfirmImport releases the claims, everything they cover being confirmed, and
// removes the table's entry, in one commit. It may be repeated. Records that have no
// other place stay held. table is a KeptKey where only such were left of the import.
func (s *Source) ConfirmImport(ctx context.Context, table string, claims []*Claim) error {
	var again []*Partition
	_, err := s.change(ctx, claims, func(c *Claim) bool {
		lookAgain, live := c.confirm(table)
		if lookAgain {
			again = append(again, c.p)
		}
		return live
	})
	s.ReadAgain(again) // whether that is on record or not: claims say so once
	return err
}

// change commits what is changed in the ledgers of the claims' partitions: no other
// commit finds that done for some of them only. ErrFenced if one is not live any more.
func (s *Source) change(ctx context.Context, claims []*Claim, do func(*Claim) (live bool)) ([]*Partition, error) {
	s.commits.Lock()
	defer s.commits.Unlock()
	for _, c := range refusedFirst(claims) {
		if !do(c) {
			return nil, ErrFenced
		}
	}
	ps := partitionsOf(claims)
	return ps, s.write(ctx, ps)
}

// StartOver commits the entry, or its removal if im has no part, and then has
// all partitions that belong together with the claims' read again from their
// committed offsets, in new assignments. The handler is told of both.
func (s *Source) StartOver(ctx context.Context, im ack.Import, claims []*Claim, rerouted bool) error {
	if rerouted { // what was in the file nothing tells any more
		if err := s.resend(ctx, partitionsOf(claims)); err != nil {
			return err
		}
	}
	ps, err := s.change(ctx, claims, func(c *Claim) bool { return c.record(im) })
	if err != nil {
		return err
	}
	s.ReadAgain(s.togetherWith(ps))
	return nil
}

// An import that has ended may hold up its table for the sake of one partition that is
// halted, in this lane or in the other. That partition is set apart: the others are
// confirmed, and its own records are read again once it goes on. Its ledger notes up to
// where their rows may be in the table already.

// causeApart is why a partition that is set apart is not read.
const causeApart = "set apart"

// apartKey is where a partition that is set apart keeps that, for a table.
func apartKey(table string) string { return table + "\x00\x00" }

// SetApart is ConfirmImport but for the claims of partitions that are apart: they go on
// to hold their records. If there are such claims it reports true; those of partitions
// to be read again are not confirmed either then, and all partitions that belong
// together are read again, in new assignments, as with StartOver.
func (s *Source) SetApart(ctx context.Context, im ack.Import, claims []*Claim, apart, again func(*Partition) bool) (left bool, err error) {
	if !slices.ContainsFunc(claims, func(c *Claim) bool { return apart(c.p) }) {
		return false, s.ConfirmImport(ctx, im.Table, claims)
	}
	ps, err := s.change(ctx, claims, func(c *Claim) (live bool) {
		if apart(c.p) || again(c.p) {
			return c.setApart(im)
		}
		_, live = c.confirm(im.Table)
		return live
	})
	if err != nil {
		return false, err
	}
	s.ReadAgain(s.togetherWith(ps))
	return true, nil
}

// MayHaveLanded reports whether the row of the record at offset may be in the table
// already: the partition has been set apart, or the record is read again though newer
// ones were confirmed before the restart, for the sake of something else than its row.
func (p *Partition) MayHaveLanded(table string, offset int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return offset < p.repeats[table] || p.tracker.Restored(offset)
}

// CameSince reports whether the record at offset came after the partition was assigned, so
// that no former owner has seen it.
func (p *Partition) CameSince(offset int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return offset >= p.endThen
}

// holdApart lets a partition that was set apart wait as long as the other lane is
// halted there: its rows could not be reconciled.
func (p *Partition) holdApart() {
	halted := p.OtherHalted()
	p.mu.Lock()
	halted = halted && len(p.repeats) > 0
	p.mu.Unlock()
	if !halted {
		p.Resume(causeApart)
		return
	}
	p.Halt(causeApart, fmt.Sprintf("%s[%d]: group %s has halted or paused the partition, and keys of an import cannot be reconciled before it goes on; "+
		"/status of that lane says why. The partition waits and goes on by itself then", p.Topic, p.ID, p.other.group))
}

// ApartUnder ends what was noted when the partition was set apart under other routes:
// current tells the mapping's fingerprint, by table. What the other lane has written
// since is written again by this one, as after any file of other routes.
func (p *Partition) ApartUnder(current func(table string) (fingerprint uint64)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, im := range p.imports {
		if im.State != ack.SetApart || im.Fingerprint == current(im.Table) {
			continue
		}
		delete(p.imports, key)
		delete(p.repeats, im.Table)
		if p.other != nil {
			p.ledger.Routes.Resend = max(p.ledger.Routes.Resend, p.logEnd)
		}
	}
}

// haltsApart are the reasons why a partition that is set apart is halted, for the
// assignment that follows: it is not read there either.
func (p *Partition) haltsApart() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, im := range p.imports {
		if im.State == ack.SetApart {
			return maps.Clone(p.halts)
		}
	}
	return nil
}

// A record whose row is in error has no other place where there is no dead-letter
// topic. Its partition halts with the watermark at that record. All else that the
// import has loaded is confirmed, and the table's other partitions go on; what is
// left of the import stays in this partition's ledger.

// entryKey is where a partition keeps an import: by its table, and beside the one
// that the table has on its way, by its file, one of which rows are in error.
func entryKey(im ack.Import) string {
	if im.State == ack.SetApart {
		return apartKey(im.Table)
	}
	if im.State != ack.InError && im.State != ack.PartInError {
		return im.Table
	}
	return KeptKey(im.Table, im.File)
}

// KeptKey is what ConfirmImport knows an import by of which only rows in error are
// left.
func KeptKey(table, file string) string { return table + "\x00" + file }

// Adopted is an import that was on its way when the partition changed hands,
// and the hold on the records it covers.
type Adopted struct {
	ack.Import
	Claim *Claim
}

// Adopted lists the imports that the ledger held when the assignment began.
func (p *Partition) Adopted() []Adopted {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.adopted
}

// Key tells an adopted import from others of its table.
func (a Adopted) Key() string { return entryKey(a.Import) }

// Covered reports whether the record at offset, if it is one of that table and
// lane, is in a file that was sent by a former owner.
func (p *Partition) Covered(table string, offset int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return offset < p.covered[table] || len(p.inError) > 0 && offset < p.inError[table]
}

// adopt takes over the entries of a ledger that was just read. What was sent
// covers its records; what is to be built again does not. Both hold them. p.mu is held.
func (p *Partition) adopt(imports []ack.Import) {
	p.adopted = nil
	clear(p.imports)
	clear(p.covered)
	clear(p.inError)
	clear(p.repeats)
	clear(p.claims)
	for _, im := range imports {
		p.imports[entryKey(im)] = im
		if im.State == ack.SetApart { // its records are read like new ones
			p.repeats[im.Table] = im.UpTo
			continue
		}
		if im.State == ack.PartInError { // the import of the generation's later file holds its records
			continue
		}
		c := &Claim{p: p, c: p.tracker.Cover(im.UpTo), state: importing}
		p.claims[c] = struct{}{}
		switch {
		case im.State == ack.InError:
			p.inError[im.Table] = max(p.inError[im.Table], im.UpTo)
		case !builtAgain(im.State):
			p.covered[im.Table] = im.UpTo
		}
		p.adopted = append(p.adopted, Adopted{im, c})
	}
}

// builtAgain reports whether the file of an import in the state is built again.
func builtAgain(s ack.State) bool { return s == ack.Rebuild || s == ack.Refused }

// agree makes the ledgers of one table consistent. A refusal or a crash during
// a commit may have left some of them a step behind: where one says that a file is
// built again, no file covers the records of any.
func agree(ps []*Partition) {
	rebuilt := map[string]bool{}
	for _, p := range ps {
		for _, a := range p.Adopted() {
			rebuilt[a.Table] = rebuilt[a.Table] || builtAgain(a.State)
		}
	}
	for _, p := range ps {
		p.uncover(rebuilt)
	}
}

func (p *Partition) uncover(tables map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.covered, func(table string, _ int64) bool { return tables[table] })
}

// Abandon lets go of an entry that no mapping stands behind any more, or of which all
// records are read again.
func (a Adopted) Abandon() {
	a.Claim.release(entryKey(a.Import))
	a.Claim.p.mu.Lock()
	defer a.Claim.p.mu.Unlock()
	delete(a.Claim.p.inError, a.Table)
	a.Claim.p.forgetParts(a.Table)
}

// Slots are when imports of the table were triggered recently, as the ledger of
// its home topic's partition 0 has it; ok is false while that is not ours.
func (s *Source) Slots(home, table string) (used []time.Time, ok bool) {
	p := s.partition(home, 0)
	if p == nil || !p.in(reading) {
		return nil, false
	}
	return p.UsedSlots(table), true
}

// counted are, for those of ps where imports of tables are counted, the uses of these tables'
// slots in all ledgers of the group: they were counted elsewhere before the tables' topics changed.
func (s *Source) counted(ctx context.Context, ps []*Partition) (map[*Partition][]ack.Slots, error) {
	here := map[*Partition][]string{}
	for _, p := range ps {
		if counted := s.now.Load().Counted; counted != nil && p.ID == 0 {
			here[p] = counted(p.Topic)
		}
	}
	if len(here) == 0 {
		return nil, nil
	}
	var all []ack.Slots
	s.mu.Lock()
	for _, l := range s.left {
		all = append(all, l.Slots...)
	}
	s.mu.Unlock()
	if _, err := s.ownLedgers(ctx, func(l *ack.Ledger) { all = append(all, l.Slots...) }); err != nil {
		return nil, err
	}
	of := map[*Partition][]ack.Slots{}
	for p, tables := range here {
		of[p] = slices.DeleteFunc(slices.Clone(all), func(sl ack.Slots) bool { return !slices.Contains(tables, sl.Table) })
	}
	return of, nil
}

// countHere adds uses of slots to those in the partition's ledger.
func (p *Partition) countHere(all []ack.Slots) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ledger.JoinSlots(all)
}

// UsedSlots are when imports of the table were triggered recently, as this ledger has it.
func (p *Partition) UsedSlots(table string) []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ledger.UsedSlots(table)
}

// FillSlots notes further imports of the table: the service says that there have
// been so many.
func (s *Source) FillSlots(home, table string, at []time.Time) {
	if p := s.partition(home, 0); p != nil && p.in(reading) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ledger.UseSlots(table, at)
	}
}

// HasSlot reports whether an attempt to send a file has a slot of the table on the day of at.
func (s *Source) HasSlot(home, table, file string, attempt int, at time.Time) bool {
	p := s.partition(home, 0)
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.attempts.Lacks(table, ack.Import{File: file, Attempt: attempt}, []time.Time{at}, nil)) == 0
}

// takeSlot notes the use of a slot of the table by an attempt to send a file, once on each day.
func (p *Partition) takeSlot(home SlotPartition, im ack.Import) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != reading {
		return false
	}
	p.ledger.UseSlots(home.Table, p.attempts.Take(home.Table, im, home.At, p.ledger.UsedSlots(home.Table)))
	return true
}

// ErrNoRoom says that an import must not begin yet: a partition's ledger would not take
// its execution.
var ErrNoRoom = errors.New("the partition's ledger has no room for another import; its file waits until other imports are confirmed, or slots used two days ago are forgotten")

// hasRoom returns ErrNoRoom if the partition's ledger does not take the intent, and later all
// executions. covers says that the import has records of the partition.
func (p *Partition) hasRoom(im ack.Import, homes []SlotPartition, covers bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, imports := p.ledger, maps.Clone(p.imports)
	if covers {
		imports[im.Table] = im
	}
	l.Slots, l.Imports = slices.Clone(l.Slots), slices.Collect(maps.Values(imports))
	for _, home := range homes {
		if home.Topic == p.Topic && p.ID == 0 {
			l.UseSlots(home.Table, p.attempts.Lacks(home.Table, im, home.At, l.UsedSlots(home.Table)))
		}
	}
	delete(p.noRoom, im.Table)
	if size := l.Least(p.tracker.Watermark()); size > p.limit {
		p.noRoom[im.Table] = true
		return fmt.Errorf("%s[%d]: %w: %d of %d characters", p.Topic, p.ID, ErrNoRoom, size, p.limit)
	}
	return nil
}

// LacksRoom reports whether the partition's ledger has no room for new records, and the tables
// of which it does not take the next import.
func (p *Partition) LacksRoom() (tables []string, full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.noRoom)), p.causes.has(ledgerFull)
}
