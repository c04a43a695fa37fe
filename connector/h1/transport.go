package h1

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
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
	peers map[address]*peer
	sweep *time.Timer // closes what has been idle too long; nil: nothing is idle
}

// address is whom to connect to, as in a URL.
type address struct{ scheme, host string }

// New makes connections as rest would, and leaves to rest what is no short call.
// Rest must not be in use yet, nor be changed any more.
func New(rest *http.Transport) *Transport {
	// Rest writes into its own configuration when it is first used.
	secure := &tls.Config{}
	if rest.TLSClientConfig != nil {
		secure = rest.TLSClientConfig.Clone()
	}
	if secure.NextProtos == nil {
		secure.NextProtos = []string{plainHTTP}
		if rest.ForceAttemptHTTP2 {
			secure.NextProtos = []string{multiplexing, plainHTTP}
		}
	}
	return &Transport{rest: rest, secure: secure, peers: map[address]*peer{}}
}

// RoundTrip is [http.RoundTripper]'s. An error is the connection's, of package net
// or io, or what the request's context ended for. As with net/http a call is made
// again, on another connection, if nothing of it was sent on one that had been
// idle, and one that only reads also if nothing came back.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	p := t.peer(r)
	if p == nil {
		return t.rest.RoundTrip(r)
	}
	for {
		c, err := p.connection(r.Context())
		if errors.Is(err, errMultiplexed) {
			return t.rest.RoundTrip(r)
		}
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

// peer is whom a short call goes to; nil: the call is not short, or needs what
// only net/http has.
func (t *Transport) peer(r *http.Request) *peer {
	if !short(r) {
		return nil
	}
	if t.rest.Proxy != nil {
		if proxy, err := t.rest.Proxy(r); proxy != nil || err != nil {
			return nil
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key := address{r.URL.Scheme, r.URL.Host}
	p, ok := t.peers[key]
	if !ok {
		p = t.newPeer(r.URL)
		t.peers[key] = p
	}
	if p == nil || p.speaks == multiplexing {
		return nil
	}
	return p
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

// newPeer is nil for an address that net/http has to make sense of.
func (t *Transport) newPeer(u *url.URL) *peer {
	port := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	if port == "" || slices.ContainsFunc([]byte(u.Host), func(b byte) bool { return b >= 0x80 }) {
		return nil
	}
	if own := u.Port(); own != "" {
		port = own
	}
	p := &peer{transport: t, address: net.JoinHostPort(u.Hostname(), port)}
	if u.Scheme == "https" {
		p.tls = t.secure.Clone()
		if p.tls.ServerName == "" {
			p.tls.ServerName = u.Hostname()
		}
		p.first = make(chan struct{}, 1)
	}
	return p
}

// dial opens a TCP connection as net/http would.
func (t *Transport) dial(ctx context.Context, address string) (net.Conn, error) {
	if t.rest.DialContext != nil {
		return t.rest.DialContext(ctx, "tcp", address)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

// expire closes the connections that have been idle since then or before.
func (t *Transport) expire(then time.Time) {
	var old []*conn
	t.mu.Lock()
	left := 0
	for _, p := range t.peers {
		if p == nil {
			continue
		}
		aged := 0
		for aged < len(p.idle) && !p.idle[aged].since.After(then) {
			aged++
		}
		old = append(old, p.idle[:aged]...)
		p.idle = slices.Delete(p.idle, 0, aged)
		left += len(p.idle)
	}
	switch {
	case t.sweep == nil:
	case left > 0:
		t.sweep.Reset(t.patience())
	default:
		t.sweep.Stop()
		t.sweep = nil
	}
	t.mu.Unlock()
	for _, c := range old {
		_ = c.Close()
	}
}

// patience is how long a connection may be idle.
func (t *Transport) patience() time.Duration {
	if t.rest.IdleConnTimeout > 0 {
		return t.rest.IdleConnTimeout
	}
	return 90 * time.Second
}

// traced is the caller's trace, or an empty one.
func traced(ctx context.Context) *httptrace.ClientTrace {
	if trace := httptrace.ContextClientTrace(ctx); trace != nil {
		return trace
	}
	return &httptrace.ClientTrace{}
}
