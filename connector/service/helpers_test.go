package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/h1"
)

const (
	testKey     = "key-5b0c7d"
	testTimeout = 5 * time.Second
)

// service is an HTTP server that hands out tokens T1, T2, … and gives every
// other request to calls, once its token was looked at.
type service struct {
	calls   http.HandlerFunc
	life    string                             // expiresIn, "900s" if empty
	refuse  func(w http.ResponseWriter) bool   // answers a token request itself
	revoked func(token string) bool            // tokens to refuse
	key     func(got string) (authorized bool) // nil: testKey only

	fetches atomic.Int64
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	authorization := r.Header.Get("Authorization")
	if r.URL.Path == "/auth/token" {
		n := s.fetches.Add(1)
		if s.refuse != nil && s.refuse(w) {
			return
		}
		if s.key == nil && authorization != testKey || s.key != nil && !s.key(authorization) {
			http.Error(w, "wrong key "+authorization, http.StatusUnauthorized)
			return
		}
		life := s.life
		if life == "" {
			life = "900s"
		}
		_, _ = fmt.Fprintf(w, `{"accessToken":"T%d","tokenType":"bearer","expiresIn":%q}`, n, life)
		return
	}
	token, ok := bytes.CutPrefix([]byte(authorization), []byte("Bearer "))
	if !ok || s.revoked != nil && s.revoked(string(token)) {
		http.Error(w, "token "+string(token)+" expired", http.StatusUnauthorized)
		return
	}
	s.calls(w, r)
}

// start runs the service on a socket and returns a client for it.
func (s *service) start(t testing.TB) *Client {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return newClient(t, Config{BaseURL: server.URL, AuthURL: server.URL})
}

// startInBubble runs it on in-memory connections, which virtual time knows.
func (s *service) startInBubble(t testing.TB) *Client {
	t.Helper()
	pipes := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	var running sync.WaitGroup
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Done()
		s.ServeHTTP(w, r)
	})}
	running.Go(func() { _ = server.Serve(pipes) })
	c := newClient(t, Config{BaseURL: "http://service", AuthURL: "http://service", Timeout: 30 * time.Second})
	transport := newTransport(Config{Timeout: 30 * time.Second})
	transport.DialContext = pipes.dial
	c.transport = transport
	t.Cleanup(func() {
		c.Close()
		_ = server.Close()
		running.Wait()
	})
	return c
}

func newClient(t testing.TB, cfg Config) *Client {
	t.Helper()
	cfg.Entity = "acme"
	if cfg.Timeout == 0 {
		cfg.Timeout = testTimeout
	}
	if cfg.APIKey == nil {
		cfg.APIKey = func() (Secret, error) { return NewSecret(testKey), nil }
	}
	if tuned, ok := cfg.Transport.(*http.Transport); ok {
		cfg.Transport = h1.New(tuned)
	} else if cfg.Secure == nil { // as the sink does
		cfg.Secure = func(tuned *http.Transport) http.RoundTripper { return h1.New(tuned) }
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// pipeListener connects by net.Pipe.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// errorOf is err as an *Error, which it must be.
func errorOf(t testing.TB, err error) *Error {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("got error %v (%T), want an *Error", err, err)
	}
	return e
}

// fileOf is a File whose content is text.
func fileOf(text string) File {
	return File{Name: "customers.csv", Open: func() (io.ReadCloser, int64, error) {
		return io.NopCloser(bytes.NewReader([]byte(text))), int64(len(text)), nil
	}}
}

// reset cuts the connection without an answer.
func reset(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
