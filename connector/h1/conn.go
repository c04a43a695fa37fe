package h1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	buffer = 4 << 10
	// wait is how long an answer is hoped for that a server may have sent before it
	// cut a request off.
	wait = time.Second
	// glance is how long a TLS connection may take for a record that is there.
	glance = 10 * time.Millisecond
)

var (
	errHeader = errors.New("the header of the answer is too long")
	errClosed = errors.New("read after close")
	errEnd    = io.EOF          // of a body
	past      = time.Unix(1, 0) // as a deadline
)

// conn is a connection, used by one call at a time.
type conn struct {
	net.Conn // what calls are written to
	socket   *socket
	peer     *peer
	in       *bufio.Reader
	out      *bufio.Writer
	cut      func()    // interrupts what waits for the peer
	since    time.Time // it is idle
	reused   bool

	// Of the call under way.
	header   int64 // bytes that may still be read before the body
	sent     int64 // bytes
	received int64 // bytes
	broken   error // of writing to the peer
}

func newConn(p *peer, c, beneath net.Conn) *conn {
	n := &conn{Conn: c, peer: p, socket: newSocket(beneath)}
	n.in = bufio.NewReaderSize(n, buffer)
	n.out = bufio.NewWriterSize(n, max(p.transport.rest.WriteBufferSize, buffer))
	n.cut = func() { _ = c.SetDeadline(past) }
	return n
}

// Read is for in.
func (c *conn) Read(p []byte) (int, error) {
	if c.header <= 0 {
		return 0, errHeader
	}
	if int64(len(p)) > c.header {
		p = p[:c.header]
	}
	n, err := c.Conn.Read(p)
	c.header -= int64(n)
	c.received += int64(n)
	return n, err
}

// Write is for out.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent += int64(n)
	if err != nil {
		c.broken = err
	}
	return n, err
}

// exchange writes the request and reads the answer up to its body, which has the
// connection until it is read to the end or closed.
func (c *conn) exchange(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	c.sent, c.received, c.broken = 0, 0, nil
	stop := context.AfterFunc(ctx, c.cut)
	response, whole, err := c.converse(r)
	if err != nil {
		stop()
		_ = c.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	c.header = math.MaxInt64
	b := &body{
		ReadCloser: response.Body, conn: c, ctx: ctx, stop: stop,
		last: !whole || response.Close || response.StatusCode == http.StatusSwitchingProtocols,
	}
	if response.Body == http.NoBody {
		b.finish(&errEnd)
		return response, nil
	}
	response.Body = b
	return response, nil
}

// unflushed is a Writer that net/http does not know: ahead of a body that it does
// not know either it would flush the header.
type unflushed struct{ *bufio.Writer }

// converse writes and reads. If the peer did not take the whole request it may
// have said why.
func (c *conn) converse(r *http.Request) (response *http.Response, whole bool, err error) {
	if err = r.Write(unflushed{c.out}); err == nil {
		err = c.out.Flush()
	}
	if err == nil {
		response, err = c.answer(r)
		return response, true, err
	}
	// The deadline must not take the place of the one that ends the call.
	if c.broken == nil || c.sent == 0 || c.SetReadDeadline(time.Now().Add(wait)) != nil || r.Context().Err() != nil {
		return nil, false, err
	}
	response, none := c.answer(r)
	if none != nil {
		return nil, false, err
	}
	return response, false, nil
}

// answer reads an answer up to its body. Informational ones before it count towards
// the limit of its header.
func (c *conn) answer(r *http.Request) (*http.Response, error) {
	if c.header = c.peer.transport.rest.MaxResponseHeaderBytes; c.header <= 0 {
		c.header = http.DefaultMaxHeaderBytes
	}
	for {
		response, err := http.ReadResponse(c.in, r)
		if err != nil || response.StatusCode/100 != 1 || response.StatusCode == http.StatusSwitchingProtocols {
			return response, err
		}
	}
}

// untouched reports whether the failed call may be made again as if it had not
// been made: the peer had closed a connection that was idle.
func (c *conn) untouched(r *http.Request) bool {
	if !c.reused || c.received > 0 || r.Context().Err() != nil {
		return false
	}
	return c.sent == 0 && c.broken != nil || r.Method == http.MethodGet && r.Body == http.NoBody
}

// good reports whether an idle connection can be used: nothing has come, neither
// its end nor an answer without a call. Of TLS there may be a record on the line that
// is for TLS itself, or behind it an answer that was read with the last.
func (c *conn) good() bool {
	pending := c.socket.pending()
	if c.peer.tls == nil {
		return !pending
	}
	until := past
	if pending {
		until = time.Now().Add(glance)
	}
	if c.SetReadDeadline(until) != nil {
		return false
	}
	c.header = 1
	_, err := c.in.Peek(1)
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout() && c.SetReadDeadline(time.Time{}) == nil
}

// body gives the connection back when it has been read to the end.
type body struct {
	io.ReadCloser
	conn *conn
	ctx  context.Context //nolint:containedctx // the call's, until its answer is read
	stop func() bool
	last bool                  // the connection ends with it
	done atomic.Pointer[error] // what a Read says since the connection is given back
}

func (b *body) Read(p []byte) (int, error) {
	if err := b.done.Load(); err != nil {
		return 0, *err
	}
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.finish(&errEnd)
	case err != nil:
		if b.ctx.Err() != nil {
			err = context.Cause(b.ctx)
		}
		why := err
		b.finish(&why)
	}
	return n, err
}

// Close gives up what has not been read, and the connection with it.
func (b *body) Close() error {
	b.finish(&errClosed)
	return nil
}

func (b *body) finish(why *error) {
	if !b.done.CompareAndSwap(nil, why) {
		return
	}
	if uncut := b.stop(); uncut && why == &errEnd && !b.last && b.conn.in.Buffered() == 0 {
		b.conn.peer.keep(b.conn)
		return
	}
	_ = b.conn.Close()
}
