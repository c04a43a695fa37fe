package batcher

import (
	"context"
	"errors"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/waiting"
	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/schemas"
)

// lanesCalls are calls in the place of rows, of one life of the batch lane's process. They
// are guarded by lanes.mu.
type lanesCalls struct {
	ctx    context.Context //nolint:containedctx // of that life
	flying map[*flyingCall]bool
}

// autoCalls makes them.
type autoCalls struct{ *lanesOwner }

// Halted implements Calls.
func (autoCalls) Halted(string) bool { return false }

// lanesPending is the hold of a record that may be called.
type lanesPending struct {
	p     *lanesPartition
	entry ack.Entry
	key   string
}

// offer is what the pipeline does with a row that may be called.
func (o *lanesOwner) offer(mapping string, w lanesWrite, at int64) error {
	p := o.p
	o.mu.Lock()
	spare := o.rnd.IntN(4) > 0
	o.mu.Unlock()
	callable := w.Table.Custom || w.Op == schemas.Upsert
	return o.batcher.Offer(mapping, w.Write, p, at, waiting.Offer{
		Callable: callable, Spare: spare, Within: time.Minute, Written: time.Now(), Bytes: 1,
		Pending: func() contract.Pending {
			o.mu.Lock()
			defer o.mu.Unlock()
			h := &lanesPending{p: p, key: w.Key}
			p.tracker.Track(&h.entry, at)
			return h
		},
	})
}

func (h *lanesPending) Merged() {}

func (h *lanesPending) Confirm(_ string, ended func()) {
	o := h.p.o
	o.mu.Lock()
	if at := int(h.entry.Offset()); o.tried[h.key] < at && !h.p.dead {
		o.t.Errorf("record %d of %s: got confirmed while the table has met record %d at most", at, h.key, o.tried[h.key])
	}
	o.say("record %d is confirmed by its call", h.entry.Offset())
	o.called.Add(1)
	h.p.tracker.Confirm(&h.entry)
	o.mu.Unlock()
	ended()
}

func (h *lanesPending) Hold(error) bool { return false }

func (h *lanesPending) Reject(_ error, ended func(bool)) {
	o, at := h.p.o, h.entry.Offset()
	o.mu.Lock()
	if !o.rowsToo && (o.log[at].Op != schemas.Patch || o.version == nil || o.version.shared()) {
		o.t.Errorf("record %d of %s: got refused for good, want none but patches to be, and where both lanes write by the file alone", at, h.key)
	}
	if !o.gone && !h.p.dead {
		o.dead[at] = true
	}
	h.p.tracker.Confirm(&h.entry)
	o.mu.Unlock()
	ended(false)
}

func (h *lanesPending) Claim() Claim {
	h.p.o.mu.Lock()
	defer h.p.o.mu.Unlock()
	c := h.p.tracker.Claim(h.entry.Offset())
	h.p.tracker.Share(&h.entry)
	h.p.tracker.Confirm(&h.entry)
	return &lanesClaim{h.p, c}
}

// Submit implements Calls.
func (o autoCalls) Submit(c contract.Call) {
	f := &flyingCall{Call: c, ended: make(chan struct{})}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.auto.flying == nil {
		o.auto.flying = map[*flyingCall]bool{}
	}
	o.auto.flying[f] = true
	go func() {
		_ = o.linger(o.auto.ctx, 4*time.Second)
		o.mu.Lock()
		dropped := f.dropped || o.gone
		f.started = !dropped
		o.mu.Unlock()
		if dropped {
			return
		}
		defer close(f.ended)
		var err error
		if o.chance(10) { // no answer, and it lands late
			err = errAway
			go o.landLate(c.Write)
		} else {
			err = o.call(o.auto.ctx, &c.Write, "auto")
		}
		if errors.Is(err, errAbsent) {
			err = &refusal{}
		}
		o.mu.Lock()
		delete(o.auto.flying, f)
		gone := o.gone
		o.mu.Unlock()
		if !gone {
			c.Ended("applied", err)
		}
	}()
}

// landLate lands a call within cfg.LandsWithin, unless the process is killed before.
func (o autoCalls) landLate(w schemas.Write) {
	_ = o.linger(o.auto.ctx, 5*time.Second)
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.gone {
		o.say("auto's call of %v %s %s lands late: %v", w.Op, w.Key, cellsOf(&w), o.land(&w, schemas.Immediate))
	}
}

// Drop implements Calls.
func (o autoCalls) Drop(ctx context.Context, _ string) error {
	return dropFlying(ctx, &o.mu, o.auto.flying)
}
