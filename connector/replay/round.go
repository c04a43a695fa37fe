package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/immediate"
	"github.com/feedsink/feedsink/schemas"
)

// ErrNoAnswer ends a run whose calls are not answered. Its letters stay.
var ErrNoAnswer = errors.New("the service answers no call")

// round brings letters to their end, each step on record before the next.
//
//  1. The letters that will be sent are marked. A crash from here on leaves calls
//     of which nobody knows; the marks make the next run send the newest state.
//  2. The calls are made, and each is answered.
//  3. The logs are read to their ends as they stand then. A row that changed
//     meanwhile may have been overtaken by its call: back to 2 with its newest
//     state.
//  4. What failed again is posted as a new letter. A crash after this posts it
//     once more.
//  5. The letters are marked as done.
func (r *Replay) round(ctx context.Context, w *window, letters []*letter) error {
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
	for again := sending; len(again) > 0; {
		if err := r.send(ctx, again); err != nil {
			return err
		}
		spans, err := r.Reader.Spans(ctx, w.topics()...)
		if err != nil {
			return err
		}
		if err := r.readOn(ctx, w, spans); err != nil {
			return err
		}
		again = slices.DeleteFunc(slices.Clone(sending), func(p *part) bool { return p.changed == p.asOf })
	}
	if err := r.end(ctx, letters); err != nil {
		return err
	}
	return r.marks.save(ctx)
}

// verdict is the end of one sending.
type verdict struct {
	part  *part
	again bool // it was for what followed that the row was sent
	err   error
	to    chan<- verdict
}

// Confirm is called by the service's lane.
func (v verdict) Confirm(immediate.Outcome) { v.to <- v }

// Reject is called by the service's lane.
func (v verdict) Reject(err error) {
	v.err = err
	v.to <- v
}

// send makes a call for each part and waits for their ends.
func (r *Replay) send(ctx context.Context, parts []*part) error {
	ends := make(chan verdict, len(parts))
	open := 0
	for _, p := range parts {
		v := verdict{part: p, again: p.replaced || p.sent, to: ends}
		p.sent, p.asOf = true, p.changed
		write, ok := p.current(v.again)
		if !ok {
			p.lost = &deadletter.Letter{
				Stage: deadletter.Transforming, Code: "no_id",
				Message: "an older value may have been replayed over this record, and no call can " + p.newest.Op.String() + " without the profile's id",
			}
			continue
		}
		open++
		r.Service.Submit(immediate.Item{Mapping: p.mapping.Name, Write: write, Origin: v})
	}
	patience := time.NewTimer(r.GiveUp)
	defer patience.Stop()
	for ; open > 0; open-- {
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
	if v.err == nil {
		p.touched, p.refusal, p.lost = true, nil, nil
		if id := r.Service.ProfileID(&p.newest); id != "" {
			p.profileID = id
		}
		return true
	}
	if failure, known := errors.AsType[immediate.Failure](v.err); !known || failure.Transient() {
		p.touched, p.unanswered = true, v.err
		return false
	}
	why := r.Refused(v.err)
	switch {
	case !v.again:
		p.refusal = &why
	case p.touched:
		p.lost = &why
	}
	return true
}
