package batcher

import (
	"errors"

	"github.com/feedsink/feedsink/schemas"
)

// Encoder encodes writes as the rows that they will be, before it is their turn:
// what a row is made of is nobody's but the write's. It is for one goroutine, and
// any number of them may be at work while rows are appended.
type Encoder struct{ byName map[string]*member }

// Encoder returns a new one.
func (b *Batcher) Encoder() (*Encoder, error) {
	e := &Encoder{byName: make(map[string]*member, len(b.byName))}
	for name, m := range b.byName {
		own := *m
		var err error
		if own.rows, err = newRows(m.Mapping); err != nil {
			return nil, err
		}
		e.byName[name] = &own
	}
	return e, nil
}

var errTold = errors.New("the other lane writes the table too: Append has to see the whole write")

// AppendRow appends the row of w to dst, as AppendEncoded takes it. On an error
// dst comes back as it was, and Append decides what becomes of the write.
func (e *Encoder) AppendRow(dst []byte, mapping string, w *schemas.Write) ([]byte, error) {
	m, ok := e.byName[mapping]
	switch {
	case !ok:
		return dst, unknown(mapping)
	case m.Both:
		return dst, errTold
	}
	if err := m.loads(w.Op); err != nil {
		return dst, err
	}
	return m.rows.appendEntry(dst, w)
}

// AppendEncoded is Append for a write whose row an Encoder of this batcher has
// made. The row is copied. An error is the disk's, as Append's.
func (b *Batcher) AppendEncoded(mapping string, row []byte, p Partition, offset int64) error {
	m, ok := b.byName[mapping]
	if !ok {
		return unknown(mapping)
	}
	l := m.line
	l.mu.Lock()
	defer l.mu.Unlock()
	g, _ := l.generationFor(p, offset)
	if err := m.makeRoom(g); err != nil {
		return err
	}
	m.count(g, g.journals[m.index].put(row))
	g.hold(p, offset)
	return nil
}
