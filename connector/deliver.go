package connector

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/kafka"
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
