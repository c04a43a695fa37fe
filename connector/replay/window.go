package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/schemas"
)

// window is dead letters that are looked at together, and the rows they are about.
type window struct {
	deadLetters []*deadLetter
	places      map[kafka.Place]*origin
	tail        *kafka.Tail
	late        []*deadLetter // an attempt at them may still be applied
}

// origin is a partition that dead letters of the window came from.
type origin struct {
	rows map[row][]*part
	at   map[int64][]*deadLetter // by the offset of their record
}

// window replays dead letters, or with DryRun finds out what would become of them.
func (r *Replay) window(ctx context.Context, letters []*deadLetter) error {
	if len(letters) == 0 {
		return nil
	}
	w := &window{deadLetters: letters, places: map[kafka.Place]*origin{}}
	for _, l := range letters {
		if err := r.plan(l); err != nil {
			return err
		}
		w.add(l)
	}
	if err := r.outwait(ctx, letters); err != nil {
		return err
	}
	spans, err := r.Reader.Spans(ctx, w.topics()...)
	if err != nil {
		return err
	}
	// Asked for before anything is read: what is confirmed by now is in the log.
	confirmed, err := r.confirmed(ctx)
	if err != nil {
		return err
	}
	if err := w.open(r.Reader, spans); err != nil {
		return err
	}
	defer w.tail.Close()
	if err := r.readOn(ctx, w, spans); err != nil {
		return err
	}
	w.deadLetters = slices.DeleteFunc(w.deadLetters, func(l *deadLetter) bool {
		why, message := r.unready(l, spans[place(l.Record)], confirmed)
		if why == "" {
			why, message = r.obstacle(l)
		}
		if why != "" {
			r.report.note(l, Left, why, message)
		}
		return why != ""
	})
	for round := range slices.Chunk(w.deadLetters, max(r.Round, 1)) {
		if r.DryRun {
			r.foresee(round)
			continue
		}
		if err := r.round(ctx, w, round); err != nil {
			return err
		}
		if r.Progress != nil {
			r.Progress(r.report)
		}
	}
	return r.settle(ctx, w)
}

// outwait returns once the calls have ended that a run made which did not: only
// what is sent after them stays.
func (r *Replay) outwait(ctx context.Context, letters []*deadLetter) error {
	wait := time.Until(r.begun.Add(r.Late))
	if r.DryRun || wait <= 0 || !slices.ContainsFunc(letters, func(l *deadLetter) bool { return l.tried }) {
		return nil
	}
	r.Log.Warn("an earlier run did not end: calls that it made may still be applied; waiting, then sending their rows again", "wait", wait.Round(time.Second))
	return r.Wait(ctx, wait)
}

func place(rec *deadletter.Record) kafka.Place {
	return kafka.Place{Topic: rec.Topic, Partition: rec.Partition}
}

// add makes the dead letter's rows known. A dead letter that no mapping reads is left
// without a look at its topic, which may be gone.
func (w *window) add(l *deadLetter) {
	if len(l.parts) == 0 {
		return
	}
	at := place(l.Record)
	o := w.places[at]
	if o == nil {
		o = &origin{rows: map[row][]*part{}, at: map[int64][]*deadLetter{}}
		w.places[at] = o
	}
	o.at[l.Record.Offset] = append(o.at[l.Record.Offset], l)
	for _, p := range l.parts {
		if p.refusal == nil && p.newest.Key != "" { // a record without a business key has no row yet
			o.rows[rowOf(&p.newest)] = append(o.rows[rowOf(&p.newest)], p)
		}
	}
}

func (w *window) topics() []string {
	topics := map[string]bool{}
	for p := range w.places {
		topics[p.Topic] = true
	}
	return slices.Sorted(maps.Keys(topics))
}

// open begins to read each partition at the first of the dead letters' records.
func (w *window) open(reader *kafka.Reader, spans map[kafka.Place]kafka.Span) (err error) {
	from := map[kafka.Place]int64{}
	for p, o := range w.places {
		span, exists := spans[p]
		if !exists {
			continue
		}
		first := slices.Min(slices.Collect(maps.Keys(o.at)))
		from[p] = min(max(first, span.From), span.To)
	}
	w.tail, err = reader.Tail(from)
	return err
}

// readOn takes up what followed the dead letters' records up to the end of spans.
func (r *Replay) readOn(ctx context.Context, w *window, spans map[kafka.Place]kafka.Span) error {
	ends := make(map[kafka.Place]int64, len(spans))
	for p, s := range spans {
		ends[p] = s.To
	}
	return w.tail.Until(ctx, ends, func(rec *deadletter.Record) error { return r.look(w.places[place(rec)], rec) })
}

// look takes up one record of a partition that dead letters came from.
func (r *Replay) look(o *origin, rec *deadletter.Record) error {
	for _, l := range o.at[rec.Offset] {
		l.found = sameRecord(rec, l.Record)
	}
	if len(o.rows) == 0 {
		return nil
	}
	decoded, err := r.Decode(rec)
	if _, bad := errors.AsType[*schemas.DecodeError](err); bad {
		return nil // it says nothing about any row
	}
	if err != nil {
		return fmt.Errorf("decode %s at offset %d: %w", place(rec), rec.Offset, err)
	}
	r.routed = r.Router.Route(r.routed[:0], decoded)
	for i := range r.routed {
		if r.routed[i].Err != nil {
			continue // a dead letter itself: it never came to the table
		}
		w := &r.routed[i].Write
		for _, p := range o.rows[rowOf(w)] {
			if p.deadLetter.Record.Offset < rec.Offset {
				p.follows(*w, rec)
			}
		}
	}
	return nil
}

// lanes are what the connector's groups have confirmed.
type lanes map[schemas.Lane]map[kafka.Place]kafka.Commit

func (r *Replay) confirmed(ctx context.Context) (lanes, error) {
	all := lanes{}
	for _, lane := range []schemas.Lane{schemas.Immediate, schemas.Batch} {
		commits, err := r.Reader.Committed(ctx, r.Connector+"-"+lane.String())
		if err != nil {
			return nil, err
		}
		all[lane] = commits
	}
	return all, nil
}

// unready is why it cannot be told yet, or any more, whether the dead letter's record
// is the newest of its row.
func (r *Replay) unready(l *deadLetter, span kafka.Span, confirmed lanes) (why, message string) {
	if len(l.parts) == 0 {
		return "", "" // which is the obstacle
	}
	at, offset := place(l.Record), l.Record.Offset
	immediate, batch := r.Router.TopicLanes(at.Topic)
	for _, lane := range []schemas.Lane{schemas.Immediate, schemas.Batch} {
		reads := lane == schemas.Immediate && immediate || lane == schemas.Batch && batch
		// What is before the dead letter could be applied after it.
		if committed := confirmed[lane][at].Offset; reads && committed <= offset && offset < span.To {
			return Unconfirmed, fmt.Sprintf("group %s-%s has confirmed %s up to offset %d, not yet this one; run the sink, then try again",
				r.Connector, lane, at, committed)
		}
	}
	gone := ""
	switch {
	case offset >= span.To:
		gone = fmt.Sprintf("it ends at offset %d: the topic was deleted and created again", span.To)
	case span.From > offset+1:
		gone = fmt.Sprintf("it begins at offset %d by now: what followed the record was deleted by retention", span.From)
	case !l.found && offset >= span.From && !l.superseded():
		gone = "the record is not there any more: compacted away for a newer one of its key, or the topic was created again"
	}
	if gone == "" || r.AssumeNewest {
		return "", ""
	}
	return Unknowable, fmt.Sprintf("%s: %s; nobody can tell whether this one is the newest of its row", at, gone)
}

// superseded reports whether newer records replaced all of the dead letter.
func (l *deadLetter) superseded() bool {
	return !slices.ContainsFunc(l.parts, func(p *part) bool { return p.refusal != nil || !p.replaced })
}

// foresee notes what would become of dead letters, as far as that is known without
// asking the service.
func (r *Replay) foresee(letters []*deadLetter) {
	for _, l := range letters {
		outcome, why, message := l.outcome()
		r.report.note(l, outcome, why, message)
	}
}
