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
	bufferSize = 4 << 10
	// earlyAnswerTimeout is how long to wait for an answer that a server may have sent
	// before it closed the connection in the middle of a request.
	earlyAnswerTimeout = time.Second
	// tlsRecordTimeout is how long to wait for a TLS record that has begun to arrive.
	tlsRecordTimeout = 10 * time.Millisecond
)

var (
	errHeader = errors.New("the header of the answer is too long")
	errClosed = errors.New("read after close")
	errEnd    = io.EOF          // of a body
	past      = time.Unix(1, 0) // as a deadline
)

// conn is a connection, used by one call at a time.
type conn struct {
	net.Conn  // what calls are written to
	socket    *socket
	host      *host
	in        *bufio.Reader
	out       *bufio.Writer
	interrupt func() // ends a Read and a Write that wait
	idleSince time.Time
	reused    bool

	// Of the call under way.
	header   int64 // bytes that may still be read before the body
	sent     int64 // bytes
	received int64 // bytes
	writeErr error
}

func newConn(h *host, c, tcp net.Conn) *conn {
	n := &conn{Conn: c, host: h, socket: newSocket(tcp)}
	n.in = bufio.NewReaderSize(n, bufferSize)
	n.out = bufio.NewWriterSize(n, max(h.transport.fallback.WriteBufferSize, bufferSize))
	n.interrupt = func() { _ = c.SetDeadline(past) }
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
		c.writeErr = err
	}
	return n, err
}

// roundTrip writes the request and reads the answer up to its body, which holds the
// connection until it is read to the end or closed.
func (c *conn) roundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	c.sent, c.received, c.writeErr = 0, 0, nil
	stop := context.AfterFunc(ctx, c.interrupt)
	response, whole, err := c.writeAndRead(r)
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

// unflushed is a Writer that net/http does not know: of a bufio.Writer it would flush
// the header before a body that it does not know to be in memory.
type unflushed struct{ *bufio.Writer }

// writeAndRead writes the request and reads the answer. If the server did not take
// the whole request, the answer may say why.
func (c *conn) writeAndRead(r *http.Request) (response *http.Response, whole bool, err error) {
	if err = r.Write(unflushed{c.out}); err == nil {
		err = c.out.Flush()
	}
	if err == nil {
		response, err = c.readAnswer(r)
		return response, true, err
	}
	// If the context ended first, this deadline must not replace the one in the past.
	if c.writeErr == nil || c.sent == 0 || c.SetReadDeadline(time.Now().Add(earlyAnswerTimeout)) != nil || r.Context().Err() != nil {
		return nil, false, err
	}
	response, none := c.readAnswer(r)
	if none != nil {
		return nil, false, err
	}
	return response, false, nil
}

// readAnswer reads an answer up to its body. Informational answers before it count
// towards the limit of its header.
func (c *conn) readAnswer(r *http.Request) (*http.Response, error) {
	if c.header = c.host.transport.fallback.MaxResponseHeaderBytes; c.header <= 0 {
		c.header = http.DefaultMaxHeaderBytes
	}
	for {
		response, err := http.ReadResponse(c.in, r)
		if err != nil || response.StatusCode/100 != 1 || response.StatusCode == http.StatusSwitchingProtocols {
			return response, err
		}
	}
}

// repeatable reports whether a failed call can be repeated as if it had not been
// made: the server had closed the idle connection.
func (c *conn) repeatable(r *http.Request) bool {
	if !c.reused || c.received > 0 || r.Context().Err() != nil {
		return false
	}
	return c.sent == 0 && c.writeErr != nil || r.Method == http.MethodGet && r.Body == http.NoBody
}

// usable reports whether an idle connection can take a call: neither its end nor an
// answer without a call has come. With TLS, what has come may be a record of TLS's
// own, and an answer may have been read together with the last one.
func (c *conn) usable() bool {
	readable := c.socket.readable()
	if c.host.tls == nil {
		return !readable
	}
	until := past
	if readable {
		until = time.Now().Add(tlsRecordTimeout)
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
	done atomic.Pointer[error] // what Read returns once the connection is given back or closed
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

// Close closes the connection, too, unless the body was read to the end.
func (b *body) Close() error {
	b.finish(&errClosed)
	return nil
}

func (b *body) finish(why *error) {
	if !b.done.CompareAndSwap(nil, why) {
		return
	}
	if uninterrupted := b.stop(); uninterrupted && why == &errEnd && !b.last && b.conn.in.Buffered() == 0 {
		b.conn.host.put(b.conn)
		return
	}
	_ = b.conn.Close()
}
