package connector

import (
	"context"
	"slices"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/waiting"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/flood"
	"github.com/feedsink/feedsink/connector/imports"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/kafka/memory"
	"github.com/feedsink/feedsink/connector/tracing"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// rowCalls makes calls in the place of rows of auto routes. Each is made once: a row whose
// call came to nothing is in the open file, which decides what follows.
type rowCalls struct {
	calls  *calls.Lane
	router *router.Router
	floods *flood.Gates
}

// rowCall is the origin of such a call.
type rowCall struct{ contract.Call }

// Confirm implements calls.Origin.
func (c rowCall) Confirm(outcome calls.Outcome) { c.Ended(outcome.String(), nil) }

// Reject implements calls.Origin.
func (c rowCall) Reject(err error) { c.Ended("", err) }

// spareWeight is what of its route's weight a call has that may wait for all others.
const spareWeight = 1e-3

// onceOnly has a call that failed given up at its first try.
const onceOnly = time.Nanosecond

// rowLane builds the lane of calls in the place of rows; nil: no mapping has auto
// routes whose rows may be called. halts is the same lane, which starts
// no calls of a mapping that is halted or paused.
func (s *pipeline) rowLane(source *kafka.Source) (lane *calls.Lane, halts flood.Calls) {
	mappings := s.router.Mappings()
	if !slices.ContainsFunc(mappings, (*router.Compiled).HasAuto) {
		return nil, nil
	}
	pace := build.Pace(s.cfg)
	pace.MayCall, pace.Share, pace.Service = source.Leased, share(source, build.AutoRate(mappings)), &s.service
	pace.Retry.GiveUpAfter = onceOnly
	lane = calls.New(pace, s.caller(func() { lane.Spend() }), observer{s}, s.newRand())
	return lane, lane
}

// Submit implements contract.Calls. A call that may wait is of a class of its own.
func (c *rowCalls) Submit(call contract.Call) {
	item := calls.Item{Mapping: call.Mapping, Route: call.Route, Write: call.Write, Origin: rowCall{call}}
	if m := c.router.Mapping(call.Mapping); m != nil {
		item.Weight = m.Weight(call.Route)
	}
	if call.Spare {
		item.Route, item.Weight = -1-call.Route, item.Weight*spareWeight
	}
	c.calls.Submit(item)
}

// Halted implements contract.Calls.
func (c *rowCalls) Halted(name string) bool {
	m := c.router.Mapping(name)
	return m != nil && c.floods.Halted(m)
}

// Drop implements contract.Calls.
func (c *rowCalls) Drop(ctx context.Context, mapping string) error {
	return c.calls.Drop(ctx, func(o calls.Origin) bool {
		call, ok := o.(rowCall)
		return ok && call.Mapping == mapping
	})
}

// release drops the calls for mappings whose open files were dropped, and waits for those
// in flight: the tables' next owner must not be overtaken by one.
func (c *rowCalls) release(ctx context.Context, mappings []string) (err error) {
	if c == nil {
		return nil
	}
	for _, m := range mappings {
		if e := c.Drop(ctx, m); e != nil {
			err = e
		}
	}
	return err
}

// rowTables are the tables that rows of open files may be called for. Without a row no call is
// tried: what is known of the others' calls is old.
func (s *pipeline) rowTables() map[schemas.Table]bool {
	of := map[schemas.Table]bool{}
	if s.rows == nil {
		return of
	}
	for _, st := range s.files.Status() {
		if m := s.router.Mapping(st.Mapping); m.HasAuto() && st.Rows > 0 {
			of[m.Table] = true
		}
	}
	return of
}

// rowWaits are what the calls in the place of rows wait for.
func (s *pipeline) rowWaits() []calls.Wait {
	of := s.rowTables()
	if len(of) == 0 {
		return nil
	}
	return slices.DeleteFunc(s.rows.calls.Waits(), func(w calls.Wait) bool { return w.Table != (schemas.Table{}) && !of[w.Table] })
}

// heldRow is the hold of a record whose row waits for a call.
type heldRow struct {
	*part
	files   *fileDelivery
	written time.Time
	waits   bool // neither called nor refused yet
}

var _ contract.Pending = (*heldRow)(nil)

// leave notes that the row waits no more.
func (h *heldRow) leave() {
	if h.waits {
		h.waits = false
		h.partition.RowWaits(false)
	}
}

// Confirm implements contract.Pending.
func (h *heldRow) Confirm(outcome string, ended func()) {
	h.leave()
	h.told = func(bool) { ended() }
	h.count(outcome)
	h.delivered()
	h.endCalled(outcome)
}

// Reject implements contract.Pending.
func (h *heldRow) Reject(err error, ended func(stays bool)) {
	h.leave()
	h.count(calls.Rejected.String())
	h.told = ended
	h.deadLetter(writes.RefusalReason(err), err)
}

// Claim implements contract.Pending: the record is a file's like any other.
func (h *heldRow) Claim() contract.Claim {
	h.leave()
	if h.receipt != nil {
		h.files.receipts.NoteLate(h.partition, h.row())
	}
	h.ended.Store(true)
	h.trace.End("in a file")
	var kind any
	if o := h.mapping.Objective(h.route); o != nil {
		kind = o
	}
	return h.partition.ClaimPending(&h.entry, h.written, kind)
}

// row is what the row's receipt needs.
func (h *heldRow) row() *imports.Row {
	r := h.record.Load()
	return &imports.Row{
		At: imports.At{Offset: r.Offset, Part: h.receipt.part}, Parts: h.receipt.parts, Mapping: h.mapping, Op: h.op, Written: r.Timestamp.UnixMilli(), Key: h.receipt.key,
	}
}

// offers reports whether a record's one write may be called in the place of its row. A
// record that means several writes is the file's: it could end in two places.
func (f *fileDelivery) offers(in *reading, p *kafka.Partition, offset int64) bool {
	if f.rows == nil || len(in.writes) != 1 || len(in.rejects) > 0 || len(in.rows) > 0 {
		return false
	}
	m := in.writes[0].Mapping
	return m.HasAuto() && !mayHaveBeenCalled(m, p, offset)
}

// mayHaveBeenCalled reports whether a former owner may have called the record's row, and the call
// have landed behind a newer one of the immediate lane. It is a row then.
func mayHaveBeenCalled(m *router.Compiled, p *kafka.Partition, offset int64) bool {
	return m.DualLane() && m.HasAuto() && !p.CameSince(offset)
}

// offer adds the one write of a record to the open file of a mapping with auto routes.
func (f *fileDelivery) offer(w *router.Routed, parts int, p *kafka.Partition, r *kafka.Record, trace *tracing.Record) error {
	within, spare, auto := w.Mapping.Auto(w.Route)
	written := kafka.WrittenAt(r)
	return f.files.Offer(w.Mapping.Name, w.Write, imports.PartitionOf(p), r.Offset, waiting.Offer{
		Callable: auto && w.Mapping.Callable(&w.Write) && writes.Addressable(&w.Write) && p.RoomForDone(),
		Route:    w.Route, Within: within, Spare: spare, Written: written, Bytes: memory.Held(r, 1),
		Pending: func() contract.Pending {
			f.receipts.Withdraw(p, w.Mapping) // it may never be in a file
			held := f.lane.begin(p, r, 1, trace).part(w)
			held.opens(&w.Write, w.Part, parts)
			held.Wait() // it may take hours
			p.RowWaits(true)
			return &heldRow{held, f, written, true}
		},
	})
}
