package service

import (
	"context"
	"encoding/base64"
	"errors"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestStatusesAreClassifiedOnce(t *testing.T) {
	cases := []struct {
		status                       int
		kind                         Kind
		transient, overload, unknown bool
	}{
		{302, Transient, true, false, false},
		{400, Rejected, false, false, false},
		{403, Unauthorized, true, false, false},
		{404, Transient, true, false, false},
		{408, Transient, true, true, false},
		{409, Conflict, false, false, false},
		{410, Transient, true, false, false},
		{413, Transient, true, false, false},
		{422, Rejected, false, false, false},
		{425, Transient, true, false, false},
		{429, Throttled, true, true, false},
		{499, Transient, true, false, true},
		{500, Transient, true, false, true},
		{502, Transient, true, false, true},
		{503, Transient, true, true, true},
		{504, Transient, true, true, true},
		{599, Transient, true, false, true},
	}
	var status int
	s := &service{calls: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
	}}
	c := s.start(t)
	for _, tc := range cases {
		status = tc.status
		_, err := c.UpsertProfile(t.Context(), "customers", JSON(`{}`))
		e := errorOf(t, err)
		got := []any{e.Kind(), e.Status(), e.Transient(), e.Overload(), e.Unknown(), e.op, e.RetryAfter()}
		want := []any{tc.kind, tc.status, tc.transient, tc.overload, tc.unknown, opUpsertProfile, 7 * time.Second}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%d: got %v, want %v", tc.status, got, want)
				break
			}
		}
		if prefix := "create or update profile customers: " + strconv.Itoa(tc.status); !strings.HasPrefix(err.Error(), prefix) {
			t.Errorf("%d: got %q, want it to begin with %q", tc.status, err, prefix)
		}
	}
}

func TestErrorsHoldNeitherTokenNorWhatWasWritten(t *testing.T) {
	s := &service{calls: func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "refused "+r.Header.Get("Authorization")+" for "+testKey+"\n\x00body: "+string(body))
	}}
	c := s.start(t)
	_, err := c.UpsertProfile(t.Context(), "customers", JSON(`john@example.com`))
	e := errorOf(t, err)
	if strings.Contains(err.Error(), "john") {
		t.Errorf("got %q, which quotes the profile", err)
	}
	if want := "refused Bearer [redacted] for [redacted] body: john@example.com"; e.Reason() != want {
		t.Errorf("reason: got %q, want %q", e.Reason(), want)
	}
	_, err = c.CreateETL(t.Context(), triggeredETL())
	if want := `create ETL: 400 Bad Request: refused Bearer [redacted] for [redacted] body: {"type":"TRIGGERED"`; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestSecretsThatAnAnswerEscapesAreLeftOut(t *testing.T) {
	const secret = "kQ/9+x&Yz0a Wlong=="
	for _, text := range []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), html.EscapeString(secret), base64.StdEncoding.EncodeToString([]byte(secret)),
		`kQ\/9+x&Yz0a Wlong==`, `kQ/9\u002bx\u0026Yz0a Wlong\u003D\u003d`, `kQ&#47;9&#x2B;x&amp;Yz0a%20Wlong==`,
	} {
		if got, want := redact(`the key '`+text+`' is not known \o/`, secret), `the key '[redacted]' is not known \o/`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestLostAnswerLeavesTheOutcomeUnknown(t *testing.T) {
	s := &service{calls: func(w http.ResponseWriter, _ *http.Request) { reset(w) }}
	c := s.start(t)
	_, err := c.UpsertRecord(t.Context(), "orders", JSON(`{}`), false)
	if e := errorOf(t, err); e.Kind() != Transient || !e.Unknown() || e.Status() != 0 || e.Overload() {
		t.Errorf("write: got %v (%v, unknown %v), want transient and unknown", e, e.Kind(), e.Unknown())
	}
	_, err = c.Results(t.Context(), "9")
	if e := errorOf(t, err); e.Kind() != Transient || e.Unknown() {
		t.Errorf("read: got %v (%v, unknown %v), want transient and known", e, e.Kind(), e.Unknown())
	}
}

func TestResetInsideAnAnswerOfAReadIsTransient(t *testing.T) {
	s := &service{calls: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"status":"FINISHED"`)
		_ = http.NewResponseController(w).Flush()
		reset(w)
	}}
	c := s.start(t)
	_, err := c.Results(t.Context(), "9")
	_, streamed := c.OutputFiles(t.Context(), "9", io.Discard)
	for _, err := range []error{err, streamed} {
		if e := errorOf(t, err); e.Kind() != Transient || e.Unknown() {
			t.Errorf("got %v (%v), want transient", e, e.Kind())
		}
	}
}

func TestUnreachableServiceLeavesNoDoubt(t *testing.T) {
	s := &service{calls: func(http.ResponseWriter, *http.Request) {}}
	c := s.start(t)
	if err := c.Authenticate(t.Context()); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.base.Host = listener.Addr().String()
	_ = listener.Close()
	e := errorOf(t, c.DeleteRecord(t.Context(), "orders", "k"))
	if e.Kind() != Transient || e.Unknown() {
		t.Errorf("got %v (%v, unknown %v), want transient: nothing was sent", e, e.Kind(), e.Unknown())
	}
}

// opaque is a transport that tells nothing of its connections.
type opaque struct{ next http.RoundTripper }

func (o opaque) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := o.next.RoundTrip(r.WithContext(context.Background()))
	return response, err
}

func TestTransportThatTellsNothingLeavesDoubt(t *testing.T) {
	s := &service{calls: func(w http.ResponseWriter, _ *http.Request) { reset(w) }}
	c := s.start(t)
	c.transport = opaque{c.transport}
	if e := errorOf(t, c.DeleteRecord(t.Context(), "orders", "k")); !e.Unknown() {
		t.Errorf("got %v (unknown %v), want unknown", e, e.Unknown())
	}
}

func TestTimeoutIsNotTheCallersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{calls: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
		c := s.startInBubble(t)
		start := time.Now()
		e := errorOf(t, c.DeleteRecord(t.Context(), "orders", "k"))
		if got := time.Since(start); got != 30*time.Second {
			t.Errorf("gave up after %v, want 30s", got)
		}
		if e.Kind() != Transient || !e.Overload() || !e.Unknown() || errors.Is(e, context.DeadlineExceeded) {
			t.Errorf("got %v (%v, overload %v, unknown %v), want a transient overload of unknown outcome",
				e, e.Kind(), e.Overload(), e.Unknown())
		}
		if want := "delete record orders: no answer within 30s"; e.Error() != want {
			t.Errorf("got %q, want %q", e, want)
		}
	})
}

func TestTricklingAnswerIsTimedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{calls: func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, " ")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(time.Second)
			}
		}}
		_, err := s.startInBubble(t).Results(t.Context(), "9")
		if e := errorOf(t, err); !e.Overload() {
			t.Errorf("got %v, want a timeout", e)
		}
	})
}

func TestCallersEndIsToldFromATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{calls: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
		c := s.startInBubble(t)
		if err := c.Authenticate(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		e := errorOf(t, c.DeleteRecord(ctx, "orders", "k"))
		if e.Kind() != Canceled || !errors.Is(e, context.Canceled) || e.Overload() || !e.Unknown() {
			t.Errorf("got %v (%v, unknown %v), want canceled, outcome unknown", e, e.Kind(), e.Unknown())
		}
		e = errorOf(t, c.DeleteRecord(ctx, "orders", "k"))
		if e.Kind() != Canceled || e.Unknown() {
			t.Errorf("ended before: got %v (%v, unknown %v), want canceled and not sent", e, e.Kind(), e.Unknown())
		}
	})
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	s := &service{}
	s.calls = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			t.Error("the redirect was followed")
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}
	if e := errorOf(t, s.start(t).DeleteRecord(t.Context(), "orders", "k")); !e.Transient() {
		t.Errorf("got %v, want transient", e)
	}
}

func TestConnectionsAreReused(t *testing.T) {
	var last string
	dialed := 0
	s := &service{calls: func(w http.ResponseWriter, r *http.Request) {
		if r.RemoteAddr != last {
			last = r.RemoteAddr
			dialed++
		}
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, strings.Repeat("a long refusal ", 1000))
	}}
	c := s.start(t)
	for range 20 {
		_ = c.DeleteRecord(t.Context(), "orders", "k")
	}
	if dialed != 1 {
		t.Errorf("got %d connections for 20 calls, want 1", dialed)
	}
}
