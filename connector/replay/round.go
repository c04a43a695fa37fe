package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/schemas"
)

// ErrNoAnswer ends a run whose calls are not answered. Its dead letters stay.
var ErrNoAnswer = errors.New("the service answers no call")

// round brings dead letters to their end, each step on record before the next.
//
//  1. The dead letters that will be sent are marked. A crash from here on leaves calls
//     of unknown outcome; the marks make the next run wait until they have
//     ended, and send the newest state.
//  2. The calls are made, and each is answered.
//  3. The logs are read to their ends as they stand then. A row that changed
//     meanwhile may have been overtaken by its call: back to 2 with its newest
//     state.
//  4. What failed again is posted as a new dead letter, unless nearly all dead letters of its
//     mapping do: then they stay, and the run stops. A crash after this posts it
//     once more.
//  5. The dead letters are marked as done. Those with an attempt that may still be
//     applied wait for the window's end. Those of which nothing was applied are
//     not marked as sent any more.
func (r *Replay) round(ctx context.Context, w *window, letters []*deadLetter) error {
	r.countRead(letters)
	var sending []*part
	for _, l := range letters {
		for _, p := range l.parts {
			if p.needsCall() {
				sending = append(sending, p)
				r.marks.tried(l.Partition, l.Offset)
			}
		}
	}
	if err := r.marks.save(ctx); err != nil {
		return err
	}
	if err := r.deliver(ctx, w, sending); err != nil {
		return err
	}
	letters = slices.Clone(letters)
	w.late = append(w.late, slices.DeleteFunc(slices.Clone(letters), func(l *deadLetter) bool { return !l.unsure() })...)
	letters = slices.DeleteFunc(letters, (*deadLetter).unsure)
	if err := r.end(ctx, letters); err != nil {
		return err
	}
	for _, l := range letters {
		if !l.touched() {
			r.marks.untried(l.Partition, l.Offset)
		}
	}
	return cmp.Or(r.marks.save(ctx), r.flooded())
}

// deliver sends the newest state of rows until nothing came between.
func (r *Replay) deliver(ctx context.Context, w *window, sending []*part) error {
	for again := sending; len(again) > 0; {
		if err := r.send(ctx, again); err != nil {
			return err
		}
		if err := r.readToEnd(ctx, w); err != nil {
			return err
		}
		again = slices.DeleteFunc(slices.Clone(sending), func(p *part) bool { return p.changed == p.asOf })
	}
	return nil
}

// readToEnd takes up what followed the dead letters' records until now.
func (r *Replay) readToEnd(ctx context.Context, w *window) error {
	spans, err := r.Reader.Spans(ctx, w.topics()...)
	if err != nil {
		return err
	}
	return r.readOn(ctx, w, spans)
}

// settle sends the rows once more of which an attempt may have been applied after
// the one that was answered, as soon as none can be any more.
func (r *Replay) settle(ctx context.Context, w *window) error {
	if len(w.late) == 0 {
		return nil
	}
	r.Log.Warn("some calls were answered at a later try only, and an earlier one may still be applied; waiting, then sending their rows once more",
		"letters", len(w.late), "wait", r.Late)
	if err := r.Wait(ctx, r.Late); err != nil {
		return err
	}
	if err := r.readToEnd(ctx, w); err != nil {
		return err
	}
	var sending []*part
	for _, l := range w.late {
		for _, p := range l.parts {
			if p.unsure {
				p.unsure = false
				sending = append(sending, p)
			}
		}
	}
	if err := r.deliver(ctx, w, sending); err != nil {
		return err
	}
	for _, p := range sending {
		if p.unsure && p.unanswered == nil {
			p.unanswered = errUnsure
		}
	}
	if err := r.end(ctx, w.late); err != nil {
		return err
	}
	return cmp.Or(r.marks.save(ctx), r.flooded())
}

// errUnsure leaves a dead letter to another run.
var errUnsure = errors.New("the service answered at a later try only, again; an earlier one may still be applied")

// unsure reports whether an attempt at some part may still be applied.
func (l *deadLetter) unsure() bool {
	return slices.ContainsFunc(l.parts, func(p *part) bool { return p.unsure && p.unanswered == nil })
}

// touched reports whether the service may hold some part.
func (l *deadLetter) touched() bool {
	return l.tried || slices.ContainsFunc(l.parts, func(p *part) bool { return p.touched })
}

// verdict is the end of one sending.
type verdict struct {
	part  *part
	again bool // it was for what followed that the row was sent
	names bool // it was for the profile's id only
	err   error
	to    chan<- verdict
}

// Confirm is called by the service's lane.
func (v verdict) Confirm(calls.Outcome) { v.to <- v }

// Reject is called by the service's lane.
func (v verdict) Reject(err error) {
	v.err = err
	v.to <- v
}

// send makes a call for each part and waits for their ends. A profile that is to be
// deleted and whose id is unknown takes two.
func (r *Replay) send(ctx context.Context, parts []*part) error {
	var unnamed []*part
	for _, p := range parts {
		p.stuck, p.unanswered = "", nil
		if w, ok := p.current(true); !ok && p.nameable() {
			unnamed = append(unnamed, p)
			w.Op, w.Cells = schemas.Upsert, []schemas.Cell{p.keyCell}
			p.name = w
		}
	}
	if err := r.submit(ctx, unnamed, func(p *part) (schemas.Write, verdict) {
		return p.name, verdict{part: p, names: true}
	}); err != nil {
		return err
	}
	var sending []*part
	for _, p := range parts {
		again := p.replaced || p.sent
		if _, ok := p.current(again); !ok {
			p.sent, p.asOf = true, p.changed
			p.stuck = p.needsImport()
			continue
		}
		sending = append(sending, p)
	}
	return r.submit(ctx, sending, func(p *part) (schemas.Write, verdict) {
		v := verdict{part: p, again: p.replaced || p.sent}
		p.sent, p.asOf = true, p.changed
		w, _ := p.current(v.again)
		return w, v
	})
}

// submit makes the calls and returns once each is answered.
func (r *Replay) submit(ctx context.Context, parts []*part, call func(*part) (schemas.Write, verdict)) error {
	ends := make(chan verdict, len(parts))
	for _, p := range parts {
		write, v := call(p)
		v.to = ends
		r.Service.Submit(calls.Item{Mapping: p.mapping.Name, Write: write, Origin: v})
	}
	patience := time.NewTimer(r.GiveUp)
	defer patience.Stop()
	for range parts {
		select {
		case v := <-ends:
			if r.judge(v) {
				patience.Reset(r.GiveUp)
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			return fmt.Errorf("%w for %v; the letters stay as they are, run again to go on", ErrNoAnswer, r.GiveUp)
		}
	}
	return nil
}

// current is the call that brings the row to its newest state; false if none
// can. The write is the service's from then on.
func (p *part) current(again bool) (w schemas.Write, ok bool) {
	w = p.newest
	w.Cells = slices.Clone(w.Cells)
	if again && w.Op == schemas.Create {
		w.Op = schemas.Upsert // the row may be there by now
	}
	if !w.Table.Custom && w.ProfileID == "" {
		w.ProfileID = p.profileID
	}
	return w, callable(&w)
}

// judge takes down how a sending ended and reports whether the service answered.
func (r *Replay) judge(v verdict) (answered bool) {
	p := v.part
	p.unanswered = nil
	p.unsure = r.Service.Unsure(&p.newest) || p.unsure
	if v.err == nil {
		p.touched, p.refusal, p.lost = true, nil, nil
		if id := r.Service.ProfileID(&p.newest); id != "" {
			p.profileID = id
		}
		if !v.names {
			r.count(p.whose(), deadletter.Delivering, nil)
		}
		return true
	}
	if failure, known := errors.AsType[calls.Failure](v.err); !known || failure.Transient() {
		p.touched, p.unanswered = true, v.err
		return false
	}
	why := r.Refused(v.err)
	switch {
	case v.names: // without an id it is stuck
	case !v.again:
		p.refusal = &why
		r.count(p.whose(), deadletter.Delivering, &why)
	case p.touched:
		p.lost = &why
		r.count(p.whose(), deadletter.Delivering, &why)
	}
	return true
}
