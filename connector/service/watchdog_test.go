package service

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestWatchdogServesCallAfterCall: one that rested longer than its limit bounds
// the next call from that call's beginning.
func TestWatchdogServesCallAfterCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var latency atomic.Int64
		latency.Store(int64(20 * time.Second))
		s := &service{calls: func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			time.Sleep(time.Duration(latency.Load()))
			_, _ = io.WriteString(w, `{"id":"p1"}`)
		}}
		c := s.startInBubble(t)
		for i := range 3 {
			if _, err := c.UpsertProfile(t.Context(), "customers", JSON(`{}`)); err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
			if got := len(c.watchdogs.idle); got != 1 {
				t.Fatalf("call %d: got %d watchdogs at rest, want the same one", i, got)
			}
			time.Sleep(31 * time.Second)
		}
		latency.Store(int64(31 * time.Second))
		_, err := c.UpsertProfile(t.Context(), "customers", JSON(`{}`))
		if e := errorOf(t, err); !e.timeout {
			t.Errorf("got %v, want a timeout", err)
		}
		if got := len(c.watchdogs.idle); got != 0 {
			t.Errorf("got %d watchdogs at rest, want none: its time was up", got)
		}
		latency.Store(0)
		if _, err := c.UpsertProfile(t.Context(), "customers", JSON(`{}`)); err != nil {
			t.Errorf("after a timeout: %v", err)
		}
	})
}

// TestWatchdogIsOfOneCaller: the end of one caller's context ends its calls and
// nobody else's.
func TestWatchdogIsOfOneCaller(t *testing.T) {
	c := benchService().start(t)
	first, cancel := context.WithCancel(t.Context())
	if _, err := c.UpsertProfile(first, "customers", benchBody); err != nil {
		t.Fatal(err)
	}
	cancel()
	for i := range 2 {
		if _, err := c.UpsertProfile(t.Context(), "customers", benchBody); err != nil {
			t.Errorf("call %d under another context: %v", i, err)
		}
	}
}

type callName struct{}

// named is a transport that notes what each request's context carries.
type named struct {
	http.RoundTripper
	names []any
}

func (n *named) RoundTrip(r *http.Request) (*http.Response, error) {
	n.names = append(n.names, r.Context().Value(callName{}))
	return n.RoundTripper.RoundTrip(r)
}

// TestRequestsCarryTheirOwnCallsContext: a trace hangs on it.
func TestRequestsCarryTheirOwnCallsContext(t *testing.T) {
	c := benchService().start(t)
	if _, err := c.UpsertProfile(t.Context(), "customers", benchBody); err != nil { // which gets the token
		t.Fatal(err)
	}
	seen := &named{RoundTripper: c.transport}
	c.transport = seen
	want := []any{"first", nil, "second"}
	for _, name := range want {
		ctx := t.Context()
		if name != nil {
			ctx = context.WithValue(ctx, callName{}, name)
		}
		if _, err := c.UpsertProfile(ctx, "customers", benchBody); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(seen.names, want) {
		t.Errorf("calls in the requests' contexts: got %v, want %v", seen.names, want)
	}
}
