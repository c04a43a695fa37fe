package h1

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// ownBody is a body that net/http does not know to be in memory.
type ownBody struct{ strings.Reader }

func (*ownBody) Close() error { return nil }

// writes counts what is written to a connection.
type writes struct {
	net.Conn
	count *atomic.Int64
}

func (w writes) Write(p []byte) (int, error) {
	w.count.Add(1)
	return w.Conn.Write(p)
}

// TestShortCallIsOneWrite, whatever its body is.
func TestShortCallIsOneWrite(t *testing.T) {
	server, _ := counted(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	var count atomic.Int64
	rest := usual()
	rest.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return writes{c, &count}, err
	}
	h := transport(t, rest)
	open := func() (io.ReadCloser, error) {
		b := &ownBody{}
		b.Reset("own")
		return b, nil
	}
	for i := range int64(3) {
		r := request(t.Context(), t, http.MethodPost, server.URL, "own")
		r.Body, _ = open()
		r.GetBody = open
		if status, got, err := call(h, r); err != nil || status != http.StatusOK || got != "own" {
			t.Errorf("got %d %q, %v, want 200 and its body", status, got, err)
		}
		if got := count.Load(); got != i+1 {
			t.Errorf("after call %d: got %d writes, want one for each", i+1, got)
		}
	}
}
