package kafka

import (
	"maps"

	"github.com/feedsink/feedsink/connector/ack"
)

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
// covers its records; what is to be built again does not. Both hold them.
func (p *Partition) adopt(imports []ack.Import) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.adopted = nil
	p.imports, p.covered, p.inError, p.repeats, p.claims = map[string]ack.Import{}, map[string]int64{}, nil, nil, map[*Claim]struct{}{}
	for _, im := range imports {
		p.imports[entryKey(im)] = im
		if im.State == ack.SetApart { // its records are read like new ones
			if p.repeats == nil {
				p.repeats = map[string]int64{}
			}
			p.repeats[im.Table] = im.UpTo
			continue
		}
		if im.State == ack.PartInError { // the import of the generation's later file holds its records
			continue
		}
		c := &Claim{p: p, c: p.tracker.Cover(im.UpTo), importing: true}
		p.claims[c] = struct{}{}
		switch {
		case im.State == ack.InError:
			if p.inError == nil {
				p.inError = map[string]int64{}
			}
			p.inError[im.Table] = max(p.inError[im.Table], im.UpTo)
		case !again(im.State):
			p.covered[im.Table] = im.UpTo
		}
		p.adopted = append(p.adopted, Adopted{im, c})
	}
}

// again reports whether the file of an import in the state is built again.
func again(s ack.State) bool { return s == ack.Rebuild || s == ack.Refused }

// agree makes the ledgers of one table tell one story. A refusal or a crash amid
// a commit may have left some of them a step behind: where one says that a file is
// built again, no file covers the records of any.
func agree(ps []*Partition) {
	rebuilt := map[string]bool{}
	for _, p := range ps {
		for _, a := range p.Adopted() {
			rebuilt[a.Table] = rebuilt[a.Table] || again(a.State)
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
