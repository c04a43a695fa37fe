package h1

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// longest is the most bytes of a body that are written before anybody reads: a
// socket's buffers hold it, and servers read as much of what they refuse before
// they cut the line and their answer with it.
const longest = 64 << 10

// Transport is an [http.RoundTripper]. Of its connections it keeps those whose
// answers were read to the end.
type Transport struct {
	rest   *http.Transport // makes the calls that are not short, and says how connections are made
	secure *tls.Config     // of a peer whose name is still to be set

	mu    sync.Mutex
	peers map[address]*peer // nil: net/http makes the peer's calls
	sweep *time.Timer       // closes what has been idle too long; nil: nothing is idle
}

// address is whom to connect to, as in a URL.
type address struct{ scheme, host string }

// New makes connections as rest would, and leaves to rest what is no short call.
// Rest has a DialContext; it must not be in use yet, nor be changed any more.
func New(rest *http.Transport) *Transport {
	secure := &tls.Config{}
	if rest.TLSClientConfig != nil {
		secure = rest.TLSClientConfig.Clone() // rest writes into its own when it is first used
	}
	secure.NextProtos = []string{"http/1.1"}
	return &Transport{rest: rest, secure: secure, peers: map[address]*peer{}}
}

// RoundTrip is [http.RoundTripper]'s. An error is the connection's, of package net
// or io, or what the request's context ended for. As with net/http a call is made
// again, on another connection, if nothing of it was sent on one that had been
// idle, and one that only reads also if nothing came back.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	p, known := t.peer(r)
	if p == nil {
		response, err := t.rest.RoundTrip(r)
		if err == nil && !known {
			t.meet(r.URL, response.ProtoMajor)
		}
		return response, err
	}
	for {
		c, err := p.connection(r.Context())
		if err != nil {
			_ = r.Body.Close()
			return nil, err
		}
		response, err := c.exchange(r)
		if err == nil || !c.untouched(r) {
			return response, err
		}
		if r.GetBody != nil {
			again := *r
			if again.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
			r = &again
		}
	}
}

// CloseIdleConnections is for [http.Client.CloseIdleConnections].
func (t *Transport) CloseIdleConnections() {
	t.expire(time.Now())
	t.rest.CloseIdleConnections()
}

// peer is whom a call goes to; nil: net/http makes it, and unless it is known whether
// the next one, too, the answer tells.
func (t *Transport) peer(r *http.Request) (p *peer, known bool) {
	if !short(r) {
		return nil, true
	}
	if t.rest.Proxy != nil {
		if proxy, err := t.rest.Proxy(r); proxy != nil || err != nil {
			return nil, true
		}
	}
	t.mu.Lock()
	p, known = t.peers[address{r.URL.Scheme, r.URL.Host}]
	t.mu.Unlock()
	if !known && r.URL.Scheme == "http" { // of TLS the first answer tells the protocol
		p, known = t.meet(r.URL, 1), true
	}
	return p, known
}

// meet notes which version of HTTP a peer speaks.
func (t *Transport) meet(u *url.URL, major int) *peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := address{u.Scheme, u.Host}
	p, known := t.peers[key]
	if !known {
		if major == 1 && isASCII(u.Host) {
			p = t.newPeer(u)
		}
		t.peers[key] = p
	}
	return p
}

// isASCII is false of a name that only net/http makes sense of.
func isASCII(host string) bool {
	return strings.IndexFunc(host, func(r rune) bool { return r >= 0x80 }) < 0
}

// short reports whether the whole request can be written before its answer is
// looked at, and be written again.
func short(r *http.Request) bool {
	switch {
	case r.Body == nil, r.ContentLength < 0, r.ContentLength > longest:
		return false
	case r.Body != http.NoBody && (r.ContentLength == 0 || r.GetBody == nil):
		return false
	}
	return r.Method != http.MethodHead && r.Method != http.MethodConnect &&
		r.Header["Expect"] == nil && r.Header["Upgrade"] == nil && !r.Close
}

// expire closes the connections that have been idle since then or before.
func (t *Transport) expire(then time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := 0
	for _, p := range t.peers {
		if p != nil {
			left += p.expire(then)
		}
	}
	switch {
	case t.sweep == nil:
	case left > 0:
		t.sweep.Reset(t.patience())
	default:
		t.sweep.Stop()
		t.sweep = nil
	}
}

// patience is how long a connection may be idle.
func (t *Transport) patience() time.Duration {
	return cmp.Or(t.rest.IdleConnTimeout, 90*time.Second)
}

// peer is one server, and the connections to it that are idle.
type peer struct {
	transport *Transport
	address   string      // host:port
	tls       *tls.Config // nil: plain
	idle      []*conn     // the longest idle first; guarded by the transport
}

func (t *Transport) newPeer(u *url.URL) *peer {
	p, port := &peer{transport: t}, "80"
	if u.Scheme == "https" {
		p.tls, port = t.secure.Clone(), "443"
		p.tls.ServerName = cmp.Or(p.tls.ServerName, u.Hostname())
	}
	p.address = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
	return p
}

// connection is an idle one that is still good, or a new one.
func (p *peer) connection(ctx context.Context) (*conn, error) {
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.GetConn != nil {
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
	if trace != nil && trace.GotConn != nil {
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
	room := len(p.idle) < max(t.rest.MaxIdleConnsPerHost, http.DefaultMaxIdleConnsPerHost)
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

// expire closes what has been idle since then or before, and returns how many
// connections are left. The transport is locked: TLS may have to wait until it has
// said goodbye.
func (p *peer) expire(then time.Time) (left int) {
	p.idle = slices.DeleteFunc(p.idle, func(c *conn) bool {
		old := !c.since.After(then)
		if old {
			go func() { _ = c.Close() }()
		}
		return old
	})
	return len(p.idle)
}

// open makes a connection.
func (p *peer) open(ctx context.Context) (*conn, error) {
	rest := p.transport.rest
	plain, err := rest.DialContext(ctx, "tcp", p.address)
	if err != nil {
		return nil, err
	}
	if p.tls == nil {
		return newConn(p, plain, plain), nil
	}
	if limit := rest.TLSHandshakeTimeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	secured := tls.Client(plain, p.tls)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = plain.Close()
		return nil, err
	}
	return newConn(p, secured, plain), nil
}
