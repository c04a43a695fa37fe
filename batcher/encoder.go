package batcher

import (
	"errors"

	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/schemas"
)

// Encoder encodes the writes of one mapping as the rows that they will be, before
// it is their turn: what a row is made of is nobody's but the write's.
type Encoder struct {
	member *member
	rows   *spool.Rows
}

// Encoder returns a new one.
func (b *Batcher) Encoder(mapping string) (*Encoder, error) {
	m, ok := b.byName[mapping]
	if !ok {
		return nil, unknown(mapping)
	}
	r, err := m.Rows()
	if err != nil {
		return nil, err
	}
	return &Encoder{m, r}, nil
}

var errTold = errors.New("the other lane writes the table too: Append has to see the whole write")

// AppendRow appends the row of w to dst. On an error dst comes back as it was, and
// the batcher's Append decides what becomes of the write. It is for one goroutine,
// and any number of encoders may be at work while rows are filed.
func (e *Encoder) AppendRow(dst []byte, w *schemas.Write) ([]byte, error) {
	if e.member.DualLane {
		return dst, errTold
	}
	if err := e.member.accepts.row(w.Op); err != nil {
		return dst, err
	}
	return e.rows.AppendEntry(dst, w)
}

// Expect is told of rows, end to end, that are about to be filed.
func (e *Encoder) Expect(rows []byte) {
	l := e.member.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if g := l.open; g != nil {
		g.journals[e.member.index].Expect(rows)
	}
}

// File is the batcher's Append for a write whose row an encoder of the mapping has
// made. The row is copied. An error is the disk's, as Append's.
func (e *Encoder) File(row []byte, p Partition, offset int64) error {
	m := e.member
	l := m.line
	l.mu.Lock()
	defer l.mu.Unlock()
	g, _ := l.generationFor(p, offset)
	if err := m.makeRoom(g); err != nil {
		return err
	}
	m.count(g, g.journals[m.index].Put(row))
	g.hold(p, offset)
	return nil
}
