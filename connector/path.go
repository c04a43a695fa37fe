package connector

import (
	"context"
	"errors"
	"log/slog"
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
	"github.com/feedsink/feedsink/connector/tracing"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// lane is one consumer group and what it does with its records.
type lane struct {
	which          schemas.Lane
	decode.Reader         // of records in their turn
	ahead          *ahead // of the batch lane
	delivery       delivery
	post           *deadletter.Post // nil: no dead-letter topic
	source         *kafka.Source
	metrics        *metrics
	recent         *recentHistory
	log            *slog.Logger
	unacknowledged outbox
	floods         *floods
	missing        *missing // of the immediate lane
	again          map[*kafka.Partition]*sentAgain

	tracing lineage
	// trace is of the record at hand, until its record state takes it over.
	trace *tracing.Record

	// Reused from record to record.
	routed []router.Routed // of the record at hand: kept, or the reader's
	kept   []router.Routed // whose writes may outlive their record
	slab   router.Slab
}

// delivery is the way a lane's writes take to the service. All methods are
// called by the lane's source, one at a time.
type delivery interface {
	// deliver takes one record: its writes, and what of it was rejected before
	// it became a write. It sees to it that the record is confirmed one day.
	// An error means that the record was not taken: it is offered again.
	deliver(p *kafka.Partition, r *kafka.Record, writes, rejects []router.Routed) error
	// follows reports whether it must see all records of the topic, those too that
	// are confirmed.
	follows(topic string) bool
	// observe shows it a record of such a topic, before deliver. An error means
	// that it could not: the record is offered again.
	observe(p *kafka.Partition, r *kafka.Record, routed []router.Routed, done bool) error
	// takes looks at what a record means to either lane and reports whether deliver may
	// have it now. Otherwise it is offered again.
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
	// release drops what was not started for partitions that go, and waits
	// for what was, until ctx ends.
	release(ctx context.Context, ps []*kafka.Partition)
}

// Ready reports whether the lane has room.
func (l *lane) Ready() bool {
	return l.source.Pending()-l.floods.waiting()-l.delivery.heldBack() < maxPending && l.delivery.ready()
}

// leased reports whether the lane's partitions can be nobody else's by now.
func (l *lane) leased() bool { return l.source.Leased() }

// Assigned prepares for new assignments.
func (l *lane) Assigned(ps []*kafka.Partition) {
	l.floods.assigned(ps)
	l.delivery.assigned(ps)
}

// Release ends what the lane does for partitions that go. A dead letter that
// is on its way is waited for: the partition's next owner would send it again.
func (l *lane) Release(ctx context.Context, ps []*kafka.Partition) {
	l.delivery.release(ctx, ps)
	for _, p := range ps {
		delete(l.again, p)
	}
	l.floods.left(ps)
	if err := l.unacknowledged.wait(ctx); err != nil {
		l.log.Warn("partitions go while dead letters are not acknowledged; they may be sent twice", "error", err)
	}
}

// Records takes the records of one partition.
func (l *lane) Records(p *kafka.Partition, records []*kafka.Record) (taken int) {
	_, restored := p.Stands(records[0].Offset)
	ahead := !restored && l.readsAhead(records)
	if ahead {
		l.ahead.begin(records)
		defer l.ahead.end()
	}
	for i, r := range records {
		if !p.HasRoom(r) {
			break
		}
		if (!ahead || !l.fileRows(p, r, i)) && !l.record(p, r) {
			break
		}
		taken++
	}
	l.Forget()
	if taken > 0 {
		l.delivery.passed(p, records[taken-1].Offset+1)
		l.restored(p, records[taken-1].Offset+1)
	}
	return taken
}

// readsAhead reports whether the records of a partition are read before their
// turn: nothing of them is needed but rows, and they are many enough.
func (l *lane) readsAhead(records []*kafka.Record) bool {
	return l.passes(l.delivery.follows(records[0].Topic)) && len(records) > chunkRecords && len(l.ahead.readers) > 0
}

// fileRows takes the i-th record that was read ahead, if that is all there is to do.
// Any other is left to record.
func (l *lane) fileRows(p *kafka.Partition, r *kafka.Record, i int) bool {
	c, m := l.ahead.prepared(i)
	if !m.known || p.Done(r.Offset) {
		return false
	}
	l.floods.decoded(r.Topic)
	rows := c.rowsOf(m)
	if len(rows) == 0 {
		l.count(r, outcomeNoChange)
		return true
	}
	l.trace = l.tracing.record(m.begun, r)
	taken := l.ahead.files.file(p, r, rows, c.text)
	l.untraced("in a file")
	return taken
}

// record takes one record from the poll to what ends it: decode,
// route, deliver. It reports false if the record can't be taken now.
func (l *lane) record(p *kafka.Partition, r *kafka.Record) bool {
	done, restored := p.Stands(r.Offset)
	follows := l.delivery.follows(r.Topic)
	if done && !follows && !restored {
		l.count(r, outcomeDone)
		return true
	}
	begun := l.tracing.tracer.Begin()
	decoded, err := l.Decode(r)
	if errors.Is(err, schemas.ErrSchemaUnavailable) {
		return false
	}
	if err != nil {
		if done {
			return true
		}
		l.trace = l.tracing.record(begun, r)
		taken := l.undecodable(p, r, err)
		l.untraced("other_lane")
		return taken
	}
	l.floods.decoded(r.Topic)
	l.route(decoded, follows)
	if (!done || restored) && p.Shared() && !l.decide(p, r) {
		return false
	}
	if follows && l.delivery.observe(p, r, l.routed, done) != nil {
		return false
	}
	again := restored && l.sendsAgain(p, r, done)
	if done && !again {
		l.count(r, outcomeDone)
		return true
	}
	if len(l.routed) == 0 {
		l.count(r, outcomeNoChange)
		return true
	}
	if !l.delivery.takes(l.routed) {
		return false
	}
	writes, rejects := l.mine()
	if len(writes)+len(rejects) == 0 {
		l.count(r, outcomeOtherLane) // confirmed at once: the other lane sees to it
		return true
	}
	if l.floods.holds(writes, rejects) {
		return false
	}
	if again {
		p.SendAgain(r.Offset)
	}
	l.trace = l.tracing.record(begun, r)
	taken := l.delivery.deliver(p, r, writes, rejects) == nil
	l.untraced("in a file")
	return taken
}

// route routes a record. Of one that has to be followed, or is to be called with,
// writes are kept beyond it, and never lend their cells to another's.
func (l *lane) route(decoded *router.Record, follows bool) {
	if l.passes(follows) {
		l.routed = l.RouteOver(decoded)
		return
	}
	l.kept = l.Router.RouteFrom(l.kept[:0], decoded, &l.slab)
	l.routed = l.kept
}

// passes reports whether nothing of a record's writes is needed beyond it: they
// become rows at once, and that is all.
func (l *lane) passes(follows bool) bool { return l.which == schemas.Batch && !follows }

// untraced ends the span of a record that has no state of its own.
func (l *lane) untraced(outcome string) {
	l.trace.End(outcome)
	l.trace = nil
}

// mine sorts what was routed to this lane into writes and rejects.
func (l *lane) mine() (writes, rejects []router.Routed) {
	mine := slices.DeleteFunc(l.routed, func(r router.Routed) bool { return r.Lane != l.which && !r.Taken })
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
func (l *lane) undecodable(p *kafka.Partition, r *kafka.Record, err error) (taken bool) {
	immediate, _ := l.Router.TopicLanes(r.Topic)
	if immediate && l.which == schemas.Batch && !errors.Is(err, schemas.ErrSchemaMissing) {
		switch p.DecideAll(r.Offset) {
		case ack.Wait:
			return false
		case ack.Leave:
			l.count(r, outcomeOtherLane)
			return true
		case ack.Take:
		}
	}
	if l.floods.undecodable(r.Topic) {
		return false
	}
	(&part{recordState: l.begin(p, r, 1)}).deadLetter(deadletter.Reason{
		Stage: deadletter.Decoding, Code: "decode", Message: err.Error(),
	}, err)
	return true
}

// decide says of each write that the routes give to the other lane whether that
// one takes it. It reports false if this cannot be said yet: the record waits.
func (l *lane) decide(p *kafka.Partition, r *kafka.Record) bool {
	for i := range l.routed {
		w := &l.routed[i]
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

func (l *lane) count(r *kafka.Record, outcome string) {
	l.metrics.cached.records.of(recordsKey{r.Topic, outcome}).Inc()
}

// ahead reads records before their turn, on several processors. Which rows a
// record means follows from the record alone, and to decode, route and encode it
// is most of what it costs. What has an effect waits for the record's turn: only
// there it is counted, filed and held. A record that means anything but rows, or
// nothing, is read once more in its turn, as if nobody had read it.
type ahead struct {
	files   *fileDelivery
	readers []*rowReader // the first is for the lane's own goroutine

	// Between begin and end:
	chunks  []chunk
	next    atomic.Int64 // chunk that nobody reads yet
	helpers sync.WaitGroup
}

const (
	// chunkRecords are read by one goroutine: so many that to hand them over
	// costs nothing to speak of.
	chunkRecords = 64
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
	prepared []preparedRecord
	rows     []rowAhead
	text     []byte // of the rows
}

// preparedRecord is what is known of a record before its turn.
type preparedRecord struct {
	known       bool      // else it says nothing
	first, next int       // of the chunk's rows; none: it changes nothing
	begun       time.Time // when it was read, if somebody traces it
}

// rowAhead is a row of a mapping's file, from a place in the chunk's text to another.
type rowAhead struct {
	mapping  *router.Compiled
	encoder  *batcher.Encoder // the mapping's
	from, to int
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
		encoders, err := encodersOf(files.lane.Router, files.files)
		if err != nil {
			return nil, err
		}
		a.readers = append(a.readers, &rowReader{open(), encoders, files.lane.tracing.tracer})
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
		c.records, c.read, c.prepared, c.rows, c.text = some, make(chan struct{}), c.prepared[:0], c.rows[:0], c.text[:0]
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

// help reads a chunk that nobody reads yet; false if there is none.
func (a *ahead) help(d *rowReader) bool {
	i := a.next.Add(1) - 1
	if i >= int64(len(a.chunks)) {
		return false
	}
	d.read(&a.chunks[i])
	return true
}

// prepared is what the i-th record means, and the chunk that holds its rows. Until
// that is read, it helps.
func (a *ahead) prepared(i int) (*chunk, preparedRecord) {
	c := &a.chunks[i/chunkRecords]
	if i %= chunkRecords; i == 0 {
		c.await(func() bool { return a.help(a.readers[0]) })
		c.announce()
	}
	return c, c.prepared[i]
}

// await waits for the chunk, and meanwhile does what there is to do.
func (c *chunk) await(work func() bool) {
	for {
		select {
		case <-c.read:
			return
		default:
		}
		if !work() {
			<-c.read
			return
		}
	}
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
}

// rowReader reads records ahead of their turn, in one goroutine.
type rowReader struct {
	decode.Reader
	encoders []*batcher.Encoder // by mapping; nil where it has no batch lane
	tracer   *tracing.Tracer
}

func encodersOf(r *router.Router, files *batcher.Batcher) ([]*batcher.Encoder, error) {
	encoders := make([]*batcher.Encoder, len(r.Mappings()))
	for _, m := range r.Mappings() {
		if _, batch := m.Lanes(); !batch {
			continue
		}
		var err error
		if encoders[m.Index], err = files.Encoder(m.Name); err != nil {
			return nil, err
		}
	}
	return encoders, nil
}

// read finds out what the records of a chunk mean.
func (d *rowReader) read(c *chunk) {
	defer close(c.read)
	for _, r := range c.records {
		m := preparedRecord{first: len(c.rows), begun: d.tracer.Begin()}
		m.known = d.rows(c, r)
		m.next = len(c.rows)
		c.prepared = append(c.prepared, m)
	}
	d.Forget()
}

// rows appends the rows that a record means; false if it may mean something else,
// too.
func (d *rowReader) rows(c *chunk, r *kafka.Record) bool {
	if len(r.Value) > longestAhead {
		return false
	}
	decoded, err := d.Decode(r)
	if err != nil {
		return false
	}
	routed := d.RouteOver(decoded)
	for i := range routed {
		w := &routed[i]
		if w.Err != nil || w.Lane != schemas.Batch {
			return false
		}
		encoder, from := d.encoders[w.Mapping.Index], len(c.text)
		if c.text, err = encoder.AppendRow(c.text, &w.Write); err != nil {
			return false
		}
		c.rows = append(c.rows, rowAhead{w.Mapping, encoder, from, len(c.text)})
	}
	return true
}
