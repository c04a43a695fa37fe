package replay

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// hashOf spreads keys evenly, the same in every version.
func hashOf(key string) uint64 {
	sum := sha256.Sum256([]byte(key))
	return binary.BigEndian.Uint64(sum[:]) >> 1
}

// keyState is what the span says of one key. Records of one key are in one partition, but
// for those from before partitions were added: their order is told by timestamps.
type keyState struct {
	hash   uint64
	size   int64
	places []stateAt
}

type stateAt struct {
	place  cluster.TopicPartition
	write  schemas.Write // of all records of the key there
	byFile bool          // it begins with an upsert by file
	key    kafkaKey      // of the last one
	offset int64         // of the last one
	at     time.Time
}

// fold is the state of a row where older was followed by w, such as Follow.
type fold func(older, w schemas.Write, byFile bool) (newest schemas.Write, replaced bool)

// newest is the state that all partitions come to, and the last record of it.
func (k *keyState) newest(by fold) (w schemas.Write, byFile bool, last stateAt) {
	slices.SortStableFunc(k.places, func(a, b stateAt) int { return a.at.Compare(b.at) })
	w, byFile = k.places[0].write, k.places[0].byFile
	for _, s := range k.places[1:] {
		byFile = begunByFile(&w, byFile, &s.write, s.byFile)
		w, _ = by(w, s.write, s.byFile)
	}
	if w.Op == schemas.Create && w.Table.Custom {
		w.Op = schemas.Upsert // it was confirmed: a row of the key is its own
	}
	return w, byFile, k.places[len(k.places)-1]
}

func (k *keyState) add(w schemas.Write, byFile bool, rec *deadletter.Record, by fold) {
	i := slices.IndexFunc(k.places, func(s stateAt) bool { return s.place == place(rec) })
	if i < 0 {
		k.places = append(k.places, stateAt{place: place(rec), write: w, byFile: byFile})
		i = len(k.places) - 1
	} else {
		s := &k.places[i]
		s.byFile = begunByFile(&s.write, s.byFile, &w, byFile)
		s.write, _ = by(s.write, w, byFile)
	}
	k.places[i].key, k.places[i].offset, k.places[i].at = keyOf(rec), rec.Offset, rec.Timestamp
}

// sizeOf is about what a write takes in memory.
func sizeOf(w *schemas.Write, buffer []byte) (int64, []byte) {
	size := int64(cap(w.Cells))*64 + int64(len(w.Key))
	for i := range w.Cells {
		buffer = w.Cells[i].Value.AppendJSON(buffer[:0])
		size += int64(len(buffer))
	}
	return size, buffer
}

// keyCost is about what a key takes besides its writes, its part of the window included.
const keyCost = 1 << 10

// span is the keys of the records of the span whose hashes are from pos up to bound: as
// many as there is room for.
type span struct {
	keys       map[string]*keyState
	pos, bound uint64
	size, room int64
	most       int // keys; 0: as many as there is room for
	// since is what the sink has confirmed after the span, by which --until left records of its keys out.
	since  map[cluster.TopicPartition]cluster.Span
	fold   fold
	buffer []byte
}

func (s *span) add(hash uint64, w schemas.Write, byFile bool, rec *deadletter.Record) {
	k := s.keys[w.Key]
	if k == nil {
		k = &keyState{hash: hash, size: keyCost}
		s.keys[w.Key] = k
		s.size += keyCost
	}
	k.add(w, byFile, rec, s.fold)
	s.size -= k.size
	k.size = keyCost
	for i := range k.places {
		var n int64
		n, s.buffer = sizeOf(&k.places[i].write, s.buffer)
		k.size += n
	}
	s.size += k.size
	if (s.size > s.room || s.most > 0 && len(s.keys) > s.most) && len(s.keys) > 1 {
		s.shrink()
	}
}

// shrink lets go of the half of the keys whose hashes are the highest.
func (s *span) shrink() {
	all := make([]uint64, 0, len(s.keys))
	for _, k := range s.keys {
		all = append(all, k.hash)
	}
	slices.Sort(all)
	s.bound = all[(len(all)+1)/2]
	for key, k := range s.keys {
		if k.hash >= s.bound {
			s.size -= k.size
			delete(s.keys, key)
		}
	}
}

// row of a backfill: a key whose newest state may have to be sent.
type backfillRow struct {
	*part
	hash   uint64
	record string // the last one in the span
}

// pass does as many keys as there is room for, up to the hash end.
func (b *Backfill) pass(ctx, working context.Context, end uint64) error {
	r := b.Replay
	s, err := b.collect(ctx, end)
	if err != nil {
		return err
	}
	b.countKeys(s)
	w, rows, err := b.window(s)
	if err != nil {
		return err
	}
	defer w.tail.Close()
	if b.state.Tried > b.state.Pos && !r.DryRun {
		if err := r.outwait(ctx, []*deadLetter{{tried: true}}); err != nil {
			return err
		}
	}
	if err := b.readToEnd(ctx, w); err != nil {
		return err
	}
	if r.DryRun {
		b.foresee(rows, s)
		return nil
	}
	for len(rows) > 0 {
		if rows, err = b.next(ctx, working, w, rows); err != nil {
			return err
		}
	}
	if err := b.sendLate(working, w, true); err != nil {
		return err
	}
	if err := b.sendAside(ctx, working, w); err != nil {
		return err
	}
	b.upTo(s.bound)
	b.state.Ended = s.bound == hashes
	b.tell(b.state.Pos, "")
	return b.save(working)
}

// countKeys says how many there are, about, once the span was read.
func (b *Backfill) countKeys(s *span) {
	if !b.first {
		return
	}
	b.report.Keys, b.report.About = int64(len(s.keys)), s.bound < hashes || s.pos > 0
	if b.report.About {
		b.report.Keys = int64(float64(len(s.keys)) / (float64(s.bound-s.pos) / hashes))
	}
	b.first = false
}

// collect reads the span and folds it to the newest state of each key.
func (b *Backfill) collect(ctx context.Context, end uint64) (*span, error) {
	s := &span{keys: map[string]*keyState{}, pos: b.state.Pos, bound: end, room: b.Keys, fold: Follow}
	seed := ""
	if b.looking != nil {
		s.fold, s.most, seed = stated, b.looking.candidates(), b.looking.Seed
	}
	read, total := int64(0), int64(0)
	for _, sp := range b.state.spans {
		total += max(sp.To-sp.From, 0)
	}
	err := b.Replay.Reader.Between(ctx, b.state.spans, func(rec *deadletter.Record) error {
		if read++; read%4096 == 0 {
			b.tell(b.state.Pos, fmt.Sprintf("reading: %d of %d records", read, total))
		}
		return b.take(s, rec, seed, false)
	})
	if err != nil || b.state.Until.IsZero() {
		return s, err
	}
	if s.since, err = b.confirmedSince(ctx); err != nil {
		return s, err
	}
	return s, b.Replay.Reader.Between(ctx, s.since, func(rec *deadletter.Record) error { return b.take(s, rec, seed, true) })
}

// confirmedSince is what the sink has confirmed beyond the span: it sends none of it again.
func (b *Backfill) confirmedSince(ctx context.Context) (map[cluster.TopicPartition]cluster.Span, error) {
	held, err := b.Replay.Reader.Spans(ctx, b.Mapping.Config.Topics...)
	if err != nil {
		return nil, err
	}
	confirmed, err := b.Replay.confirmed(ctx)
	if err != nil {
		return nil, err
	}
	since := map[cluster.TopicPartition]cluster.Span{}
	for p, sp := range b.state.spans {
		from := max(sp.To, held[p].From)
		since[p] = cluster.Span{From: from, To: max(from, min(held[p].To, b.Replay.confirmedUpTo(confirmed, b.Mapping, p)))}
	}
	return since, nil
}

// take takes up one record of the span, or a later one of the keys that the span has.
func (b *Backfill) take(s *span, rec *deadletter.Record, seed string, later bool) error {
	return b.writesOf(rec, b.first && !later, func(routed *router.Routed) error {
		if later && s.keys[routed.Write.Key] == nil {
			return nil
		}
		if h := hashOf(seed + routed.Write.Key); h >= s.pos && h < s.bound {
			s.add(h, b.Replay.said(routed), routed.Lane == schemas.Batch, rec)
		}
		return nil
	})
}

// writesOf calls each for what a record has brought to the table by the mapping, and counts it
// on request.
func (b *Backfill) writesOf(rec *deadletter.Record, count bool, each func(*router.Routed) error) error {
	r := b.Replay
	decoded, err := r.Decode(rec)
	if _, bad := errors.AsType[*schemas.DecodeError](err); bad {
		return nil // a dead letter, of which no key is known
	}
	if err != nil {
		return fmt.Errorf("decode %s at offset %d: %w", place(rec), rec.Offset, err)
	}
	r.routed = router.WithoutSkipped(r.Router.Route(r.routed[:0], decoded))
	taken := false
	for i := range r.routed {
		routed := &r.routed[i]
		if routed.Mapping != b.Mapping {
			continue
		}
		taken = true
		dead, keyless := routed.Err != nil || b.isLeftOut(rec), routed.Write.Key == ""
		if count {
			b.report.Records++
			switch {
			case dead:
				b.report.DeadLetters++
			case keyless:
				b.report.NoKey++
			}
		}
		if dead || keyless || b.Only != nil && !b.Only[routed.Write.Key] {
			continue
		}
		if err := each(routed); err != nil {
			return err
		}
	}
	if !taken {
		return b.lookBack(rec, count)
	}
	return nil
}

// window makes the keys known to what reads the log on from the end of the span. They come
// in the order of their hashes.
func (b *Backfill) window(s *span) (*window, []backfillRow, error) {
	before := &deadLetter{Received: &deadletter.Received{Record: &deadletter.Record{Offset: -1}}}
	tried := &deadLetter{Received: before.Received, tried: true}
	rows := make([]backfillRow, 0, len(s.keys))
	at := &origin{rows: make(map[Row][]*part, len(s.keys))}
	for key, k := range s.keys {
		newest, byFile, last := k.newest(s.fold)
		p := &part{deadLetter: before, mapping: b.Mapping, newest: newest, own: newest.Op, byFile: byFile, placesOnly: true}
		if k.hash < b.state.Tried {
			p.deadLetter, p.touched = tried, true
		}
		p.keyCell, p.former = p.keyOf(&newest), b.behind(k)
		at.rows[RowOf(&newest)] = []*part{p}
		rows = append(rows, backfillRow{part: p, hash: k.hash, record: fmt.Sprintf("%s@%d", last.place, last.offset)})
		delete(s.keys, key) // its memory is the part's
	}
	slices.SortFunc(rows, func(a, b backfillRow) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.newest.Key, b.newest.Key))
	})
	w := &window{places: map[cluster.TopicPartition]*origin{}}
	from := map[cluster.TopicPartition]int64{}
	for p, sp := range b.state.spans {
		w.places[p], from[p] = at, max(sp.To, s.since[p].To)
	}
	var err error
	w.tail, err = b.Replay.Reader.Tail(from)
	return w, rows, err
}

// readToEnd takes up what followed until now.
func (b *Backfill) readToEnd(ctx context.Context, w *window) error {
	spans, err := b.present(ctx)
	if err != nil {
		return err
	}
	return b.Replay.readOn(ctx, w, spans)
}

// present is what the topics hold now. New partitions end the run.
func (b *Backfill) present(ctx context.Context) (map[cluster.TopicPartition]cluster.Span, error) {
	spans, err := b.Replay.Reader.Spans(ctx, b.Mapping.Config.Topics...)
	if err != nil {
		return nil, err
	}
	for p := range spans {
		if _, known := b.state.spans[p]; !known {
			return nil, fmt.Errorf("mapping %s: %w", b.Mapping.Name, errPartitions)
		}
	}
	return spans, nil
}

// foresee counts what would be sent, of all keys if only some are in memory.
func (b *Backfill) foresee(rows []backfillRow, s *span) {
	b.report.Sent, b.report.Newer = 0, 0 // of what is left
	clear(b.report.Left)
	for _, one := range rows {
		b.count(one)
	}
	scale := hashes / float64(s.bound-s.pos) * (1 - b.state.done())
	if s.bound < hashes {
		for _, n := range []*int64{&b.report.Sent, &b.report.Newer} {
			*n = int64(float64(*n) * scale)
		}
		for why, n := range b.report.Left {
			b.report.Left[why] = int64(float64(n) * scale)
		}
	}
	b.report.Calls = b.report.Sent
}

// count counts a row of which no call is to be made, or with DryRun one that is.
func (b *Backfill) count(one backfillRow) (send bool) {
	switch {
	case !one.needsCall():
		b.report.Newer++
		return false
	case !callable(&one.newest) && !one.nameable():
		b.leftToImport(one)
		return false
	case b.Replay.erases(one.part):
		b.report.Left[BatchOnly]++
		b.note(one, BatchOnly, "its file keeps what it does not name, and a call replaces the profile whole, which --as-calls allows; or use --by file")
		return false
	case one.former != "" && !b.Replay.AssumeNewest:
		b.report.Left[Unknowable]++
		b.note(one, Unknowable, one.former+", of the same Kafka key, is not taken by the mapping now, and may have been applied under its former routes; "+
			"--assume-newest sends the state before it all the same")
		return false
	case b.Replay.DryRun:
		b.report.Sent++
	}
	return true
}

// leftToImport leaves a row that no call can write.
func (b *Backfill) leftToImport(one backfillRow) {
	b.report.Left[NeedsImport]++
	b.note(one, NeedsImport, one.noCall())
}

func (b *Backfill) note(one backfillRow, why, message string) {
	if len(b.report.Notes) < maxNotes {
		b.report.Notes = append(b.report.Notes, BackfillNote{Record: one.record, Why: why, Message: message})
	}
}

// restFor is how long it takes until live traffic is looked at again.
const restFor = 5 * time.Second

// next brings the first of the rows to their end: as many as take a round of calls.
func (b *Backfill) next(ctx, working context.Context, w *window, rows []backfillRow) (rest []backfillRow, err error) {
	if err := b.rest(ctx, rows[0].hash); err != nil {
		return nil, err
	}
	if err := b.readToEnd(ctx, w); err != nil {
		return nil, err
	}
	var sending []backfillRow
	n := 0
	for n < len(rows) && (len(sending) < max(b.Replay.Round, 1) || rows[n].hash == rows[n-1].hash) {
		if b.count(rows[n]) {
			sending = append(sending, rows[n])
		}
		n++
	}
	upTo := rows[n-1].hash + 1
	if len(sending) > 0 {
		if err := b.round(working, w, sending, upTo); err != nil {
			return nil, err
		}
	}
	if len(b.late)+len(b.aside) == 0 {
		b.upTo(upTo)
	}
	b.tell(upTo, "")
	if len(sending) == 0 {
		return rows[n:], nil
	}
	return rows[n:], b.save(working)
}

// rest waits while live traffic has something waiting.
func (b *Backfill) rest(ctx context.Context, hash uint64) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if b.Behind == nil {
			return nil
		}
		why, err := b.Behind(ctx)
		if err != nil || why == "" {
			return err
		}
		b.tell(hash, why)
		if err := b.Replay.Wait(ctx, restFor); err != nil {
			return err
		}
	}
}

// round sends rows, each step on record before the next.
//
//  1. How far the calls go is noted. A crash from here on leaves calls of unknown outcome:
//     the next run waits until they have ended, and sends the newest states of these keys.
//  2. The calls are made, each is answered, and the logs are read to their ends as they
//     stand then; what changed meanwhile is sent again.
//  3. What of them is done is noted, with the next round at the latest. Rows with an
//     attempt that may still be applied wait, and so do those that came to no answer: nothing
//     beyond them is done.
func (b *Backfill) round(ctx context.Context, w *window, sending []backfillRow, upTo uint64) error {
	if b.state.Tried < upTo {
		b.state.Tried = upTo
		if err := b.save(ctx); err != nil {
			return err
		}
	}
	if err := b.deliver(ctx, w, sending); err != nil {
		return err
	}
	for _, one := range sending {
		if one.unsure && one.unanswered == nil {
			b.late = append(b.late, one)
			if b.settle.IsZero() {
				b.settle = time.Now().Add(b.Replay.Late)
			}
			continue
		}
		b.ended(one)
	}
	if err := b.flooded(); err != nil {
		return err
	}
	return b.sendLate(ctx, w, false)
}

// deliver sends the rows' newest states. One that comes to no answer is set aside; if none of
// several is answered, or none of two in a row, it is the service.
func (b *Backfill) deliver(ctx context.Context, w *window, sending []backfillRow) error {
	r := b.Replay
	if err := r.deliver(ctx, w, partsOf(sending)); err != nil && !errors.Is(err, errNoAnswer) {
		return err
	}
	silent := !slices.ContainsFunc(sending, func(one backfillRow) bool { return one.unanswered == nil })
	if silent && (b.silent || len(sending) > 1) {
		return fmt.Errorf("%w for %v; run again to go on", errNoAnswer, r.GiveUp)
	}
	b.silent = silent
	return b.readToEnd(ctx, w) // which sees new partitions
}

func partsOf(rows []backfillRow) []*part {
	parts := make([]*part, 0, len(rows))
	for _, one := range rows {
		parts = append(parts, one.part)
	}
	return parts
}

// ended counts how the sending of a row ended, or sets it aside.
func (b *Backfill) ended(one backfillRow) {
	refusal := cmp.Or(one.refusal, one.lost)
	switch {
	case one.unanswered != nil || one.unsure:
		b.aside, b.tried = append(b.aside, one), time.Now()
	case one.stuck != "":
		b.leftToImport(one)
	case refusal != nil:
		b.report.Refused[refusal.Code]++
		b.note(one, refusal.Code, refusal.Plain())
	default:
		b.report.Sent++
	}
}

// flooded is the error of a run that has to stop.
func (b *Backfill) flooded() error {
	if how := b.Replay.floods["mapping "+b.Mapping.Name]; how != "" {
		return fmt.Errorf("%w: %s, which is a mistake and not data (dlq.flood); fix the cause (entity, table, fields), then run again", errFlooded, how)
	}
	return nil
}

var errFlooded = errors.New("backfill stopped")
