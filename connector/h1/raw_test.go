package h1

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// rawAnswers are what a server may send, some of it no answer. closes: the server
// ends the connection behind it.
var rawAnswers = []struct {
	name, sent string
	closes     bool
}{
	{"plain", okFirst + "first", false},
	{"bytes too many", okFirst + "firstEXTRA", false},
	{"a second answer smuggled in", okFirst + "first" + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", false},
	{"100, then 200", "HTTP/1.1 100 Continue\r\n\r\n" + okFirst + "first", false},
	{"103, then 200", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + okFirst + "first", false},
	{"100 with a length", "HTTP/1.1 100 Continue\r\nContent-Length: 3\r\n\r\nabc" + okFirst + "first", false},
	{"102 six times", strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 6) + okFirst + "first", false},
	{"204 with a body", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nfirst", false},
	{"204 with an answer smuggled in", "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", false},
	{"304 with a length", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nfirst", false},
	{"two equal lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nfirst", false},
	{"two lengths that differ", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 50\r\n\r\nfirst", false},
	{"a list of lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nfirst", false},
	{"a length with a plus", "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nfirst", false},
	{"a length below zero", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nfirst", true},
	{"a length and chunks", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n0\r\n\r\n", false},
	{"coding identity", "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nfirst", true},
	{"an unknown coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\nContent-Length: 5\r\n\r\nfirst", true},
	{"the coding twice", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n0\r\n\r\n", false},
	{"chunks and a trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n5\r\nfirst\r\n0\r\nX: y\r\n\r\n", false},
	{"bytes behind the last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n0\r\n\r\nEXTRA", false},
	{"a chunk whose size is none", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nfirst\r\n0\r\n\r\n", false},
	{"lines that end with LF alone", "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\nfirst\n0\n\n", false},
	{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nfirst", false},
	{"HTTP/1.0, kept", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nfirst", false},
	{"HTTP/1.0 to the end", "HTTP/1.0 200 OK\r\n\r\nfirst", true},
	{"to the end", "HTTP/1.1 200 OK\r\n\r\nfirst", true},
	{"said to be closed", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nfirst", false},
	{"closed without a word", okFirst + "first", true},
	{"half a body", okFirst + "fir", true},
	{"half a header", "HTTP/1.1 200 OK\r\nContent-Le", true},
	{"nothing", "", true},
	{"a header too long", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 2<<20) + "\r\nContent-Length: 5\r\n\r\nfirst", false},
	{"another protocol", "SSH-2.0-OpenSSH\r\n", true},
	{"an unknown version", "HTTP/9.9 200 OK\r\nContent-Length: 5\r\n\r\nfirst", false},
	{"a folded header", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 5\r\n\r\nfirst", false},
	{"a blank before the colon", "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nfirst", true},
	{"status 99", "HTTP/1.1 099 X\r\nContent-Length: 5\r\n\r\nfirst", true},
	{"status 1000", "HTTP/1.1 1000 X\r\nContent-Length: 5\r\n\r\nfirst", true},
	{"a redirect", "HTTP/1.1 307 T\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", false},
	{"408, then closed", "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", true},
	{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nfir\r\n2\r\nst\r\n0\r\n\r\n", false},
	{"half a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfir", true},
	{"no end of chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n", true},
	{"an empty body", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false},
	{"refused", "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nContent-Length: 4\r\n\r\nslow", false},
	{"103 until the header is too long", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 16<<10/28+1), false},
	{"a status of letters", "HTTP/1.1 abc OK\r\n\r\n", true},
}

const okFirst = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"

// rawServer answers the first request of all with bytes, all others with "second".
type rawServer struct {
	address     string
	connections atomic.Int64
	requests    atomic.Int64
	answered    chan struct{} // the first answer is out, and the connection closed if it is to be
}

func newRawServer(t *testing.T, sent string, closes bool) *rawServer {
	s := &rawServer{answered: make(chan struct{})}
	s.address = scripted(t, func(c net.Conn) {
		s.connections.Add(1)
		in := bufio.NewReader(c)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if s.requests.Add(1) > 1 {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond")
				continue
			}
			_, _ = io.WriteString(c, sent)
			if closes {
				_ = c.Close()
			}
			close(s.answered)
			if closes {
				return
			}
		}
	})
	return s
}

// twice makes two calls, and between them waits until the first answer is out and
// settled has returned.
func (s *rawServer) twice(t *testing.T, by http.RoundTripper, settled func()) string {
	t.Helper()
	one := func(n int) string {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		response, err := by.RoundTrip(request(ctx, t, http.MethodPost, fmt.Sprint(s.address, "/", n), fmt.Sprint("body", n)))
		if err != nil {
			return "error"
		}
		body, err := io.ReadAll(response.Body)
		if closed := response.Body.Close(); closed != nil {
			t.Error(closed)
		}
		return fmt.Sprintf("%s %d %v %.30q, error in the body %v, trailer %v", response.Status, response.ContentLength, response.Header, body, err != nil, response.Trailer)
	}
	first := one(1)
	<-s.answered
	settled()
	second := one(2)
	return fmt.Sprintf("first: %s; second: %s; %d connections, %d requests", first, second, s.connections.Load(), s.requests.Load())
}

// heard is a connection that tells when its client closes it.
type heard struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (h *heard) Close() error {
	defer h.once.Do(func() { close(h.closed) })
	return h.Conn.Close()
}

// TestRawAnswersAreTakenAsByNetHTTP: what the first call returns, status, header, body
// and errors, and whether its connection serves the second one and with whose answer.
func TestRawAnswersAreTakenAsByNetHTTP(t *testing.T) {
	for _, c := range rawAnswers {
		t.Run(c.name, func(t *testing.T) {
			mine := newRawServer(t, c.sent, c.closes)
			got := mine.twice(t, transport(t, usual()), func() {})
			// net/http finds out in a goroutine of its own that a connection is of no
			// further use, by when the second call is not to have begun.
			firstClosed := make(chan struct{})
			first := true
			theirs, reference := newRawServer(t, c.sent, c.closes), usual()
			reference.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
				if err != nil || !first {
					return conn, err
				}
				first = false
				return &heard{Conn: conn, closed: firstClosed}, nil
			}
			t.Cleanup(reference.CloseIdleConnections)
			want := theirs.twice(t, reference, func() {
				if mine.connections.Load() == 1 {
					return
				}
				select {
				case <-firstClosed:
				case <-time.After(10 * time.Second): // they differ, and that shows
				}
			})
			if got != want {
				t.Errorf("got\n%s\nwant, as by net/http,\n%s", got, want)
			}
		})
	}
}

// TestCallOnAConnectionThatDiesIsRepeatedAsByNetHTTP: the second request on a kept
// connection is read, and the connection ends without an answer.
func TestCallOnAConnectionThatDiesIsRepeatedAsByNetHTTP(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodGet} {
		for _, hard := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reset %v", method, hard), func(t *testing.T) {
				try := func(by http.RoundTripper) string {
					var second atomic.Int64
					address := scripted(t, func(c net.Conn) {
						in := bufio.NewReader(c)
						for {
							r, err := http.ReadRequest(in)
							if err != nil {
								return
							}
							_, _ = io.Copy(io.Discard, r.Body)
							if r.URL.Path == "/2" && second.Add(1) == 1 {
								if tcp, ok := c.(*net.TCPConn); ok && hard {
									_ = tcp.SetLinger(0)
								}
								return
							}
							_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
						}
					})
					told := ""
					for _, path := range []string{"/1", "/2"} {
						r, err := http.NewRequestWithContext(t.Context(), method, address+path, http.NoBody)
						if err != nil {
							t.Fatal(err)
						}
						if method != http.MethodGet && method != http.MethodDelete {
							r = request(t.Context(), t, method, address+path, "x")
						}
						_, _, err = call(by, r)
						told += fmt.Sprintf("%s: error %v; ", path, err != nil)
					}
					return told + fmt.Sprintf("the second was seen %d times", second.Load())
				}
				reference := usual()
				t.Cleanup(reference.CloseIdleConnections)
				if got, want := try(transport(t, usual())), try(reference); got != want {
					t.Errorf("got %s; want, as by net/http, %s", got, want)
				}
			})
		}
	}
}
