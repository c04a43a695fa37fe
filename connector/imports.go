package connector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/batcher/reconcile"
	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// importer gives the batcher operations 10, 11 and 12.
type importer struct {
	client  *service.Client
	service *calls.Service            // what calls and imports know of the service together
	zones   map[string]*time.Location // by ETL: the calendar its table's slots follow
	leased  func() bool               // whether no other member can have the table by now
	spans   lineage
}

// errNotLeased stops a trigger whose intent was committed, but so long ago that
// another member may have taken the import up. The next commit tells.
var errNotLeased batcher.Failure = notLeased{}

type notLeased struct{}

func (notLeased) Error() string {
	return "not sent: the consumer group has not answered for so long that the table may be another member's"
}
func (notLeased) Transient() bool           { return true }
func (notLeased) RetryAfter() time.Duration { return 0 }
func (notLeased) Unknown() bool             { return false }
func (notLeased) NoSlot() bool              { return false }
func (notLeased) TooLarge() bool            { return false }
func (notLeased) Reason() string            { return "" }
func (notLeased) Cause() string             { return "" }

func (i importer) Trigger(ctx context.Context, etl, name string, open func() (io.ReadCloser, int64, error)) (string, error) {
	if !i.leased() {
		return "", errNotLeased
	}
	file := service.File{Name: name, ContentType: contentType(name), Open: open}
	return request(i.service, func() (string, error) {
		ctx, call := i.spans.trigger(ctx, name)
		execution, err := i.client.Trigger(ctx, etl, file, i.zones[etl])
		call.End(err, statusOf(err))
		return execution.ID, err
	})
}

func contentType(name string) string {
	switch filepath.Ext(name) {
	case ".gz":
		return "application/gzip"
	case ".zip":
		return "application/zip"
	}
	return "text/csv"
}

func (i importer) Results(ctx context.Context, execution string) (batcher.Results, error) {
	r, err := request(i.service, func() (service.Results, error) { return i.client.Results(ctx, execution) })
	if err != nil {
		return batcher.Results{}, err
	}
	got := batcher.Results{Status: batcher.Status(r.Status), Reason: r.Error, Cause: r.Cause(), SameAgain: r.FileAtFault(), TooLarge: r.TooLarge()}
	if r.Status == service.Finished {
		c := r.Counters // of rows in error that are not told, only the output files tell
		got.Read, got.InError, got.Inserted, got.Updated, got.Deleted = c.Read, c.InError, c.Inserted, c.Updated, c.Deleted
	}
	return got, nil
}

func (i importer) OutputFiles(ctx context.Context, execution string, w io.Writer) error {
	_, err := request(i.service, func() (service.Output, error) { return i.client.OutputFiles(ctx, execution, w) })
	return err
}

// ledger lets the batcher write an import's steps into the offset commits of
// the partitions whose records it covers.
type ledger struct {
	lane     *laneBase
	pacing   *pacing
	receipts *importReceipts
}

func (l ledger) Commit(ctx context.Context, imp batcher.Import, claims []batcher.Claim) error {
	state := ack.Intended
	switch {
	case imp.Refused:
		state = ack.Refused
	case imp.Execution != "":
		state = ack.Running
		l.receipts.running(imp)
		for _, load := range imp.Loads() {
			l.pacing.answered(load.Mapping)
		}
	default:
		l.lane.tracing.intended(imp, own(claims))
	}
	return l.lane.source.RecordImport(ctx, entry(imp, state), l.slotPartitions(imp), own(claims))
}

// slotPartitions are where the imports of the tables are counted that imp loads.
func (l ledger) slotPartitions(imp batcher.Import) (homes []kafka.SlotPartition) {
	for _, load := range imp.Loads() {
		t := l.pacing.tables[load.Mapping]
		homes = append(homes, kafka.SlotPartition{Topic: t.slotTopic, Table: t.table, At: l.pacing.days(load.Mapping)})
	}
	return homes
}

func (l ledger) Reconcile(ctx context.Context, imp batcher.Import, claims []batcher.Claim) error {
	return l.lane.source.RecordImport(ctx, entry(imp, ack.Reconciling), l.slotPartitions(imp), own(claims))
}

func (l ledger) Confirm(ctx context.Context, imp batcher.Import, claims []batcher.Claim) error {
	held := own(claims)
	key := imp.Table.Qualified()
	if imp.OnlyErrors {
		key = kafka.KeptKey(key, imp.File)
	}
	if err := l.receipts.write(ctx, &imp, held); err != nil {
		return err
	}
	if err := l.lane.source.ConfirmImport(ctx, key, held); err != nil {
		return err
	}
	l.receipts.confirmed(&imp)
	l.confirmed(imp, held)
	return nil
}

func (l ledger) confirmed(imp batcher.Import, held []*kafka.Claim) {
	now := time.Now()
	for _, c := range held {
		for _, m := range l.lane.router.TopicMappings(c.Topic()) {
			if loads(&imp, m.Name) {
				c.EachTimestamp(func(at time.Time, n int64) { l.lane.metrics.Delivered(m.Name, schemas.Batch, now.Sub(at), n) })
			}
		}
		c.EachTimestampOf(func(kind any, at time.Time, n int64) {
			if o, ok := kind.(*router.Objective); ok && loads(&imp, o.Mapping) {
				l.lane.metrics.Judged(o, now.Sub(at), n)
			}
		})
		l.lane.metrics.RecordsEnded(c.Topic(), observe.OutcomeConfirmed, max(c.Records()-c.Dead()-c.Refused(), 0))
	}
}

func (l ledger) SetApart(ctx context.Context, imp batcher.Import, claims []batcher.Claim, apart, again func(batcher.Partition) bool) (left bool, err error) {
	held := own(claims)
	of := func(which func(batcher.Partition) bool) func(*kafka.Partition) bool {
		return func(p *kafka.Partition) bool { return which(assignment{p}) }
	}
	leaves := slices.ContainsFunc(held, func(c *kafka.Claim) bool { return of(apart)(c.Partition()) })
	if err := l.receipts.write(ctx, &imp, slices.DeleteFunc(slices.Clone(held), func(c *kafka.Claim) bool {
		return of(apart)(c.Partition()) || leaves && of(again)(c.Partition())
	})); err != nil {
		return false, err
	}
	left, err = l.lane.source.SetApart(ctx, entry(imp, ack.SetApart), held, of(apart), of(again))
	if err != nil {
		return false, err
	}
	l.receipts.confirmed(&imp)
	l.confirmed(imp, slices.DeleteFunc(held, func(c *kafka.Claim) bool {
		return left && (of(apart)(c.Partition()) || of(again)(c.Partition()))
	}))
	return left, nil
}

// Unread implements batcher.Ledger.
func (l ledger) Unread(ctx context.Context, _ batcher.Import, ends map[batcher.Partition]int64) error {
	unread := make(map[*kafka.Partition]int64, len(ends))
	for p, end := range ends {
		if a, ok := p.(assignment); ok {
			unread[a.Partition] = end
		}
	}
	return l.lane.source.WriteAgain(ctx, unread)
}

func (l ledger) StartOver(ctx context.Context, imp batcher.Import, claims []batcher.Claim) error {
	state := ack.Rebuild
	if imp.Refused { // built again, it waits for a person
		state = ack.Refused
	}
	return l.lane.source.StartOver(ctx, entry(imp, state), own(claims))
}

func entry(imp batcher.Import, state ack.State) ack.Import {
	return ack.Import{
		State: state, Table: imp.Table.Qualified(), Mode: imp.Mode, File: imp.File, Execution: imp.Execution,
		Fingerprint: imp.Fingerprint, Part: imp.Part, Parts: imp.Parts, Attempt: imp.Attempt,
	}
}

// assignment lets the batcher hold records of a partition.
type assignment struct{ *kafka.Partition }

var _ batcher.Partition = assignment{}

func (a assignment) String() string { return fmt.Sprintf("%s[%d]", a.Topic, a.ID) }

// Halted is why the partition is halted.
func (a assignment) Halted() string {
	st, _ := a.Status()
	return strings.Join(st.Halted, "; ")
}

// Waits is what of the other lane the partition's records wait for.
func (a assignment) Waits() string {
	st, _ := a.Status()
	return st.Waiting
}

func (a assignment) Claim(offset int64) batcher.Claim { return a.Partition.Claim(offset) }

// own gives the claims back as what assignment made them.
func own(claims []batcher.Claim) []*kafka.Claim {
	out := make([]*kafka.Claim, len(claims))
	for i, c := range claims {
		out[i] = c.(*kafka.Claim)
	}
	return out
}

// assigned takes over the imports that former owners of the partitions began.
// All partitions of a table come together, so that what the ledgers say of one
// import is seen whole.
func (f *fileDelivery) assigned(ps []*kafka.Partition) {
	imports := map[string]*batcher.Adopted{} // by the table that the ledger knows them by
	inError := map[string]*batcher.Adopted{} // likewise, and by file
	for _, p := range ps {
		p.ApartUnder(f.fingerprint)
		for _, a := range p.Adopted() {
			if f.mappingOf(a.Table) == nil {
				f.lane.log.Warn("an import was begun for a table that no mapping writes to any more; it is not awaited",
					"table", a.Table, "file", a.File, "execution", a.Execution)
				a.Abandon()
				continue
			}
			if a.State == ack.InError {
				f.adoptErrors(inError, p, a)
				continue
			}
			if imports[a.Table] == nil {
				imports[a.Table] = &batcher.Adopted{UpTo: map[batcher.Partition]int64{}}
			}
			gather(imports[a.Table], p, a)
		}
	}
	awaited := map[string]bool{}
	for _, table := range slices.Sorted(maps.Keys(imports)) {
		m, a := f.mappingOf(table), imports[table]
		// Where mappings were joined to a bundle while each had an import on its
		// way, one is awaited after the other: each has all records read again.
		if awaited[ledgerTable(m)] {
			continue
		}
		awaited[ledgerTable(m)] = true
		// With other routes it cannot be told which records the file held: it is
		// awaited, to keep the order, and then all of them are read again.
		if a.Fingerprint != m.FileFingerprint() {
			f.lane.log.Warn("the mapping was changed while an import was on its way; its records will be read again and routed anew",
				"mapping", m.Name, "file", a.File, "execution", a.Execution)
			a.Changed = true
			for _, left := range f.leftBundle(m, *a) {
				if imports[ledgerTable(left)] == nil {
					f.adopt(left, *a)
				}
			}
		}
		f.adopt(m, *a)
	}
	for _, key := range slices.Sorted(maps.Keys(inError)) {
		f.adopt(f.mappingOf(inError[key].Table.Qualified()), *inError[key])
	}
}

// adoptErrors takes over what is left of an import: records whose rows are in error.
// Those of a mapping that was changed are read again.
func (f *fileDelivery) adoptErrors(to map[string]*batcher.Adopted, p *kafka.Partition, a kafka.Adopted) {
	if m := f.mappingOf(a.Table); a.Fingerprint != m.FileFingerprint() {
		f.lane.log.Warn("the mapping was changed while records waited whose rows were in error; they are read again and routed anew",
			"mapping", m.Name, "topic", p.Topic, "partition", p.ID, "file", a.File, "execution", a.Execution)
		a.Abandon()
		return
	}
	if to[a.Key()] == nil {
		to[a.Key()] = &batcher.Adopted{UpTo: map[batcher.Partition]int64{}}
	}
	gather(to[a.Key()], p, a)
	to[a.Key()].OnlyErrors = true
}

func (f *fileDelivery) adopt(m *router.Compiled, a batcher.Adopted) {
	if err := f.files.Adopt(m.Name, a); err != nil {
		f.lane.log.Error("adopting an import", "mapping", m.Name, "error", err)
	}
}

// leftBundle are the mappings whose rows are in the import, though it is m's alone
// by now: their newer rows must not go out before it has ended.
func (f *fileDelivery) leftBundle(m *router.Compiled, a batcher.Adopted) (left []*router.Compiled) {
	for _, other := range filed(f.lane.router.Mappings()) {
		if ledgerTable(other) == ledgerTable(m) {
			continue
		}
		for p := range a.UpTo {
			topic := p.(assignment).Topic
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
	to.UpTo[assignment{p}] = a.UpTo
	if a.Part < to.Part || a.Part == to.Part && (a.Attempt < to.Attempt || a.Attempt == to.Attempt && (to.Reconciling || to.Refused || a.Execution == "" && to.Execution != "")) {
		return
	}
	refused := a.State == ack.Refused
	to.Rebuild, to.Reconciling = refused || a.State == ack.Rebuild, a.State == ack.Reconciling
	table, _ := schemas.ParseTable(a.Table)
	to.Import = batcher.Import{
		Table: table, Fingerprint: a.Fingerprint, Part: a.Part, Parts: a.Parts, Mode: a.Mode,
		File: a.File, Attempt: a.Attempt, Execution: a.Execution, Refused: refused,
	}
}

// fingerprint is of the mapping that writes files for the table; 0: there is none.
func (f *fileDelivery) fingerprint(table string) uint64 {
	if m := f.mappingOf(table); m != nil {
		return m.FileFingerprint()
	}
	return 0
}

func (f *fileDelivery) mappingOf(table string) *router.Compiled {
	for _, m := range f.lane.router.Mappings() {
		if m.Uses(schemas.Batch) && m.Table.Qualified() == table {
			return m
		}
	}
	return nil
}

// passed tells a mapping that rebuilds a generation how far a partition was read.
func (f *fileDelivery) passed(p *kafka.Partition, next int64) {
	for _, m := range f.lane.router.TopicMappings(p.Topic) {
		f.files.Passed(m.Name, assignment{p}, next)
	}
}

// parents waits for the calls of mappings that another one names in `after`:
// the immediate lane is another group, perhaps another process, and what it has
// done is what it has committed.
type parents struct {
	source *kafka.Source
	group  string              // of the immediate lane
	topics map[string][]string // by mapping: topics of its parents that go through calls
}

// newParents finds the topics of each mapping's parents.
func newParents(source *kafka.Source, mappings []*router.Compiled, group string) *parents {
	p := &parents{source: source, group: group, topics: map[string][]string{}}
	byName := map[string]*router.Compiled{}
	for _, m := range mappings {
		byName[m.Name] = m
	}
	for _, m := range mappings {
		for _, name := range m.Config.After {
			if byName[name].Uses(schemas.Immediate) {
				p.topics[m.Name] = append(p.topics[m.Name], byName[name].Config.Topics...)
			}
		}
	}
	return p
}

// Await returns once the immediate lane has confirmed what the topics of the
// mapping's parents hold at present, but for some records.
func (p *parents) Await(ctx context.Context, mapping string, but func() map[reconcile.At]bool) error {
	if len(p.topics[mapping]) == 0 {
		return nil
	}
	return p.source.AwaitGroup(ctx, p.group, p.topics[mapping], func() map[kafka.RecordPlace]bool {
		places := map[kafka.RecordPlace]bool{}
		for at := range but() {
			if a, ok := at.Partition.(assignment); ok {
				places[kafka.RecordPlace{Topic: a.Topic, Partition: a.ID, Offset: at.Offset}] = true
			}
		}
		return places
	})
}

// filed are the mappings with files, those of a bundle together and parents first,
// as the batcher wants them; otherwise in the order of the configuration.
func filed(mappings []*router.Compiled) (filed []*router.Compiled) {
	for _, m := range mappings {
		if !m.Uses(schemas.Batch) || slices.Contains(filed, m) {
			continue
		}
		if bundle := m.Bundle(); bundle != nil {
			filed = append(filed, bundle...)
			continue
		}
		filed = append(filed, m)
	}
	return filed
}

// ledgerTable is the table that the ledger knows the mapping's imports by: its own,
// or that of its bundle's first mapping.
func ledgerTable(m *router.Compiled) string {
	if bundle := m.Bundle(); bundle != nil {
		return bundle[0].Table.Qualified()
	}
	return m.Table.Qualified()
}

// ledgerTables is ledgerTable by mapping.
func ledgerTables(mappings []*router.Compiled) []string {
	tables := make([]string, len(mappings))
	for _, m := range mappings {
		tables[m.Index] = ledgerTable(m)
	}
	return tables
}

// filedTables are, by topic, the tables that the ledger knows the imports of the
// topic's records by.
func filedTables(mappings []*router.Compiled) map[string][]string {
	tables := map[string][]string{}
	for _, m := range filed(mappings) {
		for _, topic := range m.Config.Topics {
			if t := ledgerTable(m); !slices.Contains(tables[topic], t) {
				tables[topic] = append(tables[topic], t)
			}
		}
	}
	return tables
}

// request sends an import's request unless the service has named a time before which
// it wants none, and has all calls wait if the answer names one. That a table has no
// slot left is about no other request.
func request[T any](known *calls.Service, send func() (T, error)) (T, error) {
	if held := known.Held(); held > 0 {
		var none T
		return none, notYet{held}
	}
	got, err := send()
	if e, ok := errors.AsType[*service.Error](err); ok && !e.NoSlot() {
		known.Heard(err)
	}
	return got, err
}

// notYet stops a request before the time that the service has named.
type notYet struct{ held time.Duration }

var _ batcher.Failure = notYet{}

func (e notYet) Error() string {
	return fmt.Sprintf("not sent: the service wants no request for %v (Retry-After)", e.held.Round(time.Second))
}
func (notYet) Transient() bool             { return true }
func (e notYet) RetryAfter() time.Duration { return e.held }
func (notYet) Unknown() bool               { return false }
func (notYet) NoSlot() bool                { return false }
func (notYet) TooLarge() bool              { return false }
func (notYet) Reason() string              { return "" }
func (notYet) Cause() string               { return "" }

// heldGate also has a file wait, before it is sealed or its intent committed, until
// the service wants requests.
type heldGate struct {
	batcher.Gate
	service *calls.Service
}

// Wait implements batcher.Gate.
func (g heldGate) Wait(mapping string, retry bool) time.Duration {
	return max(g.Gate.Wait(mapping, retry), g.service.Held())
}
