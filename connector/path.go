package connector

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/decode"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/receipt"
	"github.com/feedsink/feedsink/connector/tracing"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// lane is one consumer group and what it does with its records.
type lane struct {
	*laneBase
	decode.Reader        // of records in their turn
	ahead         *ahead // of the batch lane
	delivery      delivery
	parts         map[string]int // of the immediate lane: by topic, of the room for records
	again         map[*kafka.Partition]*sentAgain

	// Reused from record to record.
	kept    []router.Routed // whose writes may outlive their record
	arena   router.Arena
	reading reading
}

// reading is what a record means to its lane. It lasts as long as the record's turn.
type reading struct {
	begun           time.Time       // when it was read, if somebody traces it
	routed          []router.Routed // its writes in either lane, and what could not become one
	writes, rejects []router.Routed // what of it is this lane's
	rows            []rowAhead      // of a record that was read ahead, instead: these rows are all that it means
	parts           int             // how many receipts the record has, in both lanes
	skipped         bool            // no mapping writes it
	from            *chunk          // that has the rows
	first           int             // of its rows
}

// nothing reports whether the record says that nothing has changed.
func (in *reading) nothing() bool { return len(in.routed)+len(in.rows) == 0 }

// delivery is the way a lane's writes take to the service. All methods are
// called by the lane's source, one at a time.
type delivery interface {
	// deliver takes one record: its writes or rows, and what of it was rejected before
	// it became a write. It sees to it that the record is confirmed one day, and ends
	// its trace. An error means that the record was not taken: it is offered again.
	deliver(p *kafka.Partition, r *kafka.Record, in *reading, trace *tracing.Record) error
	// follows reports whether it must see all records of the topic, those too that
	// are confirmed.
	follows(topic string) bool
	// observe shows it a record of such a topic, before deliver. An error means
	// that it could not: the record is offered again.
	observe(p *kafka.Partition, r *kafka.Record, routed []router.Routed, done bool) error
	// supersede shows it what a record means to either lane, also where that is confirmed.
	supersede(routed []router.Routed)
	// takes reports whether deliver may have the record now. Otherwise it is offered again.
	takes(routed []router.Routed) bool
	// heldBack is how many of the pending records take no room from others.
	heldBack() int64
	// ready reports whether there is room for more.
	ready() bool
	// assigned is told of new assignments before their first record.
	assigned(ps []*kafka.Partition)
	// passed is told that a partition's records below next were delivered.
	passed(p *kafka.Partition, next int64)
	// can reports whether the lane has a way for a write that the routes give to the
	// other lane.
	can(w *router.Routed) bool
	// covers reports whether a write of this lane is not sent: what a former owner sent
	// brings it.
	covers(p *kafka.Partition, w *router.Routed, offset int64) bool
	// underWay reports whether the mapping has something on its way that its records
	// have to be read on for.
	underWay(m *router.Compiled) bool
	// release drops what was not started for partitions that go, and waits
	// for what was, until ctx ends.
	release(ctx context.Context, ps []*kafka.Partition)
}

// Ready reports whether the lane has room.
func (l *lane) Ready() bool { return l.roomTaken() < maxPending && l.delivery.ready() }

// roomTaken is how many records take of the lane's room.
func (l *lane) roomTaken() int64 {
	return l.source.Pending() - l.floods.Waiting() - l.delivery.heldBack()
}

// filled says that the lane's room is taken; "": it is not.
func (l *lane) filled() string {
	n := l.roomTaken()
	if n < maxPending {
		return ""
	}
	return fmt.Sprintf(". But %d records wait, which is all there is room for: partitions that have more than their part of it are not read on, nor are their other keys", n)
}

// Parts says how many records of each topic may be pending while others fill the lane.
func (l *lane) Parts() map[string]int {
	if !l.delivery.ready() {
		return nil
	}
	return l.parts
}

// Assigned prepares for new assignments.
func (l *lane) Assigned(ps []*kafka.Partition) {
	l.pauses.known.Learn(l.source.OtherPauses())
	l.followPauses()
	l.floods.Assigned(ps)
	l.delivery.assigned(ps)
}

// Release ends what the lane does for partitions that go. A dead letter that
// is on its way is waited for: the partition's next owner would send it again.
func (l *lane) Release(ctx context.Context, ps []*kafka.Partition) {
	l.delivery.release(ctx, ps)
	for _, p := range ps {
		delete(l.again, p)
	}
	l.floods.Left(ps)
	l.awaitAcknowledged(ctx)
}

// Records takes the records of one partition.
func (l *lane) Records(p *kafka.Partition, records []*kafka.Record) (taken int) {
	if l.readsAhead(p, records) {
		l.ahead.begin(records)
		defer l.ahead.end()
	}
	follows, decoded := l.delivery.follows(p.Topic), l.floods.Decoded(p.Topic)
	for i, r := range records {
		if !p.HasRoom(r) || !l.record(p, p.Keep(r), i, follows, decoded) {
			break
		}
		taken++
	}
	l.reading = reading{}
	l.Forget()
	if taken > 0 {
		l.delivery.passed(p, records[taken-1].Offset+1)
		l.restored(p, records[taken-1].Offset+1)
	}
	return taken
}

// record takes the i-th record of a poll to what ends it. It is read, the lanes agree
// whose its writes are, and this lane's are delivered. It reports false if the record
// can't be taken now.
func (l *lane) record(p *kafka.Partition, r *kafka.Record, i int, follows bool, decoded *int64) (taken bool) {
	done, restored := p.Take(r)
	if done && !follows && !restored {
		l.count(r, observe.OutcomeDone)
		return true
	}
	in, err := l.read(p, r, i, follows)
	switch {
	case errors.Is(err, schemas.ErrSchemaUnavailable):
		return false
	case err != nil:
		return done || l.undecodable(p, r, in.begun, err)
	}
	*decoded++
	if (!done || restored) && p.Shared() && !l.decide(p, r, in.routed) {
		return false
	}
	if follows && l.delivery.observe(p, r, in.routed, done) != nil {
		return false
	}
	l.delivery.supersede(in.routed)
	again := false
	if restored {
		in.routed, again = l.sendsAgain(p, r, in.routed, done)
	}
	if done && !again {
		l.count(r, observe.OutcomeDone)
		return true
	}
	if in.nothing() {
		l.endNothing(p, r, in)
		return true
	}
	if !l.delivery.takes(in.routed) {
		return false
	}
	in.writes, in.rejects = l.mine(in.routed)
	if len(in.writes)+len(in.rejects)+len(in.rows) == 0 {
		l.count(r, observe.OutcomeOtherLane) // confirmed at once: the other lane sees to it
		return true
	}
	if l.halted(in) {
		return false
	}
	if again {
		p.SendAgain(r.Offset)
	}
	return l.delivery.deliver(p, r, in, l.tracing.Record(in.begun, r)) == nil
}

// read decodes and routes a record, unless that was done ahead. Of one that has to be
// followed, or is to be called with, writes are kept beyond it, and never lend their
// cells to another's.
func (l *lane) read(p *kafka.Partition, r *kafka.Record, i int, follows bool) (in *reading, err error) {
	in = &l.reading
	if c, ahead := l.ahead.prepared(i); ahead.known && l.ahead.files.takesRows(p, c, c.rowsOf(ahead), r.Offset) {
		*in = reading{begun: c.begun, rows: c.rowsOf(ahead), from: c, first: int(ahead.first), parts: len(c.rowsOf(ahead)), skipped: ahead.skipped}
		return in, nil
	}
	*in = reading{begun: l.tracing.Begin()}
	decoded, err := l.Decode(r)
	switch {
	case err != nil:
	case l.passes(follows):
		in.routed = l.RouteOver(decoded)
	default:
		l.kept = l.Router.RouteFrom(l.kept[:0], decoded, &l.arena)
		in.routed = l.kept
	}
	in.skipped, in.routed = allSkipped(in.routed), router.WithoutSkipped(in.routed)
	in.parts = len(in.routed)
	for i := range in.routed {
		in.routed[i].Part = i
	}
	return in, err
}

// allSkipped reports whether all that a record means is skipped.
func allSkipped(routed []router.Routed) bool {
	return len(routed) > 0 && !slices.ContainsFunc(routed, func(r router.Routed) bool { return r.Lane != schemas.Skip })
}

// nothing is how a record ends of which nothing is written. One that is skipped is
// counted once: by the immediate lane where both read its topic.
func (l *lane) nothing(r *kafka.Record, in *reading) (outcome string) {
	if !in.skipped {
		return observe.OutcomeNoChange
	}
	if l.Router.Reads(r.Topic, schemas.Immediate) && l.which == schemas.Batch {
		return observe.OutcomeOtherLane
	}
	return observe.OutcomeSkipped
}

// readsAhead reports whether the records of a partition are read before their
// turn: nothing of them is needed but rows, and they are many enough.
func (l *lane) readsAhead(p *kafka.Partition, records []*kafka.Record) bool {
	_, restored := p.Stands(records[0].Offset)
	return !restored && l.passes(l.delivery.follows(records[0].Topic)) && len(records) > chunkRecords && len(l.ahead.readers) > 0
}

// halted reports whether a record has to wait, as some mapping of it is halted, or
// halts for what is refused of it.
func (l *lane) halted(in *reading) bool {
	for i := range in.rows {
		if l.floods.Halted(in.rows[i].mapping) {
			return true
		}
	}
	for _, some := range [][]router.Routed{in.writes, in.rejects} {
		for i := range some {
			if l.floods.Halted(some[i].Mapping) {
				return true
			}
		}
	}
	for i := range in.rows {
		l.floods.Read(in.rows[i].mapping)
	}
	for i := range in.writes {
		l.floods.Read(in.writes[i].Mapping)
	}
	for i := range in.rejects {
		l.floods.Read(in.rejects[i].Mapping)
		if l.floods.Rejects(in.rejects[i].Mapping, in.rejects[i].Err) {
			return true
		}
	}
	return false
}

// passes reports whether nothing of a record's writes is needed beyond it: they
// become rows at once, and that is all.
func (l *lane) passes(follows bool) bool { return l.which == schemas.Batch && !follows }

// mine sorts what of a record is this lane's into writes and rejects.
func (l *lane) mine(routed []router.Routed) (writes, rejects []router.Routed) {
	mine := slices.DeleteFunc(routed, func(r router.Routed) bool { return r.Lane != l.which && !r.Taken })
	slices.SortStableFunc(mine, func(a, b router.Routed) int { return rank(a) - rank(b) })
	n := slices.IndexFunc(mine, func(r router.Routed) bool { return r.Err != nil })
	if n < 0 {
		n = len(mine)
	}
	// What is appended to either must not lie in the memory of routed, where the
	// next record's writes would share its cells.
	return slices.Clip(mine[:n]), slices.Clip(mine[n:])
}

func rank(r router.Routed) int {
	if r.Err != nil {
		return 1
	}
	return 0
}

// undecodable ends a record that says nothing. Which lane it is for cannot be
// told; on a topic that both lanes read it is the immediate lane's. Only a schema that is
// missing may be there when the other lane asks, which would then leave the
// record to this one: each lane makes it a dead letter. It reports false if the
// record has to wait: for the other lane, or since nearly all are like it.
func (l *lane) undecodable(p *kafka.Partition, r *kafka.Record, begun time.Time, err error) (taken bool) {
	if l.Router.Reads(r.Topic, schemas.Immediate) && l.which == schemas.Batch && !errors.Is(err, schemas.ErrSchemaMissing) {
		switch p.DecideAll(r.Offset) {
		case ack.Wait:
			return false
		case ack.Leave:
			l.count(r, observe.OutcomeOtherLane)
			return true
		case ack.Take:
		}
	}
	if l.floods.Undecodable(r.Topic) {
		return false
	}
	part := l.begin(p, r, 1, l.tracing.Record(begun, r)).part(&noMapping)
	part.opens(nil, 0, 1)
	l.mayBeWritten(part, nil)
	part.deadLetter(deadletter.Reason{
		Stage: deadletter.Decoding, Code: "decode", Message: err.Error(),
	}, err)
	return true
}

// decide says of each write that the routes give to the other lane whether that
// one takes it. It reports false if this is not known yet: the record waits.
func (l *lane) decide(p *kafka.Partition, r *kafka.Record, routed []router.Routed) bool {
	for i := range routed {
		w := &routed[i]
		if w.Lane == l.which {
			continue
		}
		switch p.Decide(w.Mapping.Routes, r.Offset) {
		case ack.Wait:
			return false
		case ack.Leave:
			p.Left(w.Mapping.Routes, r.Offset)
		case ack.Take:
			p.Took(w.Mapping.Routes, r.Offset)
			w.Taken = w.Err != nil || l.delivery.can(w)
		}
	}
	return true
}

// ahead reads records before their turn, on several processors. Which rows a
// record means follows from the record alone, and to decode, route and encode it
// is most of what it costs. What has an effect waits for the record's turn: only
// there it is counted, filed and held. A record that means anything but rows, or
// nothing, is read once more in its turn.
type ahead struct {
	files   *fileDelivery
	readers []*rowReader // the first is for the lane's own goroutine

	// Between begin and end:
	chunks  []chunk
	next    atomic.Int64 // chunk that is not being read yet
	helpers sync.WaitGroup
}

const (
	// chunkRecords are read by one goroutine: so many that to hand them over
	// costs nothing to speak of.
	chunkRecords = 32
	// longestAhead is how long a value may be, in bytes, so that what was read
	// ahead is never large.
	longestAhead = 4 << 10
	// mostReaders are as many as the records' turns can keep busy.
	mostReaders = 4
)

// chunk is a few records that follow each other, and what they mean.
type chunk struct {
	records  []*kafka.Record
	read     chan struct{} // closed when the rest is there
	awaited  bool          // by the records' turn
	begun    time.Time     // when its reading began, if somebody traces it
	prepared []preparedRecord
	rows     []rowAhead
	keys     []receipt.Key // of the rows' receipts, if there are any
	text     []byte        // of the rows
}

// preparedRecord is what is known of a record before its turn. It is small, as rows are:
// they go from one processor's cache to another's.
type preparedRecord struct {
	first, next uint32 // of the chunk's rows; none: it changes nothing, or
	skipped     bool   // no mapping writes it
	known       bool   // else it says nothing
}

// rowAhead is a row of a mapping's file, from a place in the chunk's text to another.
type rowAhead struct {
	mapping   *router.Compiled
	encoder   *batcher.Encoder  // the mapping's
	objective *router.Objective // its route's; nil: it has none
	from, to  uint32
	op        schemas.Op
	auto      bool // it may be called instead
}

// rowsOf are the rows that a record means.
func (c *chunk) rowsOf(m preparedRecord) []rowAhead { return c.rows[m.first:m.next] }

// newAhead has a reader for each processor, and none where there is but one.
func newAhead(files *fileDelivery, open func() decode.Reader) (*ahead, error) {
	a := &ahead{files: files}
	n := min(runtime.GOMAXPROCS(0), mostReaders)
	if n < 2 {
		return a, nil
	}
	for range n {
		encoders, err := encodersOf(files.lane.router, files.files)
		if err != nil {
			return nil, err
		}
		a.readers = append(a.readers, &rowReader{open(), encoders, files.lane.tracing.Tracer, files.lane.receipts, nil})
	}
	return a, nil
}

// begin has the records read. end has to follow.
func (a *ahead) begin(records []*kafka.Record) {
	n := (len(records) + chunkRecords - 1) / chunkRecords
	a.chunks = slices.Grow(a.chunks[:0], n)[:n]
	i := 0
	for some := range slices.Chunk(records, chunkRecords) {
		c := &a.chunks[i]
		*c = chunk{records: some, read: make(chan struct{}), prepared: c.prepared[:0], rows: c.rows[:0], keys: c.keys[:0], text: c.text[:0]}
		i++
	}
	a.next.Store(0)
	for _, d := range a.readers[1:min(n, len(a.readers))] {
		a.helpers.Go(func() {
			for a.help(d) {
			}
		})
	}
}

// help reads a chunk that is not being read yet; false if there is none.
func (a *ahead) help(d *rowReader) bool {
	i := a.next.Add(1) - 1
	if i >= int64(len(a.chunks)) {
		return false
	}
	d.read(&a.chunks[i])
	return true
}

// prepared is what the i-th record means, and the chunk that holds its rows. Until
// that is read, it helps. Of what is not read ahead nothing is known.
func (a *ahead) prepared(i int) (*chunk, preparedRecord) {
	if a == nil || len(a.chunks) == 0 {
		return nil, preparedRecord{}
	}
	c := &a.chunks[i/chunkRecords]
	if !c.awaited {
		c.await(func() bool { return a.help(a.readers[0]) })
		c.announce()
		c.awaited = true
	}
	return c, c.prepared[i%chunkRecords]
}

// await waits for the chunk, and meanwhile does what there is to do.
func (c *chunk) await(work func() bool) {
	for more := true; more; {
		select {
		case <-c.read:
			return
		default:
			more = work()
		}
	}
	<-c.read
}

// announce tells the batcher which rows follow.
func (c *chunk) announce() {
	rows := c.rows
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].encoder == rows[0].encoder {
			n++
		}
		rows[0].encoder.Expect(c.text[rows[0].from:rows[n-1].to])
		rows = rows[n:]
	}
}

// end ends what begin began: records whose turn does not come are left alone.
func (a *ahead) end() {
	a.next.Store(int64(len(a.chunks)))
	a.helpers.Wait()
	for i := range a.chunks {
		a.chunks[i].records = nil
	}
	a.chunks = a.chunks[:0]
}

// rowReader reads records ahead of their turn, in one goroutine.
type rowReader struct {
	decode.Reader
	encoders []*batcher.Encoder // by mapping; nil where it has no batch lane
	tracer   *tracing.Tracer
	receipts *receipt.Book   // nil: no receipts topic
	keys     *receipt.Hasher // of a chunk's receipts
}

func encodersOf(r *router.Router, files *batcher.Batcher) (encoders []*batcher.Encoder, err error) {
	encoders = make([]*batcher.Encoder, len(r.Mappings()))
	for _, m := range r.Mappings() {
		if !m.Uses(schemas.Batch) {
			continue
		}
		if encoders[m.Index], err = files.Encoder(m.Name); err != nil {
			return nil, err
		}
	}
	return encoders, nil
}

// read finds out what the records of a chunk mean.
func (d *rowReader) read(c *chunk) {
	defer close(c.read)
	c.begun, d.keys = d.tracer.Begin(), d.receipts.Hasher()
	for _, r := range c.records {
		m := preparedRecord{first: uint32(len(c.rows))}
		m.known, m.skipped = d.rows(c, r)
		m.next = uint32(len(c.rows))
		c.prepared = append(c.prepared, m)
	}
	d.keys.Done()
	d.Forget()
}

// rows appends the rows that a record means; known is false if it may mean something
// else, too.
func (d *rowReader) rows(c *chunk, r *kafka.Record) (known, skipped bool) {
	if len(r.Value) > longestAhead {
		return false, false
	}
	decoded, err := d.Decode(r)
	if err != nil {
		return false, false
	}
	routed := d.RouteOver(decoded)
	for i := range routed {
		w := &routed[i]
		if w.Lane == schemas.Skip {
			continue
		}
		if w.Err != nil || w.Lane != schemas.Batch {
			return false, false
		}
		encoder, from := d.encoders[w.Mapping.Index], len(c.text)
		if c.text, err = encoder.AppendRow(c.text, &w.Write); err != nil {
			return false, false
		}
		_, _, auto := w.Mapping.Auto(w.Route)
		auto = auto && w.Mapping.Callable(&w.Write)
		c.rows = append(c.rows, rowAhead{w.Mapping, encoder, w.Mapping.Objective(w.Route), uint32(from), uint32(len(c.text)), w.Write.Op, auto})
		if d.receipts != nil {
			c.keys = append(c.keys, d.keys.Of(&w.Write))
		}
	}
	return true, allSkipped(routed)
}
