package service

import (
	"bytes"
	"io"
	"sync/atomic"
)

// Body is what a call sends: one value of JSON.
type Body interface {
	// AppendJSON appends it to dst, which is memory of an earlier call. It is asked
	// again if the call has to be repeated.
	AppendJSON(dst []byte) []byte
}

// JSON is a body that is there already.
type JSON []byte

// AppendJSON is Body's.
func (j JSON) AppendJSON(dst []byte) []byte { return append(dst, j...) }

// longestKept is how long a body may be, in bytes, whose memory is kept.
const longestKept = 64 << 10

// lent is memory for one body after the other. A transport may read a body even
// after the call was answered, until it closes it.
type lent struct {
	text  []byte
	open  atomic.Int32                  // readers that are not closed
	again func() (io.ReadCloser, error) // is reader, for a request
}

func newLent() *lent {
	l := &lent{}
	l.again = func() (io.ReadCloser, error) { return l.reader(), nil }
	return l
}

// write puts the body there, which nobody may be reading.
func (l *lent) write(b Body) { l.text = b.AppendJSON(l.text[:0]) }

// reader reads the body from its beginning.
func (l *lent) reader() io.ReadCloser {
	l.open.Add(1)
	r := &lentReader{of: l}
	r.Reset(l.text)
	return r
}

// free reports whether another body may take the place of this one, and its
// memory is worth to be kept.
func (l *lent) free() bool { return l.open.Load() == 0 && cap(l.text) <= longestKept }

type lentReader struct {
	bytes.Reader
	of     *lent
	closed atomic.Bool
}

// Close may be called more than once.
func (r *lentReader) Close() error {
	if r.closed.CompareAndSwap(false, true) {
		r.of.open.Add(-1)
	}
	return nil
}
