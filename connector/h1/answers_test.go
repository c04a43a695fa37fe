package h1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

const plainAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// answering serves every request of a connection with the same bytes and goes on,
// or closes behind the first.
func answering(t testing.TB, answer string, closes bool) (address string, connections *atomic.Int64) {
	t.Helper()
	connections = &atomic.Int64{}
	return scripted(t, func(c net.Conn) {
		connections.Add(1)
		in := bufio.NewReader(c)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if _, err := io.WriteString(c, answer); err != nil || closes {
				return
			}
		}
	}), connections
}

// failing is a connection to which only so many writes succeed.
type failing struct {
	net.Conn
	writes int
}

func (f *failing) Write(p []byte) (int, error) {
	if f.writes == 0 {
		return 0, syscall.EPIPE
	}
	f.writes--
	return f.Conn.Write(p)
}

// failingAfter has only so many writes to each connection succeed.
func failingAfter(writes int) *http.Transport {
	rest := usual()
	rest.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &failing{c, writes}, err
	}
	return rest
}

// TestRefusalBeforeTheBodyIsRead: a server that answers at once and closes is heard,
// though the request cannot be written to its end.
func TestRefusalBeforeTheBodyIsRead(t *testing.T) {
	h := transport(t, failingAfter(1))
	address := scripted(t, func(c net.Conn) {
		in := bufio.NewReaderSize(c, 16)
		if _, err := in.ReadString('\n'); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 4\r\n\r\nmuch")
			_, _ = io.Copy(io.Discard, in)
		}
	})
	status, got, err := call(h, request(t.Context(), t, http.MethodPost, address, strings.Repeat("x", maxBody)))
	if err != nil || status != http.StatusRequestEntityTooLarge || got != "much" {
		t.Errorf("got %d %q, %v, want 413 much", status, got, err)
	}
}

// TestCallOfWhichNothingWasSentIsMadeAgain: the connection ended after it was looked
// at.
func TestCallOfWhichNothingWasSentIsMadeAgain(t *testing.T) {
	h := transport(t, failingAfter(1))
	address, connections := answering(t, plainAnswer, false)
	for range 3 {
		if _, got, err := call(h, request(t.Context(), t, http.MethodPost, address, "body")); err != nil || got != "ok" {
			t.Errorf("got %q, %v, want ok", got, err)
		}
	}
	if got := connections.Load(); got != 3 {
		t.Errorf("got %d connections, want 3", got)
	}
}

// TestBodyThatIsNotReadEndsItsConnection: the next call gets an answer of its own.
func TestBodyThatIsNotReadEndsItsConnection(t *testing.T) {
	h := transport(t, usual())
	address, connections := answering(t, plainAnswer, false)
	for range 3 {
		response, err := h.RoundTrip(request(t.Context(), t, http.MethodPost, address, ""))
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if _, err := response.Body.Read(make([]byte, 1)); !errors.Is(err, errClosed) {
			t.Errorf("read after close: got %v, want %v", err, errClosed)
		}
	}
	if got := connections.Load(); got != 3 {
		t.Errorf("got %d connections, want 3", got)
	}
}

// TestAnotherProtocolEndsItsConnection: what follows a 101 is neither its body nor the
// next call's answer.
func TestAnotherProtocolEndsItsConnection(t *testing.T) {
	h := transport(t, usual())
	address, connections := answering(t, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", false)
	for range 2 {
		if status, got, err := call(h, request(t.Context(), t, http.MethodPost, address, "")); err != nil || status != http.StatusSwitchingProtocols || got != "" {
			t.Errorf("got %d %q, %v, want 101 and no body", status, got, err)
		}
	}
	if got := connections.Load(); got != 2 {
		t.Errorf("got %d connections, want 2", got)
	}
}

// FuzzAnswer has a server that says anything, in pieces: a call ends, and no answer
// to it is taken for that of another.
func FuzzAnswer(f *testing.F) {
	for _, answer := range []string{
		plainAnswer, plainAnswer + plainAnswer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\n" + plainAnswer, "HTTP/1.1 204 No Content\r\n\r\nbehind", "HTTP/1.0 200 OK\r\n\r\nto the end", "",
	} {
		f.Add([]byte(answer), uint64(1))
	}
	f.Fuzz(func(t *testing.T, answer []byte, seed uint64) {
		h := transport(t, usual())
		var connections atomic.Int64
		address := scripted(t, func(c net.Conn) {
			r, err := http.ReadRequest(bufio.NewReader(c))
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if connections.Add(1) > 1 {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond")
				return
			}
			rnd := rand.New(rand.NewPCG(seed, 0))
			for rest := answer; len(rest) > 0; {
				n := 1 + rnd.IntN(len(rest))
				_, _ = c.Write(rest[:n])
				rest = rest[n:]
			}
		})
		_, _, _ = call(h, request(t.Context(), t, http.MethodPost, address, "first"))
		if _, got, err := call(h, request(t.Context(), t, http.MethodPost, address, "second")); err == nil && got != "second" || err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && connections.Load() > 1 {
			t.Errorf("second call: got %q, %v, want second", got, err)
		}
	})
}
