package h1

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func usual() *http.Transport {
	return &http.Transport{
		ForceAttemptHTTP2: true, DisableCompression: true, MaxIdleConnsPerHost: 32,
		MaxResponseHeaderBytes: 16 << 10, TLSHandshakeTimeout: 10 * time.Second, DialContext: (&net.Dialer{}).DialContext,
	}
}

func transport(t *testing.T, rest *http.Transport) *Transport {
	t.Helper()
	h := New(rest)
	t.Cleanup(h.CloseIdleConnections)
	return h
}

func request(ctx context.Context, t testing.TB, method, address, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// call makes a call and reads its answer.
func call(by http.RoundTripper, r *http.Request) (status int, body string, err error) {
	response, err := by.RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	return response.StatusCode, string(read), err
}

// counted is a server that counts its connections.
func counted(t *testing.T, start func(*httptest.Server), h http.HandlerFunc) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	connections := &atomic.Int64{}
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	start(server)
	t.Cleanup(server.Close)
	return server, connections
}

// TestCallsShareConnections: as many connections as there are calls at once, over
// TLS one beside them for the first call, and of HTTP/2 only that.
func TestCallsShareConnections(t *testing.T) {
	const callers, each = 16, 20
	for _, c := range []struct {
		name  string
		start func(*httptest.Server)
		proto string
		most  int64
	}{
		{"plain", (*httptest.Server).Start, "HTTP/1.1", callers},
		{"TLS", (*httptest.Server).StartTLS, "HTTP/1.1", callers + 1},
		{"HTTP/2", func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() }, "HTTP/2.0", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, connections := counted(t, c.start, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				_, _ = fmt.Fprintf(w, "%s %s %s", r.Proto, r.URL.RequestURI(), body)
			})
			rest := usual()
			if server.TLS != nil {
				rest.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
				rest.TLSClientConfig.NextProtos = nil // for the transport to say
			}
			h := transport(t, rest)
			if _, _, err := call(h, request(t.Context(), t, http.MethodPost, server.URL, "first")); err != nil {
				t.Fatal(err)
			}
			var callersDone sync.WaitGroup
			for i := range callers {
				callersDone.Go(func() {
					for j := range each {
						body := fmt.Sprint("body ", i, j)
						status, got, err := call(h, request(t.Context(), t, http.MethodPost, server.URL+"/a%2Fb?c=d", body))
						if want := c.proto + " /a%2Fb?c=d " + body; err != nil || status != http.StatusOK || got != want {
							t.Errorf("got %d %q, %v, want 200 %q", status, got, err, want)
						}
					}
				})
			}
			callersDone.Wait()
			if got := connections.Load(); got > c.most {
				t.Errorf("connections: got %d, want at most %d", got, c.most)
			}
		})
	}
}

// TestNetHTTPTakesWhatIsNoShortCall: such calls are made, each on a connection of
// net/http.
func TestNetHTTPTakesWhatIsNoShortCall(t *testing.T) {
	long := strings.Repeat("x", maxBody+1)
	for name, change := range map[string]func(*http.Request){
		"long body": func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(long)), int64(len(long))
		},
		"unknown length":   func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), -1 },
		"no second body":   func(r *http.Request) { r.GetBody = nil },
		"asks before":      func(r *http.Request) { r.Header.Set("Expect", "100-continue") },
		"closes behind":    func(r *http.Request) { r.Close = true },
		"header is wanted": func(r *http.Request) { r.Method, r.Body, r.ContentLength = http.MethodHead, http.NoBody, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			server, connections := counted(t, (*httptest.Server).Start, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
			h := transport(t, usual())
			for range 2 {
				r := request(t.Context(), t, http.MethodPost, server.URL, "short")
				change(r)
				if status, _, err := call(h, r); err != nil || status != http.StatusOK {
					t.Errorf("got %d, %v, want 200", status, err)
				}
			}
			if len(h.hosts) != 0 {
				t.Errorf("got %d hosts, want none", len(h.hosts))
			}
			if connections.Load() == 0 {
				t.Error("got no connection")
			}
		})
	}
}

// TestLongAndShortCallsShareNothing: net/http writes into its configuration of TLS
// when it is first used.
func TestLongAndShortCallsShareNothing(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	t.Cleanup(server.Close)
	rest := usual()
	rest.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	rest.TLSClientConfig.NextProtos = nil // for the transport to say
	h := transport(t, rest)
	var calls sync.WaitGroup
	for _, size := range []int{1, maxBody + 1} {
		calls.Go(func() {
			if _, _, err := call(h, request(t.Context(), t, http.MethodPost, server.URL, strings.Repeat("x", size))); err != nil {
				t.Errorf("%d bytes: %v", size, err)
			}
		})
	}
	calls.Wait()
}

func TestProxiesAreNetHTTPs(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "proxied "+r.URL.String()) }))
	t.Cleanup(proxy.Close)
	rest := usual()
	through, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	rest.Proxy = http.ProxyURL(through)
	_, got, err := call(transport(t, rest), request(t.Context(), t, http.MethodPost, "http://service.invalid/x", "body"))
	if want := "proxied http://service.invalid/x"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// TestContextEndsACall at each of its stages, with the cause, and the connection
// with it.
func TestContextEndsACall(t *testing.T) {
	cause := errors.New("enough")
	for name, says := range map[string]string{"before the answer": "", "in the header": "HTTP/1.1 200", "in the body": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			gone := make(chan struct{})
			address := scripted(t, func(c net.Conn) {
				in := bufio.NewReader(c)
				if _, err := http.ReadRequest(in); err == nil {
					_, _ = io.WriteString(c, says)
				}
				cancel(cause)
				_, _ = io.Copy(io.Discard, in) // until our end is closed
				close(gone)
			})
			if _, _, err := call(transport(t, usual()), request(ctx, t, http.MethodPost, address, "")); !errors.Is(err, cause) {
				t.Errorf("got %v, want %v", err, cause)
			}
			<-gone
		})
	}
}

// TestContextEndsAHandshake of a server that is silent, whether it was called before or
// not.
func TestContextEndsAHandshake(t *testing.T) {
	for _, known := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		address := scripted(t, func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1))
			cancel()
			_, _ = io.Copy(io.Discard, c)
		})
		h, r := transport(t, usual()), request(ctx, t, http.MethodPost, strings.Replace(address, "http", "https", 1), "")
		if known {
			h.learn(r.URL, 1)
		}
		if _, _, err := call(h, r); !errors.Is(err, context.Canceled) {
			t.Errorf("known %v: got %v, want %v", known, err, context.Canceled)
		}
	}
}

// scripted serves each connection with a function.
func scripted(t testing.TB, serve func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	ctx, end := context.WithCancel(context.Background())
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				stop := context.AfterFunc(ctx, func() { _ = c.Close() })
				serve(c)
				stop()
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		end()
		all.Wait()
	})
	return "http://" + l.Addr().String()
}

// TestIdleConnectionsEnd when they have been idle too long, are too many, or when
// no call will come any more.
func TestIdleConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int64
		rest := &http.Transport{IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 2}
		rest.DialContext = func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			open.Add(1)
			go func() {
				defer open.Add(-1)
				in := bufio.NewReader(theirs)
				for {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					time.Sleep(time.Second)
					_, _ = io.WriteString(theirs, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
			}()
			return ours, nil
		}
		h := New(rest)
		calls := func(n int) {
			var all sync.WaitGroup
			for range n {
				all.Go(func() {
					if status, got, err := call(h, request(t.Context(), t, http.MethodPost, "http://service/", "body")); err != nil || got != "ok" {
						t.Errorf("got %d %q, %v, want ok", status, got, err)
					}
				})
			}
			all.Wait()
			synctest.Wait()
		}
		for _, step := range []struct {
			what string
			do   func()
			want int64
		}{
			{"three calls at once, two connections kept", func() { calls(3) }, 2},
			{"another call half a minute later", func() { time.Sleep(30 * time.Second); calls(1) }, 2},
			{"a minute after the first", func() { time.Sleep(45 * time.Second) }, 1},
			{"a minute after the last", func() { time.Sleep(time.Minute) }, 0},
			{"two calls more", func() { calls(2) }, 2},
			{"closed", h.CloseIdleConnections, 0},
		} {
			step.do()
			synctest.Wait()
			if got := open.Load(); got != step.want {
				t.Errorf("%s: got %d connections, want %d", step.what, got, step.want)
			}
		}
		if h.cleanup != nil {
			t.Error("got a timer, want none while nothing is idle")
		}
	})
}

// held keeps what is written until it is let go, so that it arrives at once.
type held struct {
	net.Conn
	waiting []byte
	holds   bool
}

func (h *held) Write(p []byte) (int, error) {
	if h.holds {
		h.waiting = append(h.waiting, p...)
		return len(p), nil
	}
	return h.Conn.Write(p)
}

// TestTLSConnectionIsUsedWhileItIsUsable: what TLS has to say to itself does not end an idle
// connection. Its end does, and so does an answer without a call, whether it is on
// the line or read already.
func TestTLSConnectionIsUsedWhileItIsUsable(t *testing.T) {
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS()
	t.Cleanup(certified.Close)
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	for name, c := range map[string]struct {
		calls int
		then  func(*held, *tls.Conn) error
		want  bool
	}{
		"a ticket":               {0, func(*held, *tls.Conn) error { return nil }, true}, // TLS 1.3 sends it behind the handshake
		"nothing":                {1, func(*held, *tls.Conn) error { return nil }, true},
		"its end":                {1, func(_ *held, c *tls.Conn) error { return c.Close() }, false},
		"its end, untold":        {1, func(h *held, _ *tls.Conn) error { return h.Close() }, false},
		"an answer":              {1, func(_ *held, c *tls.Conn) error { _, err := io.WriteString(c, answer); return err }, false},
		"an answer read already": {2, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			told := make(chan error, 1)
			address := scripted(t, func(plain net.Conn) {
				h := &held{Conn: plain}
				s := tls.Server(h, &tls.Config{Certificates: certified.TLS.Certificates})
				err := s.Handshake()
				in := bufio.NewReader(s)
				if c.calls > 0 && err == nil {
					_, err = http.ReadRequest(in)
				}
				h.holds = true
				for range c.calls {
					_, _ = io.WriteString(s, answer)
				}
				h.holds = false
				_, _ = plain.Write(h.waiting)
				if c.then != nil && err == nil {
					err = c.then(h, s)
				}
				told <- err
				_, _ = io.Copy(io.Discard, plain)
			})
			rest := usual()
			rest.TLSClientConfig = certified.Client().Transport.(*http.Transport).TLSClientConfig
			h := transport(t, rest)
			r := request(t.Context(), t, http.MethodPost, strings.Replace(address, "http", "https", 1), "")
			p := h.learn(r.URL, 1)
			if c.calls > 0 {
				if _, got, err := call(h, r); err != nil || got != "ok" {
					t.Fatalf("call: got %q, %v, want ok", got, err)
				}
			}
			used := p.get()
			if used == nil {
				var err error
				if used, err = p.dial(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-told; err != nil {
				t.Error(err)
			}
			if got := used.usable(); got != c.want {
				t.Errorf("usable: got %v, want %v", got, c.want)
			}
			_ = used.Close()
		})
	}
}
