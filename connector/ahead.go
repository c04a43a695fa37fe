package connector

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/decode"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/tracing"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

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
