package admin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestWebhookIsAHintOnlyWithTheSecret(t *testing.T) {
	for name, c := range map[string]struct {
		secret, sent, body string
		err                error
		status             int
		hint               string
	}{
		"the secret":         {secret: "s3cret", sent: "s3cret", body: `{"executionId":"17"}`, status: 202, hint: "17"},
		"an id inside":       {secret: "s3cret", sent: "s3cret", body: `{"execution":{"id":"18"}}`, status: 202, hint: "18"},
		"any other body":     {secret: "s3cret", sent: "s3cret", body: `<xml/>`, status: 202, hint: ""},
		"a wrong secret":     {secret: "s3cret", sent: "s3cre", body: `{"id":"1"}`, status: 403, hint: "none"},
		"no secret sent":     {secret: "s3cret", body: `{"id":"1"}`, status: 403, hint: "none"},
		"no secret to match": {sent: "", body: `{"id":"1"}`, status: 403, hint: "none"},
		"a secret unread":    {secret: "s3cret", sent: "s3cret", err: errors.New("read secret"), status: 403, hint: "none"},
		"too long a body":    {secret: "s3cret", sent: "s3cret", body: strings.Repeat(" ", maxWebhookBody+1), status: 413, hint: "none"},
	} {
		mux, hint := http.NewServeMux(), "none"
		Executions("X-Secret", func() (string, error) { return c.secret, c.err }, func(id string) { hint = id }, Members{})(mux)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/webhooks/executions", strings.NewReader(c.body))
		r.Header.Set("X-Secret", c.sent)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code != c.status || hint != c.hint {
			t.Errorf("%s: got %d, hint %q, want %d, %q", name, w.Code, hint, c.status, c.hint)
		}
		if c.secret != "" && strings.Contains(w.Body.String(), c.secret) {
			t.Errorf("%s: the answer holds the secret", name)
		}
	}
}

// Two members at one port, on different addresses, as pods have them.
func TestEveryMemberHearsOfAnExecution(t *testing.T) {
	var heard [2]atomic.Int32
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(first.Addr().String())
	second, err := net.Listen("tcp", "127.0.0.2:"+port)
	if err != nil {
		t.Fatal(err)
	}
	members := Members{Address: "members.example:" + port, Log: slog.New(slog.DiscardHandler), Lookup: func(_ context.Context, host string) ([]string, error) {
		if host != "members.example" {
			t.Errorf("looked up: got %q, want members.example", host)
		}
		return []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}, nil // the third is gone already
	}}
	for i, l := range []net.Listener{first, second} {
		mux := http.NewServeMux()
		Executions("X-Secret", func() (string, error) { return "s3cret", nil }, func(id string) {
			if id == "17" {
				heard[i].Add(1)
			}
		}, members)(mux)
		server := &httptest.Server{Listener: l, Config: &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}}
		server.Start()
		t.Cleanup(server.Close)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+first.Addr().String()+"/webhooks/executions", strings.NewReader(`{"executionId":"17"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Secret", "s3cret")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Errorf("got %s, want 202", resp.Status)
	}
	// The one that was called hears it twice: it is one of the members.
	if a, b := heard[0].Load(), heard[1].Load(); a != 2 || b != 1 {
		t.Errorf("heard: got %d and %d, want 2 and 1", a, b)
	}
}

func TestProfilesAreServedOnRequestOnly(t *testing.T) {
	for _, on := range []bool{false, true} {
		mux := http.NewServeMux()
		if on {
			Profiles()(mux)
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/pprof/", nil))
		if got := w.Code == http.StatusOK; got != on {
			t.Errorf("profiles configured %v: got status %d", on, w.Code)
		}
	}
}
