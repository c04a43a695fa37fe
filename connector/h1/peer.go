package h1

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net/http/httptrace"
	"time"
)

// The protocols as TLS agrees on them; multiplexing is HTTP/2 (RFC 9113, 3.2).
const (
	multiplexing = "h2"
	plainHTTP    = "http/1.1" // also where nothing is agreed on
)

var errMultiplexed = errors.New("the peer has chosen HTTP/2")

// peer is one server, and the connections to it that are idle.
type peer struct {
	transport *Transport
	address   string        // host:port
	tls       *tls.Config   // nil: plain
	first     chan struct{} // held by the one that asks a TLS peer for its protocol

	// Guarded by the transport.
	idle   []*conn // the longest idle first
	speaks string  // of a TLS peer, "" until it is known; one of HTTP/2 is never called from here again
}

// connection is an idle one that is still good, or a new one.
func (p *peer) connection(ctx context.Context) (*conn, error) {
	trace := traced(ctx)
	if trace.GetConn != nil {
		trace.GetConn(p.address)
	}
	c := p.take()
	for c != nil && !c.good() {
		_ = c.Close()
		c = p.take()
	}
	if c == nil {
		var err error
		if c, err = p.open(ctx); err != nil {
			return nil, err
		}
	}
	if trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: c.Conn, Reused: c.reused, WasIdle: c.reused})
	}
	return c, nil
}

// take is the connection that was last in use: those that are not needed grow old.
func (p *peer) take() *conn {
	p.transport.mu.Lock()
	defer p.transport.mu.Unlock()
	n := len(p.idle) - 1
	if n < 0 {
		return nil
	}
	c := p.idle[n]
	p.idle[n], p.idle = nil, p.idle[:n]
	c.reused = true
	return c
}

// keep takes a connection back whose answer was read to the end.
func (p *peer) keep(c *conn) {
	t := p.transport
	c.since = time.Now()
	t.mu.Lock()
	room := len(p.idle) < max(t.rest.MaxIdleConnsPerHost, 2) && p.speaks != multiplexing
	if room {
		p.idle = append(p.idle, c)
		if t.sweep == nil {
			t.sweep = time.AfterFunc(t.patience(), func() { t.expire(time.Now().Add(-t.patience())) })
		}
	}
	t.mu.Unlock()
	if !room {
		_ = c.Close()
	}
}

// open makes a connection. As long as nobody knows which protocol a TLS peer
// chooses one goroutine at a time asks: of HTTP/2 a single connection is too many.
func (p *peer) open(ctx context.Context) (*conn, error) {
	if p.tls != nil && p.protocol() == "" {
		select {
		case p.first <- struct{}{}:
			defer func() { <-p.first }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if p.protocol() == multiplexing {
		return nil, errMultiplexed
	}
	plain, err := p.transport.dial(ctx, p.address)
	if err != nil {
		return nil, err
	}
	if p.tls == nil {
		return newConn(p, plain, plain), nil
	}
	secured := tls.Client(plain, p.tls)
	if limit := p.transport.rest.TLSHandshakeTimeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = plain.Close()
		return nil, err
	}
	if p.agreed(secured.ConnectionState().NegotiatedProtocol) == multiplexing {
		_ = secured.Close()
		return nil, errMultiplexed
	}
	return newConn(p, secured, plain), nil
}

func (p *peer) protocol() string {
	p.transport.mu.Lock()
	defer p.transport.mu.Unlock()
	return p.speaks
}

// agreed notes what a connection agreed on, and returns it. Who has once chosen
// HTTP/2 stays with it.
func (p *peer) agreed(protocol string) string {
	p.transport.mu.Lock()
	defer p.transport.mu.Unlock()
	if p.speaks != multiplexing {
		p.speaks = cmp.Or(protocol, plainHTTP)
	}
	return protocol
}
