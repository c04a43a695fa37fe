package connector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// callDelivery delivers writes as calls. Each record is pending until its own calls
// have ended.
type callDelivery struct {
	lane   *lane
	calls  *calls.Lane
	tables []schemas.Table // that it calls for

	began   time.Time
	refused atomic.Int64 // since began, when a record was last refused
}

// follows is no: what the other lane does, this one asks its ledger.
func (c *callDelivery) follows(string) bool { return false }

func (c *callDelivery) observe(*kafka.Partition, *kafka.Record, []router.Routed, bool) error {
	return nil
}

func (c *callDelivery) deliver(p *kafka.Partition, r *kafka.Record, writes, rejects []router.Routed) error {
	j := c.lane.begin(p, r, len(writes)+len(rejects))
	for i := range writes {
		w := &writes[i]
		c.calls.Submit(calls.Item{
			Mapping: w.Mapping.Name,
			Write:   w.Write,
			Origin:  &part{recordState: j, mapping: w.Mapping, op: w.Write.Op},
		})
	}
	j.reject(rejects)
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
	lane    *lane
	files   *batcher.Batcher
	peer    *peer           // nil: no key is written by both lanes
	blocked time.Time       // the disk refused a row; no record is taken before
	shared  map[string]bool // topics of which all records must be seen
	halted  []string        // by mapping: why its partitions are halted
	tables  []string        // by mapping: the table that the ledger knows its imports by
}

// diskPause is how long the lane waits after the spool could not be written.
const diskPause = time.Second

func (f *fileDelivery) ready() bool {
	f.followHalts()
	return f.files.Ready() && !time.Now().Before(f.blocked)
}

// errHalted says that a mapping takes no rows.
var errHalted = errors.New("the mapping's batch lane is halted")

func (f *fileDelivery) deliver(p *kafka.Partition, r *kafka.Record, writes, rejects []router.Routed) error {
	for i := range writes {
		if f.halts(p, writes[i].Mapping) {
			return errHalted
		}
	}
	rows := 0
	for i := range writes {
		w := &writes[i]
		if f.covers(p, w, r.Offset) {
			f.files.Covered(w.Mapping.Name, w.Write, assignment{p}, r.Offset)
			rows++
			continue // in a file that is on its way already
		}
		err := f.add(w, p, r.Offset)
		if bad, ok := errors.AsType[*schemas.ValueError](err); ok {
			if f.lane.floods.rejects(w.Mapping, bad) {
				return errHalted
			}
			w.Err = bad
			rejects = append(rejects, *w)
			continue
		}
		if err != nil {
			return f.noRoom(w.Mapping.Name, r, err)
		}
		f.lane.tracing.appended(w.Mapping.Name, p, r.Offset, f.lane.trace)
		rows++
	}
	if len(rejects) > 0 {
		j := f.lane.begin(p, r, len(rejects))
		if rows > 0 {
			p.Share(&j.entry)
		}
		j.reject(rejects)
	}
	return nil
}

func (f *fileDelivery) covers(p *kafka.Partition, w *router.Routed, offset int64) bool {
	return p.Covered(f.tables[w.Mapping.Index], offset) && (!w.Taken || w.Mapping.Fileable(&w.Write))
}

// add adds a write to the mapping's open file. One that was taken from the other
// lane and that no row can say is sent by calls, once the file has landed.
func (f *fileDelivery) add(w *router.Routed, p *kafka.Partition, offset int64) error {
	if w.Taken && (p.Resends(offset) || !w.Mapping.Fileable(&w.Write)) {
		return f.files.Take(w.Mapping.Name, w.Write, assignment{p}, offset, w.Mapping.Fileable(&w.Write))
	}
	if p.MayHaveLanded(f.tables[w.Mapping.Index], offset) {
		return f.files.Repeat(w.Mapping.Name, w.Write, assignment{p}, offset)
	}
	return f.files.Append(w.Mapping.Name, w.Write, assignment{p}, offset)
}

// can is no for a mapping that has no files: the immediate lane reads again what it
// may have left to them.
func (f *fileDelivery) can(w *router.Routed) bool {
	_, batch := w.Mapping.Lanes()
	return batch && w.Write.Key != ""
}

// halts reports that the mapping takes no rows, and halts the partition.
func (f *fileDelivery) halts(p *kafka.Partition, m *router.Compiled) bool {
	reason := f.halted[m.Index]
	if reason != "" {
		p.Halt(haltCause(m.Name), reason) // assigned since it halted
	}
	return reason != ""
}

// file takes a record that means these rows of the text and nothing else. It
// reports false for one that is not as simple: deliver sees to it.
func (f *fileDelivery) file(p *kafka.Partition, r *kafka.Record, rows []rowAhead, text []byte) bool {
	for i := range rows {
		at := rows[i].mapping.Index
		if f.halted[at] != "" || f.lane.floods.halted(rows[i].mapping) || p.Covered(f.tables[at], r.Offset) {
			return false
		}
	}
	for i := range rows {
		row := &rows[i]
		if row.encoder.File(text[row.from:row.to], assignment{p}, r.Offset) != nil {
			return false
		}
		f.lane.tracing.appended(row.mapping.Name, p, r.Offset, f.lane.trace)
		f.lane.floods.gates[row.mapping.Index].read++
	}
	return true
}

// noRoom lets the lane rest after the spool could not be written.
func (f *fileDelivery) noRoom(mapping string, r *kafka.Record, err error) error {
	f.blocked = time.Now().Add(diskPause)
	f.lane.log.Error("the spool cannot be written; the batch lane waits and tries again", "mapping", mapping,
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
	for _, m := range f.lane.Router.Mappings() {
		together := append(m.Bundle(), m)
		reads := func(p *kafka.Partition) bool {
			return slices.ContainsFunc(together, func(m *router.Compiled) bool { return slices.Contains(m.Config.Topics, p.Topic) })
		}
		if _, batch := m.Lanes(); !batch || !slices.ContainsFunc(ps, reads) {
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
	if err := f.peer.release(ctx, leaving); err != nil {
		f.lane.log.Warn("partitions go while reconciling calls for their tables are in flight", "error", err)
	}
	f.lane.source.ReadAgain(left)
}

func haltCause(mapping string) string { return "mapping " + mapping }

// followHalts pauses and resumes the partitions of mappings whose batch lane
// has halted or was released.
func (f *fileDelivery) followHalts() {
	for _, m := range f.lane.Router.Mappings() {
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

// CallFor makes one attempt for the writes of these records.
func (c laneCalls) CallFor(ctx context.Context, w *schemas.Write, retried bool, of []calls.Origin) error {
	if w.Op == schemas.Create {
		if p, ok := of[0].(*part); ok { // creates are never merged
			return c.Make(ctx, w, p.creating(retried))
		}
	}
	return c.Call(ctx, w, retried)
}

// openCalls builds the immediate lane's calls.
func (s *Sink) openCalls(l *lane) {
	mappings := s.router.Mappings()
	c := &callDelivery{lane: l, tables: calledTables(mappings), began: time.Now().Add(-upToDate)}
	pace := build.Pace(s.cfg)
	pace.MayCall, pace.Share, pace.Service = l.leased, l.share(rateOf(schemas.Immediate, mappings)), &s.service
	pace.RepeatAfter, pace.Repeats = landed*s.cfg.Service.Timeout, c.repeats
	s.calls = calls.New(pace, s.caller(), observer{s}, s.newRand())
	c.calls, l.delivery = s.calls, c
}

// takes reports whether calls for the record's tables go out: others would only wait.
// A row of the other lane supersedes what was called for its key before.
func (c *callDelivery) takes(routed []router.Routed) bool {
	for i := range routed {
		w := &routed[i]
		switch {
		case w.Err != nil:
		case w.Lane != c.lane.which && !w.Taken:
			c.calls.Superseded(&w.Write)
		case c.calls.Paused(w.Write.Table):
			c.refused.Store(int64(time.Since(c.began)))
			return false
		}
	}
	return true
}

// heldBack is what was taken in for tables before their calls failed.
func (c *callDelivery) heldBack() int64 { return int64(c.calls.HeldBack()) }

func (f *fileDelivery) heldBack() int64 { return 0 }

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

// calledTables are the tables that mappings of the immediate lane write, each once.
func calledTables(mappings []*router.Compiled) (tables []schemas.Table) {
	seen := map[schemas.Table]bool{}
	for _, m := range mappings {
		if immediate, _ := m.Lanes(); immediate && !seen[m.Table] {
			seen[m.Table] = true
			tables = append(tables, m.Table)
		}
	}
	return tables
}

// upToDate is how long ago the lane must have refused a record for it to know of all
// rows that the other lane may have sent by now.
const upToDate = 10 * time.Second

// repeats reports whether what was called last for a key of the table is its newest
// state. Of a mapping with both lanes it is unless a row was read since: that is known
// while this lane is not behind with reading. A mapping that only has files is not read.
func (c *callDelivery) repeats(t schemas.Table) bool {
	dual := false
	for _, m := range c.lane.Router.Mappings() {
		immediate, batch := m.Lanes()
		if m.Table == t && batch && !immediate {
			return false
		}
		dual = dual || m.Table == t && batch
	}
	return !dual || c.lane.source.Pending() < maxPending/2 && time.Since(c.began)-time.Duration(c.refused.Load()) > upToDate
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

// WaitStatus is why calls wait, and until when.
type WaitStatus struct {
	Table string    `json:"table,omitempty"` // empty: calls for any table
	Until time.Time `json:"until"`           // then one call is tried
	Why   string    `json:"why"`
}

func waitStatus(mappings []*router.Compiled, waits []calls.Wait) (out []WaitStatus) {
	for _, w := range waits {
		why := "calls fail, and the breaker is open"
		if w.Status != 0 {
			why = fmt.Sprintf("the service answered %d", w.Status)
		}
		out = append(out, WaitStatus{Table: router.LabelOf(mappings, w.Table), Until: w.Until, Why: why})
	}
	return out
}

// topicRoutes is what the configuration says of each topic to a lane.
func (s *Sink) topicRoutes(which schemas.Lane, followed map[string]bool) func(topic string) kafka.TopicRoutes {
	topics := map[string]kafka.TopicRoutes{}
	for _, topic := range s.router.Topics(which) {
		immediate, batch := s.router.TopicLanes(topic)
		routes := kafka.TopicRoutes{
			LaneRoutes: ack.LaneRoutes{Batch: which == schemas.Batch, Shared: immediate && batch},
			Follows:    which == schemas.Batch && followed[topic],
		}
		for _, m := range s.router.TopicMappings(topic) {
			routes.Fingerprints = append(routes.Fingerprints, m.Routes)
			lanes := map[schemas.Lane]bool{}
			lanes[schemas.Immediate], lanes[schemas.Batch] = m.Lanes()
			if !lanes[otherLane(which)] {
				routes.Alone = append(routes.Alone, m.Routes)
			}
		}
		routes.Fingerprints = slices.Clip(routes.Fingerprints)
		topics[topic] = routes
	}
	return func(topic string) kafka.TopicRoutes { return topics[topic] }
}

// executionEnded reports whether an import that a former batch lane sent has ended.
func (s *Sink) executionEnded(ctx context.Context, execution string) (bool, error) {
	r, err := request(&s.service, func() (service.Results, error) { return s.client.Results(ctx, execution) })
	if err != nil {
		return false, err
	}
	return r.Status == service.Finished || r.Status == service.Failed, nil
}
