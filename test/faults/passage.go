package main

import (
	"errors"
	"net"
	"sync"
)

// mode is what a passage does to the connections through it.
type mode int

const (
	passing mode = iota
	silent       // what a member sends arrives nowhere, and nothing comes back
	down         // connections are reset, old ones and new ones
	deaf         // what a member sends is done; instead of the answer comes a reset
)

// passage is one member's way to somewhere: a listener whose connections can be
// cut. Connections that lived through a fault are reset at its end, so that
// nothing arrives late.
type passage struct {
	listener net.Listener

	mu    sync.Mutex
	mode  mode
	over  chan struct{} // closed when the mode ends
	conns map[*passingConn]bool
}

func newPassage() (*passage, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &passage{listener: l, over: make(chan struct{}), conns: map[*passingConn]bool{}}, nil
}

func (p *passage) address() string { return p.listener.Addr().String() }

// set begins a mode and ends the one before.
func (p *passage) set(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.mode
	p.mode = m
	close(p.over)
	p.over = make(chan struct{})
	if m == down || before != passing {
		for c := range p.conns {
			c.reset()
		}
	}
}

func (p *passage) now() (mode, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode, p.over
}

// Accept hands out connections that obey the passage.
func (p *passage) Accept() (net.Conn, error) {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return nil, err
		}
		conn := &passingConn{Conn: c, passage: p}
		p.mu.Lock()
		refused := p.mode == down
		p.conns[conn] = true
		p.mu.Unlock()
		if !refused {
			return conn, nil
		}
		conn.reset()
		_ = conn.Close() // reset already
	}
}

// Close ends the listener; connections live on.
func (p *passage) Close() error { return p.listener.Close() }

// Addr makes a passage a net.Listener.
func (p *passage) Addr() net.Addr { return p.listener.Addr() }

type passingConn struct {
	net.Conn
	passage *passage
}

var errCut = errors.New("the connection was cut")

// Read holds what arrives while the passage is silent, for good: by the time
// the silence ends, the connection is reset.
func (c *passingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if mode, over := c.passage.now(); mode == silent {
		<-over
		return 0, errCut
	}
	return n, err
}

// Write sends the answer, or something worse.
func (c *passingConn) Write(b []byte) (int, error) {
	switch mode, over := c.passage.now(); mode {
	case silent:
		<-over
		return 0, errCut
	case deaf:
		c.reset()
		return 0, errCut
	}
	return c.Conn.Write(b)
}

// reset ends the connection so that the member notices at once.
func (c *passingConn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // of a connection that may be gone
	}
	_ = c.Conn.Close()
}

func (c *passingConn) Close() error {
	c.passage.mu.Lock()
	delete(c.passage.conns, c)
	c.passage.mu.Unlock()
	return c.Conn.Close()
}
