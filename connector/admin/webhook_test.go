package admin

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/service"
)

func TestWebhookIsAHintOnlyWithTheSecret(t *testing.T) {
	for name, c := range map[string]struct {
		secret, sent, body string
		header             string
		err                error
		status             int
		hint               string
	}{
		"the secret":         {secret: "s3cret", sent: "s3cret", body: `{"executionId":"17"}`, status: 202, hint: "17"},
		"an id inside":       {secret: "s3cret", sent: "s3cret", body: `{"execution":{"id":"18"}}`, status: 202, hint: "18"},
		"a number":           {secret: "s3cret", sent: "s3cret", body: `{"id":12}`, status: 202, hint: "12"},
		"a number inside":    {secret: "s3cret", sent: "s3cret", body: `{"execution":{"id":12}}`, status: 202, hint: "12"},
		"any other body":     {secret: "s3cret", sent: "s3cret", body: `<xml/>`, status: 202, hint: ""},
		"a wrong secret":     {secret: "s3cret", sent: "s3cre", body: `{"id":"1"}`, status: 403, hint: "none"},
		"no secret sent":     {secret: "s3cret", body: `{"id":"1"}`, status: 403, hint: "none"},
		"no secret to match": {sent: "", body: `{"id":"1"}`, status: 403, hint: "none"},
		"a secret unread":    {secret: "s3cret", sent: "s3cret", err: errors.New("read secret"), status: 403, hint: "none"},
		"a zipped body":      {secret: "s3cret", sent: "s3cret", body: `{"id":"1"}`, header: "Content-Encoding: gzip", status: 202, hint: ""},
		"a form":             {secret: "s3cret", sent: "s3cret", body: `{"id":"1"}`, header: "Content-Type: multipart/form-data; boundary=x", status: 202, hint: ""},
		"a form, no secret":  {secret: "s3cret", body: `{"id":"1"}`, header: "Content-Type: application/x-www-form-urlencoded", status: 403, hint: "none"},
		"too long, a guess":  {secret: "s3cret", sent: "guess", body: strings.Repeat(" ", maxWebhookBody+1), status: 403, hint: "none"},
		"too long a body":    {secret: "s3cret", sent: "s3cret", body: strings.Repeat(" ", maxWebhookBody+1), status: 202, hint: ""},
	} {
		mux, hint := http.NewServeMux(), "none"
		Executions("X-Secret", func() (string, error) { return c.secret, c.err }, service.Ended, func(id, _ string) { hint = id }, Members{})(mux)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/webhooks/executions", strings.NewReader(c.body))
		r.Header.Set("X-Secret", c.sent)
		if name, value, ok := strings.Cut(c.header, ": "); ok {
			r.Header.Set(name, value)
		}
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

func TestWebhookSaysWhoseETLHasEnded(t *testing.T) {
	for name, c := range map[string]struct{ header, body, want string }{
		"the subscription":     {"101", `{"executionId":"17"}`, "17 of 101"},
		"the body":             {"", `{"executionId":"17","etlId":102}`, "17 of 102"},
		"the one we have made": {"101", `{"executionId":"17","etlId":"102"}`, "17 of 101"},
		"neither":              {"", `17`, "17 of "},
	} {
		mux, got := http.NewServeMux(), ""
		Executions("X-Secret", tokenIs("s3cret"), service.Ended, func(id, etl string) { got = id + " of " + etl }, Members{})(mux)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/webhooks/executions", strings.NewReader(c.body))
		r.Header.Set("X-Secret", "s3cret")
		r.Header.Set(ETLHeader, c.header)
		if mux.ServeHTTP(httptest.NewRecorder(), r); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
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
