package service

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// late is a transport whose answers come before it reads the body, as HTTP/2's may.
type late struct {
	http.RoundTripper
	unread []io.ReadCloser
}

func (l *late) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	l.unread = append(l.unread, body)
	return l.RoundTripper.RoundTrip(r)
}

// TestBodyIsLeftToWhoStillReadsIt, and its memory serves again when nobody does.
func TestBodyIsLeftToWhoStillReadsIt(t *testing.T) {
	c := benchService().start(t)
	call := func(body string) {
		t.Helper()
		if _, err := c.UpsertProfile(t.Context(), "customers", JSON(body)); err != nil {
			t.Fatal(err)
		}
	}
	memory := func() *lent {
		w := c.watchdogs.wake(t.Context())
		defer c.watchdogs.rest(w)
		return w.body
	}
	call(`{"a":0}`)
	first := memory()
	call(`{"a":1}`)
	if memory() != first {
		t.Error("the memory of a body that was sent did not serve again")
	}
	transport := &late{RoundTripper: c.transport}
	c.transport = transport
	bodies := []string{`{"a":2}`, `{"a":3}`, `{"a":4}`}
	for _, body := range bodies {
		call(body)
	}
	for i, body := range bodies {
		if got, err := io.ReadAll(transport.unread[i]); err != nil || string(got) != body {
			t.Errorf("read late: got %s, %v, want %s", got, err, body)
		}
		for range 2 {
			_ = transport.unread[i].Close()
		}
	}
	call(strings.Repeat(" ", longestKept) + `{}`)
	if got := cap(memory().text); got > longestKept {
		t.Errorf("got %d bytes kept for the next body, want at most %d", got, longestKept)
	}
}
