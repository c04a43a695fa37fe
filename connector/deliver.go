package connector

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/imports"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/tables"
	"github.com/feedsink/feedsink/connector/tracing"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// callDelivery delivers writes as calls. Each record is pending until its own calls
// have ended.
type callDelivery struct {
	lane   *laneBase
	calls  *calls.Lane
	tables []schemas.Table // that it calls for
	reads  *progress
}

// follows is no: what the other lane does, this one asks its ledger.
func (c *callDelivery) follows(string) bool { return false }

func (c *callDelivery) observe(*kafka.Partition, *kafka.Record, []router.Routed, bool) error {
	return nil
}

func (c *callDelivery) deliver(p *kafka.Partition, r *kafka.Record, in *reading, trace *tracing.Record) error {
	j := c.lane.begin(p, r, len(in.writes)+len(in.rejects), trace)
	for i := range in.writes {
		w := &in.writes[i]
		part := j.part(w)
		part.opens(&w.Write, w.Part, in.parts)
		c.calls.Submit(calls.Item{
			Mapping: w.Mapping.Name,
			Route:   w.Route,
			Weight:  w.Mapping.Weight(w.Route),
			Write:   w.Write,
			Origin:  part,

			Unchanged: w.Mapping.Unchanged(),
		})
	}
	j.reject(in.rejects, in.parts)
	return nil
}

// can is no for what a call cannot say: only a file can have written it.
func (c *callDelivery) can(w *router.Routed) bool { return w.Mapping.Callable(&w.Write) }

func (c *callDelivery) covers(*kafka.Partition, *router.Routed, int64) bool { return false }

func (c *callDelivery) assigned([]*kafka.Partition) {}

func (c *callDelivery) passed(*kafka.Partition, int64) {}

// release forgets what was not started and waits for the calls in flight, so
// that the partitions' next owner can't be overtaken by one.
func (c *callDelivery) release(ctx context.Context, ps []*kafka.Partition) {
	gone := make(map[*kafka.Partition]bool, len(ps))
	for _, p := range ps {
		gone[p] = true
	}
	defer c.lane.missing.release(gone)
	err := c.calls.Drop(ctx, func(o calls.Origin) bool { return gone[partitionOf(o)] })
	if err != nil {
		c.lane.log.Warn("partitions go while calls for them are in flight", "error", err)
	}
}

// fileDelivery delivers writes as rows of files. A file's claim holds its records;
// they need no memory one by one.
type fileDelivery struct {
	lane    *laneBase
	files   *batcher.Batcher
	peer    *imports.Peer // nil: no key is written by both lanes
	rows    *rowCalls     // nil: no row may be called
	blocked time.Time     // the disk refused a row; no record is taken before
	disk    atomic.Pointer[diskRefusal]
	shared  map[string]bool // topics of which all records must be seen
	halted  []string        // by mapping: why its partitions are halted
	tables  []string        // by mapping: the table that the ledger knows its imports by

	receipts *imports.Receipts
}

// diskRefusal is when the disk last refused a row, and why.
type diskRefusal struct {
	at  time.Time
	err error
}

// diskPause is how long the lane waits after the spool could not be written.
const diskPause = time.Second

func (f *fileDelivery) ready() bool {
	f.followHalts()
	return f.files.Ready() && !time.Now().Before(f.blocked)
}

// errHalted says that a mapping takes no rows.
var errHalted = errors.New("the mapping's batch lane is halted")

func (f *fileDelivery) deliver(p *kafka.Partition, r *kafka.Record, in *reading, trace *tracing.Record) error {
	for i := range in.writes {
		if f.halts(p, in.writes[i].Mapping) {
			return errHalted
		}
	}
	countObjectives(p, in)
	several := len(in.rows)+len(in.writes) > 1
	if several {
		p.AddingRows(r.Offset)
	}
	for i := range in.rows {
		if err := f.addAhead(i, in, p, r, trace); err != nil {
			return err
		}
	}
	rows, rejects := 0, in.rejects
	for i := range in.writes {
		w := &in.writes[i]
		if f.covers(p, w, r.Offset) {
			p.TakeCovered(f.tables[w.Mapping.Index], r.Offset)
			f.files.Covered(w.Mapping.Name, w.Write, imports.PartitionOf(p), r.Offset)
			rows++
			continue // in a file that is on its way already
		}
		err := f.addRow(w, in, p, r, trace)
		if errors.Is(err, batcher.ErrBusy) {
			return err // soon there is room behind it
		}
		if bad, ok := errors.AsType[*schemas.ValueError](err); ok {
			f.receipts.Withdraw(p, w.Mapping)
			if f.lane.floods.Rejects(w.Mapping, bad) {
				return errHalted
			}
			w.Err = bad
			rejects = append(rejects, *w)
			continue
		}
		if err != nil {
			return f.noRoom(w.Mapping.Name, r, err)
		}
		f.lane.spans.Appended(w.Mapping.Name, p, r.Offset, trace)
		rows++
	}
	if several {
		p.RowsAdded()
	}
	if len(rejects) == 0 {
		trace.End("in a file")
		return nil
	}
	j := f.lane.begin(p, r, len(rejects), trace)
	if rows > 0 {
		p.Share(&j.entry)
	}
	j.reject(rejects, in.parts)
	return nil
}

// countObjectives has the record that is taken now counted under the objectives of its rows.
func countObjectives(p *kafka.Partition, in *reading) {
	for i := range in.rows {
		if o := in.rows[i].objective; o != nil {
			p.CountAs(o)
		}
	}
	for i := range in.writes {
		if o := in.writes[i].Mapping.Objective(in.writes[i].Route); o != nil {
			p.CountAs(o)
		}
	}
}

// addAhead adds the i-th of the rows that were read ahead.
func (f *fileDelivery) addAhead(i int, in *reading, p *kafka.Partition, r *kafka.Record, trace *tracing.Record) error {
	row := &in.rows[i]
	err := f.note(p, r, in, i)
	if err == nil {
		err = row.encoder.File(in.from.text[row.from:row.to], imports.PartitionOf(p), r.Offset)
	}
	if err != nil {
		return f.noRoom(row.mapping.Name, r, err)
	}
	f.lane.spans.Appended(row.mapping.Name, p, r.Offset, trace)
	return nil
}

// addRow adds a write as a row, which may be called instead where its route is auto.
func (f *fileDelivery) addRow(w *router.Routed, in *reading, p *kafka.Partition, r *kafka.Record, trace *tracing.Record) error {
	if err := f.noteWrite(p, r, w, in.parts); err != nil {
		return err
	}
	if f.offers(in, p, r.Offset) && !w.Taken {
		return f.offer(w, in.parts, p, r, trace)
	}
	return f.add(w, p, r.Offset)
}

// note notes the i-th row that was read ahead, for its receipt.
func (f *fileDelivery) note(p *kafka.Partition, r *kafka.Record, in *reading, i int) error {
	if f.receipts == nil {
		return nil
	}
	return f.receipts.Note(p, &imports.Row{
		At: imports.At{Offset: r.Offset, Part: i}, Parts: in.parts, Mapping: in.rows[i].mapping, Op: in.rows[i].op, Written: r.Timestamp.UnixMilli(), Key: in.from.keys[in.first+i],
	})
}

// noteWrite is note for a write.
func (f *fileDelivery) noteWrite(p *kafka.Partition, r *kafka.Record, w *router.Routed, parts int) error {
	if f.receipts == nil {
		return nil
	}
	row := f.receipts.Row(w, r, w.Part, parts)
	return f.receipts.Note(p, &row)
}

// takesRows reports whether rows that were read ahead go into the open files. Else the
// record is read in its turn, as any other.
func (f *fileDelivery) takesRows(p *kafka.Partition, c *chunk, rows []rowAhead, offset int64) bool {
	for i := range rows {
		at := rows[i].mapping.Index
		if f.halted[at] != "" || p.Covered(f.tables[at], offset) {
			return false
		}
		if rows[i].encoder.Whole(c.text[rows[i].from:rows[i].to], rows[i].auto) {
			return false
		}
	}
	return true
}

func (f *fileDelivery) covers(p *kafka.Partition, w *router.Routed, offset int64) bool {
	return p.Covered(f.tables[w.Mapping.Index], offset) && (!w.Taken || w.Mapping.Fileable(&w.Write))
}

// add adds a write to the mapping's open file. One that was taken from the other
// lane and that no row can say is sent by calls, once the file has landed.
func (f *fileDelivery) add(w *router.Routed, p *kafka.Partition, offset int64) error {
	if w.Taken && (p.Resends(offset) || !w.Mapping.Fileable(&w.Write)) {
		return f.files.Take(w.Mapping.Name, w.Write, imports.PartitionOf(p), offset, w.Mapping.Fileable(&w.Write))
	}
	if p.MayHaveLanded(f.tables[w.Mapping.Index], offset) || mayHaveBeenCalled(w.Mapping, p, offset) {
		return f.files.Repeat(w.Mapping.Name, w.Write, imports.PartitionOf(p), offset)
	}
	return f.files.Append(w.Mapping.Name, w.Write, imports.PartitionOf(p), offset)
}

// can is no for a mapping that has no files: the immediate lane reads again what it
// may have left to them.
func (f *fileDelivery) can(w *router.Routed) bool {
	return w.Mapping.Uses(schemas.Batch) && w.Write.Key != ""
}

// halts reports that the mapping takes no rows, and halts the partition.
func (f *fileDelivery) halts(p *kafka.Partition, m *router.Compiled) bool {
	reason := f.halted[m.Index]
	if reason != "" {
		p.Halt(haltCause(m.Name), reason) // assigned since it halted
	}
	return reason != ""
}

// noRoom lets the lane rest after the spool could not be written.
func (f *fileDelivery) noRoom(mapping string, r *kafka.Record, err error) error {
	f.blocked = time.Now().Add(diskPause)
	f.disk.Store(&diskRefusal{time.Now(), err})
	f.lane.log.Debug("the spool cannot be written; the batch lane waits and tries again", "mapping", mapping,
		"topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "wait", diskPause, "error", err)
	return err
}

// release drops the open files of the tables that go and hands their imports
// over; a file that is being sent is waited for, and so are the calls that
// reconcile keys of both lanes. All partitions of a table go together; where some stay behind, one of its topics having been created again,
// their records are read again.
func (f *fileDelivery) release(ctx context.Context, ps []*kafka.Partition) {
	var leaving []string
	var left []*kafka.Partition
	for _, m := range f.lane.router.Mappings() {
		together := append(m.Bundle(), m)
		reads := func(p *kafka.Partition) bool {
			return slices.ContainsFunc(together, func(m *router.Compiled) bool { return slices.Contains(m.Config.Topics, p.Topic) })
		}
		if !m.Uses(schemas.Batch) || !slices.ContainsFunc(ps, reads) {
			continue
		}
		leaving = append(leaving, m.Name)
		for _, p := range f.lane.source.Partitions() {
			if reads(p) && !slices.Contains(ps, p) {
				left = append(left, p)
			}
		}
	}
	f.files.HandOver(ctx, leaving...) // from here on none of their imports asks for a call
	if err := f.peer.Release(ctx, leaving); err != nil {
		f.lane.log.Warn("partitions go while reconciling calls for their tables are in flight", "error", err)
	}
	if err := f.rows.release(ctx, leaving); err != nil {
		f.lane.log.Warn("partitions go while calls in the place of their rows are in flight", "error", err)
	}
	f.receipts.Release(ps)
	f.lane.source.ReadAgain(left)
}

func haltCause(mapping string) string { return "mapping " + mapping }

// followHalts pauses and resumes the partitions of mappings whose batch lane
// has halted or was released.
func (f *fileDelivery) followHalts() {
	for _, m := range f.lane.router.Mappings() {
		reason, _ := f.files.Halted(m.Name)
		if reason == f.halted[m.Index] {
			continue
		}
		f.halted[m.Index] = reason
		for _, p := range f.lane.source.Partitions() {
			switch {
			case !slices.Contains(m.Config.Topics, p.Topic):
			case reason != "":
				p.Halt(haltCause(m.Name), reason)
			default:
				p.Resume(haltCause(m.Name))
			}
		}
	}
}

// laneCalls are the immediate lane's: of a create it is known when its record was
// written and its partition assigned.
type laneCalls struct{ writes.Operations }

// Call makes one attempt for the writes of these records.
func (c laneCalls) Call(ctx context.Context, w *schemas.Write, try calls.Try) error {
	c.May = try.May
	if w.Op == schemas.Create {
		if p, ok := try.Of[0].(*part); ok { // creates are never merged
			return c.Operations.Call(ctx, w, p.creating(try.Retried))
		}
	}
	return c.Operations.Call(ctx, w, writes.Create{Unsure: try.Retried})
}

// caller makes the calls of a lane; spend is told of each beyond the first of an attempt.
func (s *pipeline) caller(spend func()) calls.Caller {
	made := laneCalls{writes.Operations{Client: s.client, Spend: spend}}
	if s.tracer == nil {
		return made
	}
	return tracedCalls{made, s.tracer, s.router.Mappings()}
}

// tracedCalls is calls with a span for each.
type tracedCalls struct {
	laneCalls
	tracer   *tracing.Tracer
	mappings []*router.Compiled
}

// Call makes one attempt for the writes of these records.
func (c tracedCalls) Call(ctx context.Context, w *schemas.Write, try calls.Try) error {
	var records []*tracing.Record
	for _, o := range try.Of {
		if p, ok := o.(*part); ok && p.trace != nil {
			records = append(records, p.trace)
		}
	}
	if len(records) == 0 {
		return c.laneCalls.Call(ctx, w, try)
	}
	table := router.LabelOf(c.mappings, w.Table)
	ctx, call := c.tracer.Call(ctx, w.Op.String()+" "+table, records,
		attribute.String("feedsink.table", table), attribute.String("feedsink.op", w.Op.String()),
		attribute.Int("feedsink.writes", len(try.Of)), attribute.Bool("feedsink.retried", try.Retried))
	err := c.laneCalls.Call(ctx, w, try)
	call.End(err, tracing.StatusOf(err))
	return err
}

// openCalls builds the immediate lane.
func (s *pipeline) openCalls(source *kafka.Source) *lane {
	mappings := s.router.Mappings()
	reads := &progress{source: source, mappings: mappings, began: time.Now().Add(-upToDate)}
	pace := build.Pace(s.cfg)
	pace.MayCall, pace.Share, pace.Service = source.Leased, share(source, build.RateOf(schemas.Immediate, mappings)), &s.service
	pace.RepeatAfter, pace.Repeats = landed*s.cfg.Service.Timeout, reads.repeats
	if slices.ContainsFunc(mappings, func(m *router.Compiled) bool { return m.Unchanged() > 0 }) {
		// A former owner may give up a call of its own up to service.timeout after it has lost the partition.
		pace.Remember = calls.Remember{Bytes: int64(s.cfg.Memory.Unchanged), Settled: (landed + 1) * s.cfg.Service.Timeout}
	}
	s.calls = calls.New(pace, s.caller(func() { s.calls.Spend() }), observer{s}, s.newRand())
	base := s.laneBase(schemas.Immediate, source, s.calls)
	base.calls = s.calls
	s.missing = newMissing(source, s.router, s.writers, base.log)
	base.missing = s.missing
	return &lane{laneBase: base, Reader: s.reader(), delivery: &callDelivery{base, s.calls, tables.Called(mappings), reads}, parts: partsOf(mappings)}
}

// supersede tells that the other lane's rows come behind what was called for their keys
// before. So do those of records that were confirmed before a restart: what is older may not
// have been.
func (c *callDelivery) supersede(routed []router.Routed) {
	for i := range routed {
		if w := &routed[i]; w.Err == nil && w.Lane != c.lane.which && !w.Taken {
			c.calls.Superseded(&w.Write)
		}
	}
}

func (f *fileDelivery) supersede([]router.Routed) {}

// takes reports whether calls for the record's tables go out: others would only wait.
func (c *callDelivery) takes(routed []router.Routed) bool {
	for i := range routed {
		w := &routed[i]
		if w.Err == nil && (w.Lane == c.lane.which || w.Taken) && c.calls.Paused(w.Write.Table) {
			c.reads.refuse()
			return false
		}
	}
	return true
}

// heldBack is what was taken in for tables before their calls failed.
func (c *callDelivery) heldBack() int64 { return int64(c.calls.HeldBack()) }

// heldBack is what waits for calls in the place of rows, which has a bound of its own.
func (f *fileDelivery) heldBack() int64 { return int64(f.files.Waiting()) }

func (f *fileDelivery) takes([]router.Routed) bool { return true }

// ready reports whether calls for any table go out.
func (c *callDelivery) ready() bool {
	for _, t := range c.tables {
		if !c.calls.Paused(t) {
			return true
		}
	}
	return len(c.tables) == 0
}

// progress is how far the immediate lane is with reading.
type progress struct {
	source   *kafka.Source
	mappings []*router.Compiled
	began    time.Time
	refused  atomic.Int64 // since began, when a record was last refused
}

func (p *progress) refuse() { p.refused.Store(int64(time.Since(p.began))) }

// upToDate is how long ago the lane must have refused a record for it to know of all
// rows that the other lane may have sent by now.
const upToDate = 10 * time.Second

// repeats reports whether what was called last for a key of the table is its newest
// state. Of a mapping with both lanes it is unless a row was read since: that is known
// while this lane is not behind with reading. A mapping that only has files is not read.
func (p *progress) repeats(t schemas.Table) bool {
	dual := false
	for _, m := range p.mappings {
		if m.Table == t && m.Uses(schemas.Batch) && !m.Uses(schemas.Immediate) {
			return false
		}
		dual = dual || m.Table == t && m.Uses(schemas.Batch)
	}
	return !dual || p.source.Pending() < maxPending/2 && time.Since(p.began)-time.Duration(p.refused.Load()) > upToDate
}

// landed is how long after it was given up a call may still reach the table, in
// multiples of service.timeout.
const landed = 3

// ofPartition stands for the origins of a partition's writes where these must not
// keep the records in memory.
type ofPartition struct{ partition *kafka.Partition }

func (ofPartition) Confirm(calls.Outcome) {}
func (ofPartition) Reject(error)          {}

// Lasting is the part's partition.
func (p *part) Lasting() calls.Origin { return ofPartition{p.partition} }

// partitionOf is the partition that an origin in the immediate lane is of.
func partitionOf(o calls.Origin) *kafka.Partition {
	if of, ok := o.(ofPartition); ok {
		return of.partition
	}
	return o.(*part).partition
}

// releaseTime is how long partitions that are given back wait for calls under way:
// as long as a call may take, and a little for its token.
func releaseTime(timeout time.Duration) time.Duration { return timeout + 5*time.Second }

// DrainTime is what stopping may take: the calls under way, the last commit and leaving
// the groups.
func DrainTime(cfg *config.Config) time.Duration {
	return kafka.LeaveTime(releaseTime(cfg.Service.Timeout))
}

// assigned takes over what former owners of the partitions began.
func (f *fileDelivery) assigned(ps []*kafka.Partition) {
	for _, p := range ps {
		for _, m := range f.lane.router.TopicMappings(p.Topic) {
			f.files.Begin(m.Name)
		}
	}
	imports.Adopter{Files: f.files, Mappings: f.lane.router.Mappings(), Log: f.lane.log}.Assigned(ps)
}

// passed tells a mapping that rebuilds a generation how far a partition was read.
func (f *fileDelivery) passed(p *kafka.Partition, next int64) {
	for _, m := range f.lane.router.TopicMappings(p.Topic) {
		f.files.Passed(m.Name, imports.PartitionOf(p), next)
	}
}
