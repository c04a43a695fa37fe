package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/feedsink/feedsink/connector/ack"
)

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
	s.commits.Lock()
	defer s.commits.Unlock()
	for _, c := range refusedFirst(claims) {
		var live bool
		if apart(c.p) || again(c.p) {
			live = c.setApart(im)
		} else {
			_, live = c.confirm(im.Table)
		}
		if !live {
			return false, ErrFenced
		}
	}
	ps := unique(partitionsOf(claims))
	if err := s.write(ctx, ps); err != nil {
		return false, err
	}
	s.readTogether(ps)
	return true, nil
}

// setApart replaces the import's entry by the note; false if the assignment has ended.
func (c *Claim) setApart(im ack.Import) bool {
	p := c.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.live {
		return false
	}
	// Nothing of the other lane has to be seen that is older than the records: their
	// rows go out once more.
	im.State, im.UpTo, im.Since = ack.SetApart, c.c.Span().To, p.tracker.Watermark()
	for _, key := range []string{im.Table, apartKey(im.Table)} {
		if before, ok := p.imports[key]; ok {
			im.UpTo = max(im.UpTo, before.UpTo)
		}
	}
	delete(p.imports, im.Table)
	p.forgetParts(im.Table)
	if p.imports == nil {
		p.imports = map[string]ack.Import{}
	}
	p.imports[apartKey(im.Table)] = im
	return true
}

// Repeats reports whether the row of the record at offset may be in the table already,
// the partition having been set apart.
func (p *Partition) Repeats(table string, offset int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return offset < p.repeats[table]
}

// MayHaveLanded is Repeats, or whether the record is read again though newer ones were
// confirmed before the restart: for the sake of something else than its row.
func (p *Partition) MayHaveLanded(table string, offset int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return offset < p.repeats[table] || p.tracker.Restored(offset)
}

// holdApart lets a partition that was set apart wait as long as the other lane is
// halted there: its rows could not be reconciled.
func (p *Partition) holdApart(v *ack.View) {
	p.mu.Lock()
	waits := p.other != nil && v.Routes.Halted && len(p.repeats) > 0
	p.mu.Unlock()
	if !waits {
		p.Resume(causeApart)
		return
	}
	p.Halt(causeApart, fmt.Sprintf("%s[%d]: group %s has halted the partition, and keys of an import cannot be reconciled before it goes on; "+
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
