package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// window is dead letters that are looked at together, and the rows they are about.
type window struct {
	deadLetters []*deadLetter
	places      map[cluster.TopicPartition]*origin
	tail        *cluster.Tail
	late        []*deadLetter // an attempt at them may still be applied
}

// origin is a partition that dead letters of the window came from.
type origin struct {
	rows map[Row][]*part
	keys map[string][]*part      // the same by the Kafka key of the dead letter's record
	at   map[int64][]*deadLetter // by the offset of their record
}

// window replays dead letters, or with DryRun finds out what would become of them.
func (r *Replay) window(ctx context.Context, letters []*deadLetter) error {
	if len(letters) == 0 {
		return nil
	}
	w := &window{deadLetters: letters, places: map[cluster.TopicPartition]*origin{}}
	// A row's older dead letters are sent first: a newer one may be refused again.
	inOrder(letters)
	for _, l := range letters {
		if err := r.plan(l); err != nil {
			return err
		}
		w.add(l)
	}
	if err := r.outwait(ctx, letters); err != nil {
		return err
	}
	spans, err := spansOf(ctx, r.Reader, w.topics())
	if err != nil {
		return err
	}
	// Asked for before anything is read: what is confirmed by now is in the log.
	confirmed, err := r.confirmed(ctx)
	if err != nil {
		return err
	}
	findRoutes(letters, confirmed)
	if err := r.findMoved(ctx, letters, spans); err != nil {
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
	return r.sendOnceMore(ctx, w)
}

// inOrder has the letters of each partition take the places they have in the order of their records.
func inOrder(letters []*deadLetter) {
	of := map[cluster.TopicPartition][]*deadLetter{}
	for _, l := range letters {
		of[place(l.Record)] = append(of[place(l.Record)], l)
	}
	for _, some := range of {
		slices.SortStableFunc(some, func(a, b *deadLetter) int { return cmp.Compare(a.Record.Offset, b.Record.Offset) })
	}
	for i, l := range letters {
		at := place(l.Record)
		letters[i], of[at] = of[at][0], of[at][1:]
	}
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

func place(rec *deadletter.Record) cluster.TopicPartition {
	return cluster.TopicPartition{Topic: rec.Topic, Partition: rec.Partition}
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
		o = &origin{rows: map[Row][]*part{}, keys: map[string][]*part{}, at: map[int64][]*deadLetter{}}
		w.places[at] = o
	}
	o.at[l.Record.Offset] = append(o.at[l.Record.Offset], l)
	for _, p := range l.parts {
		if p.refusal == nil && p.newest.Key != "" { // a record without a business key has no row yet
			o.rows[RowOf(&p.newest)] = append(o.rows[RowOf(&p.newest)], p)
			if l.Record.Key != nil {
				o.keys[string(l.Record.Key)] = append(o.keys[string(l.Record.Key)], p)
			}
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

// spansOf are the spans of the topics that exist: dead letters may outlive their topic.
func spansOf(ctx context.Context, reader *cluster.Reader, topics []string) (map[cluster.TopicPartition]cluster.Span, error) {
	all, err := reader.Spans(ctx, topics...)
	if !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return all, err
	}
	all = map[cluster.TopicPartition]cluster.Span{}
	for _, topic := range topics {
		spans, err := reader.Spans(ctx, topic)
		if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return nil, err
		}
		maps.Copy(all, spans)
	}
	return all, nil
}

// open begins to read each partition at the first of the dead letters' records.
func (w *window) open(reader *cluster.Reader, spans map[cluster.TopicPartition]cluster.Span) (err error) {
	from := map[cluster.TopicPartition]int64{}
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
func (r *Replay) readOn(ctx context.Context, w *window, spans map[cluster.TopicPartition]cluster.Span) error {
	if err := r.dead.read(ctx, r); err != nil {
		return err
	}
	return w.tail.Until(ctx, spans, func(rec *deadletter.Record) error { return r.look(w.places[place(rec)], rec) })
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
	r.routed = router.WithoutSkipped(r.Router.Route(r.routed[:0], decoded))
	r.lookBack(o, rec)
	for i := range r.routed {
		if r.routed[i].Err != nil || r.dead.has(r, r.routed[i].Mapping, rec) {
			continue // a dead letter itself: it never came to the table
		}
		for _, p := range o.rows[RowOf(&r.routed[i].Write)] {
			if p.deadLetter.Record.Offset < rec.Offset {
				p.follows(r.said(&r.routed[i]), r.routed[i].Lane == schemas.Batch, rec)
			}
		}
	}
	return nil
}

// lanes are what the connector's groups have confirmed.
type lanes map[schemas.Lane]map[cluster.TopicPartition]cluster.Commit

func (r *Replay) confirmed(ctx context.Context) (lanes, error) {
	all := lanes{}
	for _, lane := range schemas.Lanes {
		commits, err := r.Reader.Committed(ctx, lane.Group(r.Connector))
		if err != nil {
			return nil, err
		}
		all[lane] = commits
	}
	return all, nil
}

// unready is why it cannot be told yet, or any more, whether the dead letter's record
// is the newest of its row.
func (r *Replay) unready(l *deadLetter, span cluster.Span, confirmed lanes) (why, message string) {
	if len(l.parts) == 0 {
		return "", "" // which is the obstacle
	}
	at, offset := place(l.Record), l.Record.Offset
	for _, lane := range schemas.Lanes {
		// What is before the dead letter could be applied after it.
		if committed := confirmed[lane][at].Offset; r.Router.Reads(at.Topic, lane) && committed <= offset && offset < span.To {
			return Unconfirmed, fmt.Sprintf("group %s has confirmed %s up to offset %d, not yet this one; run the sink, then try again",
				lane.Group(r.Connector), at, committed)
		}
	}
	gone := missing(span, offset)
	if gone == "" && !l.found && offset >= span.From && !l.superseded() {
		gone = "the record is not there any more: compacted away for a newer one of its key, or the topic was created again"
	}
	gone = cmp.Or(gone, l.overtaken())
	if gone == "" || r.AssumeNewest {
		return "", ""
	}
	return Unknowable, fmt.Sprintf("%s: %s; it is not known whether this one is the newest of its row. If it is, replay it with --assume-newest; "+
		"if not, discard the letter", at, gone)
}

// missing says what the log lacks to tell what followed the record at offset; "" if nothing.
func missing(span cluster.Span, offset int64) string {
	switch {
	case span == cluster.Span{}:
		return "the topic does not exist, or is empty"
	case offset >= span.To:
		return fmt.Sprintf("it ends at offset %d: the topic was deleted and created again", span.To)
	case span.From > offset+1:
		return fmt.Sprintf("it begins at offset %d by now: what followed the record was deleted by retention", span.From)
	}
	return ""
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

// errNoAnswer ends a run whose calls are not answered. Its dead letters stay.
var errNoAnswer = errors.New("the service answers no call")

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
				r.marks.tried(l.Received)
			}
		}
	}
	if err := r.marks.save(ctx); err != nil {
		return err
	}
	if err := r.deliver(ctx, w, sending); err != nil {
		return err
	}
	var ended []*deadLetter
	for _, l := range letters {
		w.unsureToo(l)
		if l.unsure() {
			w.late = append(w.late, l)
		} else {
			ended = append(ended, l)
		}
	}
	if err := r.end(ctx, ended); err != nil {
		return err
	}
	for _, l := range ended {
		if !l.touched() {
			r.marks.notApplied(l.Received)
		}
	}
	return cmp.Or(r.marks.save(ctx), r.flooded())
}

// unsureToo says that the dead letter has to be sent once more where an older one of its row has.
func (w *window) unsureToo(l *deadLetter) {
	for _, p := range l.parts {
		if !p.sent || p.refusal != nil {
			continue
		}
		p.unsure = p.unsure || slices.ContainsFunc(w.places[place(l.Record)].rows[RowOf(&p.newest)], func(older *part) bool {
			return older.deadLetter.Record.Offset < l.Record.Offset && older.unsure && older.unanswered == nil
		})
	}
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
	spans, err := spansOf(ctx, r.Reader, w.topics())
	if err != nil {
		return err
	}
	return r.readOn(ctx, w, spans)
}

// sendOnceMore sends the rows once more of which an attempt may have been applied after
// the one that was answered, as soon as none can be any more.
func (r *Replay) sendOnceMore(ctx context.Context, w *window) error {
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
				p.unsure, p.profileID = false, "" // the profile may have been made anew
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
		if p.unnamed() {
			unnamed = append(unnamed, p)
			w := p.newest
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
		if _, ok := p.current(again); !ok || r.erases(p) {
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

// submit makes the calls and returns once each is answered. One row's are made one after the
// other, for the service's lane may merge them: one that is refused would take the others along.
func (r *Replay) submit(ctx context.Context, parts []*part, call func(*part) (schemas.Write, verdict)) error {
	for len(parts) > 0 {
		var now, then []*part
		rows := map[Row]bool{}
		for _, p := range parts {
			if row := RowOf(&p.newest); rows[row] && row.key != "" {
				then = append(then, p)
			} else {
				rows[row] = true
				now = append(now, p)
			}
		}
		if err := r.submitRows(ctx, now, call); err != nil {
			return err
		}
		parts = then
	}
	return nil
}

// submitRows makes the calls of different rows. Where some are answered and others not for so long, those
// are left: their rows hold up no other.
func (r *Replay) submitRows(ctx context.Context, parts []*part, call func(*part) (schemas.Write, verdict)) error {
	ends := make(chan verdict, len(parts))
	unheard := fmt.Errorf("it came to no answer for %v", r.GiveUp)
	for _, p := range parts {
		write, v := call(p)
		v.to, p.unanswered = ends, unheard
		r.Service.Submit(calls.Item{Mapping: p.mapping.Name, Write: write, Origin: v})
	}
	some := false
	late := fmt.Errorf("%w for %v; the letters stay as they are, run again to go on", errNoAnswer, r.GiveUp)
	err := collect(ctx, len(parts), ends, r.GiveUp, late, func(v verdict) bool {
		answered := r.judge(v)
		some = some || answered
		return answered
	})
	for _, p := range parts {
		p.touched = p.touched || errors.Is(p.unanswered, unheard)
	}
	if some && errors.Is(err, errNoAnswer) {
		return nil
	}
	return err
}

// current is the call that brings the row to its newest state; false if none
// can. The write is the service's from then on.
func (p *part) current(again bool) (w schemas.Write, ok bool) {
	w = p.newest
	w.Cells = slices.Clone(w.Cells)
	if again && w.Op == schemas.Create && (p.landed || p.replaced) {
		w.Op = schemas.Upsert // the row is there; one that a create has met is not its own
	}
	if !w.Table.Custom {
		w.ProfileID = cmp.Or(p.profileID, w.ProfileID)
	}
	return w, callable(&w)
}

// judge takes down how a sending ended and reports whether the service answered.
func (r *Replay) judge(v verdict) (answered bool) {
	p := v.part
	p.unanswered = nil
	p.unsure = r.Service.Unsure(&p.newest) || p.unsure
	p.touched = p.touched || p.unsure
	if v.err == nil {
		p.touched, p.refusal, p.lost = true, nil, nil
		if id := r.Service.ProfileID(&p.newest); id != "" {
			p.profileID = id
		}
		if !v.names {
			p.landed = true
			r.count(p.whose(), deadletter.Delivering, nil)
		}
		return true
	}
	if failure, known := errors.AsType[calls.Failure](v.err); !known || failure.Transient() {
		p.touched, p.unanswered = true, v.err
		return false
	}
	why := r.Refused(v.err)
	p.mayHave(&why)
	switch {
	case v.names: // without an id it is stuck
	case !v.again, p.changed == nil, p.newest.Op == schemas.Create && !p.landed && !p.replaced:
		p.refusal = &why
		r.count(p.whose(), deadletter.Delivering, &why)
	case p.touched:
		p.lost = &why
		r.count(p.whose(), deadletter.Delivering, &why)
	}
	return true
}
