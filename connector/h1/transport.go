// Package h1 makes HTTP/1.1 calls with short bodies in the goroutine of the caller.
//
// net/http keeps two goroutines for each connection, one that writes and one that
// reads, so that an answer may come before the request is out. A body that fits
// into the socket's buffer needs neither: it is written, and then the answer is
// read. Messages are still written and parsed by net/http ([http.Request.Write],
// [http.ReadResponse]); this package has the connections.
//
// What is not such a call goes to net/http: HTTP/2 where a server offers it, which
// its first answer over TLS tells, calls through a proxy, long bodies and those that
// ask before they are sent.
//
// # Why it is here
//
// The immediate lane has to be ahead of a plain loop that only forwards what it
// consumes. With a service that answers at once, 64 calls in flight, it had (medians
// of thirteen interleaved runs of 40,000 calls, test/bench -quick, on a machine with
// other work; ratios are to a bare net/http loop in the same run):
//
//	                         CPU-s per million   CPU    rate
//	this package                            30   0.85   1.45
//	fasthttp 1.77, adapted                  29   0.84   1.26
//	net/http alone                          49   1.38   0.73
//	goal                                         1.35   0.85
//
// fasthttp's HostClient knows neither contexts nor HTTP/2. By itself it takes bytes
// that a server sent too many for the next call's answer; it sends to a connection
// that the server has closed, and then the outcome of a create is unknown; and of a
// streamed answer in chunks it does not notice that the end is missing. Adapted, it
// needs nearly all that is here and a conversion of requests and answers besides.
//
// It knows nothing of what is called.
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

// maxBody is the longest body that is written before the answer is read: a socket's
// buffers hold it, and servers read that much of a request they refuse before they
// close the connection.
const maxBody = 64 << 10

// Transport is an [http.RoundTripper]. It keeps connections whose answers were read
// to the end.
type Transport struct {
	fallback *http.Transport // makes all other calls; its settings are those of the connections
	tls      *tls.Config     // without the host's name

	mu      sync.Mutex
	hosts   map[address]*host // nil: its calls are left to the fallback
	cleanup *time.Timer       // closes idle connections; nil: none is idle
}

// address is the part of a URL that says where to connect to.
type address struct{ scheme, host string }

// New connects as fallback would, and leaves to it the calls that are not short.
// Fallback has a DialContext; it must not be in use yet, nor be changed any more.
func New(fallback *http.Transport) *Transport {
	config := &tls.Config{}
	if fallback.TLSClientConfig != nil {
		config = fallback.TLSClientConfig.Clone() // net/http changes its own on first use
	}
	config.NextProtos = []string{"http/1.1"}
	return &Transport{fallback: fallback, tls: config, hosts: map[address]*host{}}
}

// RoundTrip is [http.RoundTripper]'s. An error is the connection's, of package net
// or io, or the cause of the end of the request's context. As in net/http a call is
// repeated on another connection if it failed on one that had been idle, and either
// nothing of it was sent, or it only reads and nothing of an answer came.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	h, known := t.host(r)
	if h == nil {
		response, err := t.fallback.RoundTrip(r)
		if err == nil && !known {
			t.learn(r.URL, response.ProtoMajor)
		}
		return response, err
	}
	for {
		c, err := h.connection(r.Context())
		if err != nil {
			_ = r.Body.Close()
			return nil, err
		}
		response, err := c.roundTrip(r)
		if err == nil || !c.repeatable(r) {
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
	t.closeIdle(time.Now())
	t.fallback.CloseIdleConnections()
}

// host is where a call goes to; nil: the fallback makes the call. If it is not known
// whether the host speaks HTTP/1.1, the answer tells.
func (t *Transport) host(r *http.Request) (h *host, known bool) {
	if !short(r) {
		return nil, true
	}
	if t.fallback.Proxy != nil {
		if proxy, err := t.fallback.Proxy(r); proxy != nil || err != nil {
			return nil, true
		}
	}
	t.mu.Lock()
	h, known = t.hosts[address{r.URL.Scheme, r.URL.Host}]
	t.mu.Unlock()
	if !known && r.URL.Scheme == "http" { // HTTP/2 is agreed on by TLS only
		h, known = t.learn(r.URL, 1), true
	}
	return h, known
}

// learn notes which major version of HTTP a host speaks, unless it is known.
func (t *Transport) learn(u *url.URL, major int) *host {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := address{u.Scheme, u.Host}
	h, known := t.hosts[key]
	if !known {
		if major == 1 && isASCII(u.Host) {
			h = t.newHost(u)
		}
		t.hosts[key] = h
	}
	return h
}

// isASCII is false for a name that net/http has to encode.
func isASCII(name string) bool {
	return strings.IndexFunc(name, func(r rune) bool { return r >= 0x80 }) < 0
}

// short reports whether the whole request can be written before its answer is read,
// and can be written again.
func short(r *http.Request) bool {
	switch {
	case r.Body == nil, r.ContentLength < 0, r.ContentLength > maxBody:
		return false
	case r.Body != http.NoBody && (r.ContentLength == 0 || r.GetBody == nil):
		return false
	}
	return r.Method != http.MethodHead && r.Method != http.MethodConnect &&
		r.Header["Expect"] == nil && r.Header["Upgrade"] == nil && !r.Close
}

// closeIdle closes the connections that have been idle since then or before.
func (t *Transport) closeIdle(then time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := 0
	for _, h := range t.hosts {
		if h != nil {
			left += h.closeIdle(then)
		}
	}
	switch {
	case t.cleanup == nil:
	case left > 0:
		t.cleanup.Reset(t.idleTimeout())
	default:
		t.cleanup.Stop()
		t.cleanup = nil
	}
}

func (t *Transport) idleTimeout() time.Duration {
	return cmp.Or(t.fallback.IdleConnTimeout, 90*time.Second)
}

// host is one server and the idle connections to it.
type host struct {
	transport *Transport
	address   string      // host:port
	tls       *tls.Config // nil: no TLS
	idle      []*conn     // the longest idle first; guarded by the transport
}

func (t *Transport) newHost(u *url.URL) *host {
	h, port := &host{transport: t}, "80"
	if u.Scheme == "https" {
		h.tls, port = t.tls.Clone(), "443"
		h.tls.ServerName = cmp.Or(h.tls.ServerName, u.Hostname())
	}
	h.address = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
	return h
}

// connection is an idle one that is still usable, or a new one.
func (h *host) connection(ctx context.Context) (*conn, error) {
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.GetConn != nil {
		trace.GetConn(h.address)
	}
	c := h.get()
	for c != nil && !c.usable() {
		_ = c.Close()
		c = h.get()
	}
	if c == nil {
		var err error
		if c, err = h.dial(ctx); err != nil {
			return nil, err
		}
	}
	if trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: c.Conn, Reused: c.reused, WasIdle: c.reused})
	}
	return c, nil
}

// get is the connection that was used last, so that those too many stay idle and are
// closed; nil: none is idle.
func (h *host) get() *conn {
	h.transport.mu.Lock()
	defer h.transport.mu.Unlock()
	n := len(h.idle) - 1
	if n < 0 {
		return nil
	}
	c := h.idle[n]
	h.idle[n], h.idle = nil, h.idle[:n]
	c.reused = true
	return c
}

// put takes a connection back whose answer was read to the end.
func (h *host) put(c *conn) {
	t := h.transport
	c.idleSince = time.Now()
	t.mu.Lock()
	room := len(h.idle) < max(t.fallback.MaxIdleConnsPerHost, http.DefaultMaxIdleConnsPerHost)
	if room {
		h.idle = append(h.idle, c)
		if t.cleanup == nil {
			t.cleanup = time.AfterFunc(t.idleTimeout(), func() { t.closeIdle(time.Now().Add(-t.idleTimeout())) })
		}
	}
	t.mu.Unlock()
	if !room {
		_ = c.Close()
	}
}

// closeIdle closes what has been idle since then or before, and returns how many
// connections are left. The transport is locked, and closing TLS may block.
func (h *host) closeIdle(then time.Time) (left int) {
	h.idle = slices.DeleteFunc(h.idle, func(c *conn) bool {
		old := !c.idleSince.After(then)
		if old {
			go func() { _ = c.Close() }()
		}
		return old
	})
	return len(h.idle)
}

// dial opens a connection.
func (h *host) dial(ctx context.Context) (*conn, error) {
	like := h.transport.fallback
	tcp, err := like.DialContext(ctx, "tcp", h.address)
	if err != nil {
		return nil, err
	}
	if h.tls == nil {
		return newConn(h, tcp, tcp), nil
	}
	if limit := like.TLSHandshakeTimeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	encrypted := tls.Client(tcp, h.tls)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		_ = tcp.Close()
		return nil, err
	}
	return newConn(h, encrypted, tcp), nil
}
