package imports

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/tables"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Adopter hands the imports to the batcher that former owners of partitions began.
type Adopter struct {
	Files    *batcher.Batcher
	Mappings []*router.Compiled
	Log      *slog.Logger
}

// Assigned takes over the imports that former owners of the partitions began.
// All partitions of a table come together, so that what the ledgers say of one
// import is seen whole.
func (f Adopter) Assigned(ps []*kafka.Partition) {
	imports := map[string]*batcher.Adopted{} // by the table that the ledger knows them by
	inError := map[string]*batcher.Adopted{} // likewise, and by file
	left := map[string]*router.Compiled{}    // by tables that no mapping writes files for any more: who awaits their imports
	for _, p := range ps {
		p.ApartUnder(f.fingerprint)
		for _, a := range p.Adopted() {
			if a.State == ack.InError {
				f.adoptErrors(inError, p, a)
				continue
			}
			if f.mappingOf(a.Table) == nil && left[a.Table] == nil {
				left[a.Table] = f.reader(p.Topic)
			}
			if imports[a.Table] == nil {
				imports[a.Table] = &batcher.Adopted{UpTo: map[batcher.Partition]int64{}}
			}
			gather(imports[a.Table], p, a)
		}
	}
	awaited := map[string]bool{}
	for _, table := range slices.Concat(slices.Sorted(maps.Keys(left)), slices.Sorted(maps.Keys(imports))) {
		m, a := cmp.Or(f.mappingOf(table), left[table]), imports[table]
		// Where mappings were joined to a bundle while each had an import on its
		// way, or one has left the lane, one is awaited after the other: those of other
		// routes, which have all records read again, go first.
		if awaited[tables.LedgerTable(m)] {
			continue
		}
		a.Began = began(a.File, usedSlots(ps, m), time.Now())
		awaited[tables.LedgerTable(m)] = true
		// With other routes it cannot be told which records the file held: it is
		// awaited, to keep the order, and then all of them are read again.
		if a.Fingerprint != m.FileFingerprint() {
			f.Log.Warn("the mapping was changed while an import was on its way; its records will be read again and routed anew",
				"table", table, "file", a.File, "execution", a.Execution)
			a.Changed = true
			for _, other := range f.leftBundle(m, *a) {
				if imports[tables.LedgerTable(other)] == nil {
					f.adopt(other, *a)
				}
			}
		}
		f.adopt(m, *a)
	}
	for _, key := range slices.Sorted(maps.Keys(inError)) {
		f.adopt(f.mappingOf(inError[key].Table.Qualified()), *inError[key])
	}
}

// usedSlots are when imports of the mapping's table were triggered recently.
func usedSlots(ps []*kafka.Partition, m *router.Compiled) []time.Time {
	for _, p := range ps {
		if p.ID == 0 && p.Topic == m.Config.Topics[0] {
			return p.UsedSlots(m.Table.Qualified())
		}
	}
	return nil
}

// began is when the file of an import on record was sent: its table's last slot was used then.
// Where none is known to have been used since the file was sealed, it is when it was sealed.
func began(file string, used []time.Time, now time.Time) time.Time {
	at := spool.NamedAt(file)
	for _, u := range used {
		if u.After(at) && !u.After(now) { // one of the next day may be on record, too
			at = u
		}
	}
	if at.After(now) { // another clock said so
		return now
	}
	return at
}

// adoptErrors takes over what is left of an import: records whose rows are in error.
// Those of a mapping that was changed are read again.
func (f Adopter) adoptErrors(to map[string]*batcher.Adopted, p *kafka.Partition, a kafka.Adopted) {
	if a.Fingerprint == 0 || a.Fingerprint != f.fingerprint(a.Table) {
		f.Log.Warn("the mapping was changed while records waited whose rows were in error; they are read again and routed anew",
			"table", a.Table, "topic", p.Topic, "partition", p.ID, "file", a.File, "execution", a.Execution)
		a.Abandon()
		return
	}
	if to[a.Key()] == nil {
		to[a.Key()] = &batcher.Adopted{UpTo: map[batcher.Partition]int64{}}
	}
	gather(to[a.Key()], p, a)
	to[a.Key()].OnlyErrors = true
}

func (f Adopter) adopt(m *router.Compiled, a batcher.Adopted) {
	if err := f.Files.Adopt(m.Name, a); err != nil {
		f.Log.Error("adopting an import", "mapping", m.Name, "error", err)
	}
}

// leftBundle are the mappings whose rows are in the import, though it is m's alone
// by now: their newer rows must not go out before it has ended.
func (f Adopter) leftBundle(m *router.Compiled, a batcher.Adopted) (left []*router.Compiled) {
	for _, other := range tables.Filed(f.Mappings) {
		if tables.LedgerTable(other) == tables.LedgerTable(m) {
			continue
		}
		for p := range a.UpTo {
			topic := p.(Partition).Topic
			if slices.Contains(other.Config.Topics, topic) && !slices.Contains(m.Config.Topics, topic) {
				left = append(left, other)
				break
			}
		}
	}
	return left
}

// gather adds what one partition's ledger says. The step that is furthest is
// the one that counts: a crash in the middle of a commit may have left others
// behind. What one ledger tells of other routes is so for the whole import: it
// carries no fingerprint then.
func gather(to *batcher.Adopted, p *kafka.Partition, a kafka.Adopted) {
	rerouted := a.Fingerprint == 0 || len(to.Claims) > 0 && to.Fingerprint == 0
	defer func() {
		if rerouted {
			to.Fingerprint = 0
		}
	}()
	to.Claims = append(to.Claims, a.Claim)
	to.UpTo[Partition{p}] = a.UpTo
	if a.Part < to.Part || a.Part == to.Part && (a.Attempt < to.Attempt || a.Attempt == to.Attempt && (to.Reconciling || to.Refused || a.Execution == "" && to.Execution != "")) {
		return
	}
	refused := a.State == ack.Refused
	to.Rebuild, to.Reconciling = refused || a.State == ack.Rebuild, a.State == ack.Reconciling
	table, _ := schemas.ParseTable(a.Table)
	to.Import = contract.Import{
		Table: table, Fingerprint: a.Fingerprint, Part: a.Part, Parts: a.Parts, Mode: a.Mode,
		File: a.File, Attempt: a.Attempt, Execution: a.Execution, Refused: refused,
	}
}

// fingerprint is of the mapping that writes files for the table; 0: there is none.
func (f Adopter) fingerprint(table string) uint64 {
	if m := f.mappingOf(table); m != nil {
		return m.FileFingerprint()
	}
	return 0
}

// reader is a mapping that writes files of the topic's records.
func (f Adopter) reader(topic string) *router.Compiled {
	filed := tables.Filed(f.Mappings)
	return filed[slices.IndexFunc(filed, func(m *router.Compiled) bool { return slices.Contains(m.Config.Topics, topic) })]
}

func (f Adopter) mappingOf(table string) *router.Compiled { return tables.Mapping(f.Mappings, table) }
