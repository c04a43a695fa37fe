//go:build simulation

package simulation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// network joins hosts in memory. What is written arrives later, in order.
type network struct {
	latency func(more time.Duration) time.Duration // of the next message, which may take so much more

	mu        sync.Mutex
	listeners map[string]*listener
	ports     int // given to those who listen at port 0
}

func newNetwork(latency func(more time.Duration) time.Duration) *network {
	return &network{latency: latency, listeners: map[string]*listener{}, ports: 20000}
}

// Listen opens localhost:PORT.
func (n *network) Listen(_, address string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if port == "0" {
		n.ports++
		port = fmt.Sprint(n.ports)
	}
	at := "localhost:" + port
	if n.listeners[at] != nil {
		return nil, fmt.Errorf("%s: %w", at, syscall.EADDRINUSE)
	}
	l := &listener{network: n, at: at, accepted: make(chan net.Conn), closed: make(chan struct{})}
	n.listeners[at] = l
	return l, nil
}

func (n *network) listener(at string) *listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.listeners[at]
}

type listener struct {
	network  *network
	at       string
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.network.mu.Lock()
		defer l.network.mu.Unlock()
		delete(l.network.listeners, l.at)
	})
	return nil
}

func (l *listener) Addr() net.Addr { return address(l.at) }

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// reach is how a host reaches an address.
type reach int

const (
	open    reach = iota
	refused       // connections are reset, new ones refused
	silent        // nothing arrives, and nothing says so
	deaf          // what is sent arrives there, and nothing comes back
)

// host is who connects: a member, or the world itself.
type host struct {
	network *network
	name    string
	slow    atomic.Int64 // how much longer its messages may take, either way

	mu    sync.Mutex
	to    map[string]reach
	dead  bool // nothing is reached any more
	conns map[*conn]string
}

func (n *network) host(name string) *host {
	return &host{network: n, name: name, to: map[string]reach{}, conns: map[*conn]string{}}
}

func (h *host) latency() time.Duration { return h.network.latency(time.Duration(h.slow.Load())) }

func (h *host) reachOf(at string) reach {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		return refused
	}
	return h.to[at]
}

// Dial connects as net.Dialer's DialContext does.
func (h *host) Dial(ctx context.Context, _, at string) (net.Conn, error) {
	l := h.network.listener(at)
	switch {
	case h.reachOf(at) == silent:
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(10 * time.Second):
			return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: address(at), Err: syscall.ETIMEDOUT}
		}
	case h.reachOf(at) == refused, l == nil:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: address(at), Err: syscall.ECONNREFUSED}
	}
	there, back := newStream(), newStream()
	near := &conn{in: back, out: there, latency: h.latency, remote: at}
	far := &conn{in: there, out: back, latency: h.latency, remote: h.name}
	select {
	case l.accepted <- far:
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: address(at), Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	h.mu.Lock()
	near.ended = func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.conns, near)
	}
	h.conns[near] = at
	h.mu.Unlock()
	switch h.reachOf(at) {
	case open:
	case deaf:
		near.in.hush()
	default: // cut meanwhile
		near.sever(false)
	}
	return near, nil
}

// set says how the host reaches an address from now on. What is on its way may still
// arrive.
func (h *host) set(at string, r reach, arrives bool) {
	h.mu.Lock()
	h.to[at] = r
	h.mu.Unlock()
	h.cut(func(to string) bool { return to == at }, r, arrives)
}

// reachBroker ends what keeps a member from the broker. Connections that are well stay.
func (h *host) reachBroker() {
	h.mu.Lock()
	reached := h.to[brokerAt] == open
	h.mu.Unlock()
	if reached {
		return
	}
	h.set(brokerAt, refused, false)
	h.set(brokerAt, open, false)
}

// kill cuts everything, once and for all.
func (h *host) kill(arrives bool) {
	h.mu.Lock()
	h.dead = true
	h.mu.Unlock()
	h.cut(func(string) bool { return true }, refused, arrives)
}

func (h *host) cut(of func(at string) bool, r reach, arrives bool) {
	h.mu.Lock()
	var met []*conn
	for c, at := range h.conns {
		if of(at) {
			met = append(met, c)
		}
	}
	h.mu.Unlock()
	for _, c := range met {
		switch r {
		case silent:
			c.in.hush()
			c.out.hush()
		case deaf:
			c.in.hush()
		default:
			c.sever(arrives)
		}
	}
}

// conn is one end of a connection.
type conn struct {
	in, out *stream
	latency func() time.Duration
	remote  string
	ended   func() // nil: the far end
	once    sync.Once
}

func (c *conn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.out.write(p, c.latency()) }
func (c *conn) LocalAddr() net.Addr         { return address("localhost:2") }
func (c *conn) RemoteAddr() net.Addr        { return address(c.remote) }

func (c *conn) Close() error {
	c.once.Do(func() {
		c.in.change(func(s *stream) { s.failed = net.ErrClosed })
		c.out.change(func(s *stream) { s.closed = true })
		if c.ended != nil {
			c.ended()
		}
	})
	return nil
}

// sever ends the connection for both. What the near end has written may still arrive.
func (c *conn) sever(arrives bool) {
	c.in.change(func(s *stream) { s.failed = syscall.ECONNRESET })
	c.out.change(func(s *stream) {
		s.reset = true
		if s.closed = arrives; !arrives {
			s.failed = syscall.ECONNRESET
		}
	})
}

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	if c.in.readBy = t; c.in.waits {
		c.in.arm(time.Now())
	}
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.out.writeBy = t
	return nil
}

// stream is one direction of a connection. One goroutine at a time reads it.
type stream struct {
	changed chan struct{} // has one when who waits is to look again
	timer   *time.Timer   // for when something arrives, or reading has taken too long

	mu      sync.Mutex
	waits   bool // a reader, for the two above
	queue   []message
	spare   []byte // of a message that was read
	closed  bool   // by who writes: the end comes after the queue
	reset   bool   // who writes is told so
	silent  bool   // nothing arrives
	failed  error  // of who reads
	readBy  time.Time
	writeBy time.Time
}

type message struct {
	at   time.Time // of its arrival
	data []byte
	left []byte // of data, what is not read yet
}

func newStream() *stream {
	s := &stream{changed: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	s.timer.Stop()
	return s
}

// change has who reads look again.
func (s *stream) change(f func(*stream)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// hush loses what is on its way and all that follows.
func (s *stream) hush() {
	s.change(func(s *stream) { s.silent, s.queue = true, nil })
}

func (s *stream) write(p []byte, latency time.Duration) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case s.reset:
		return 0, syscall.ECONNRESET
	case s.closed:
		return 0, net.ErrClosed
	case s.failed != nil:
		return 0, syscall.EPIPE
	case !s.writeBy.IsZero() && !now.Before(s.writeBy):
		return 0, os.ErrDeadlineExceeded
	case s.silent:
		return len(p), nil
	}
	at := now.Add(latency)
	if last := len(s.queue) - 1; last >= 0 && s.queue[last].at.After(at) {
		at = s.queue[last].at
	}
	data := append(s.spare[:0], p...)
	s.spare = nil
	if s.queue = append(s.queue, message{at, data, data}); len(s.queue) == 1 && s.waits {
		s.arm(now)
	}
	return len(p), nil
}

func (s *stream) read(p []byte) (int, error) {
	for {
		n, err := s.take(p)
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		select {
		case <-s.changed:
		case <-s.timer.C:
		}
	}
}

// take is what has arrived. If it is nothing, the timer is set for when to look again.
func (s *stream) take(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits = false
	now := time.Now()
	switch {
	case s.failed != nil:
		return 0, s.failed
	case !s.readBy.IsZero() && !now.Before(s.readBy):
		return 0, os.ErrDeadlineExceeded
	case s.silent:
	case len(s.queue) > 0 && !s.queue[0].at.After(now):
		first := &s.queue[0]
		n = copy(p, first.left)
		if first.left = first.left[n:]; len(first.left) == 0 {
			if cap(first.data) <= mostSpare {
				s.spare = first.data
			}
			s.queue = slices.Delete(s.queue, 0, 1)
		}
		return n, nil
	case len(s.queue) == 0 && s.closed:
		return 0, io.EOF
	}
	s.waits = true
	s.arm(now)
	return 0, nil
}

// mostSpare is how many bytes of a message are kept for the next one.
const mostSpare = 4 << 10

// arm sets the timer for what comes next. s.mu is held.
func (s *stream) arm(now time.Time) {
	next := s.readBy
	if len(s.queue) > 0 && !s.silent && (next.IsZero() || s.queue[0].at.Before(next)) {
		next = s.queue[0].at
	}
	if next.IsZero() {
		s.timer.Stop()
		return
	}
	s.timer.Reset(next.Sub(now))
}
