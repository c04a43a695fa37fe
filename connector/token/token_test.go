package token_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/token"
	"github.com/feedsink/feedsink/connector/waits"
)

// answers is a service that gives each request for a token the status; 0: it cannot be reached.
type answers int

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	if a == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	body := io.NopCloser(strings.NewReader(`{"accessToken":"t","expiresIn":"900s"}`))
	return &http.Response{StatusCode: int(a), Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: -1, Request: r}, nil
}

func TestWhyThereIsNoTokenIsTold(t *testing.T) {
	for _, c := range []struct {
		answer answers
		cause  string // "": there is nothing to wait for
		why    string
	}{
		{200, "", ""},
		{0, waits.Service, "check service.authURL, service.tls and service.proxy"},
		{401, waits.Unauthorized, "correct service.apiKeyFile or service.apiKey"},
		{403, waits.Unauthorized, "403"},
		{429, waits.Throttled, "429"},
		{503, waits.Service, "503"},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, err := service.New(service.Config{
				BaseURL: "https://api.example.com", AuthURL: "https://auth.example.com", Entity: "acme", Timeout: time.Minute,
				APIKey: func() (service.Secret, error) { return service.NewSecret("the-api-key"), nil }, Transport: c.answer,
			})
			if err != nil {
				t.Fatal(err)
			}
			first := token.First{
				Client: client, Backoff: retry.Backoff{Initial: time.Minute, Max: time.Minute}, Random: func() float64 { return 0 },
				Log: slog.New(slog.DiscardHandler),
			}
			if got := first.Waits(); len(got) != 0 {
				t.Errorf("%d, before the first request: got %+v, want nothing", c.answer, got)
			}
			ctx, end := context.WithCancel(t.Context())
			defer end()
			go first.Run(ctx)
			time.Sleep(10 * time.Second) // the second one is made after half a minute
			switch got := first.Waits(); {
			case c.cause == "":
				if len(got) != 0 {
					t.Errorf("%d: got %+v, want nothing", c.answer, got)
				}
			case len(got) != 1 || got[0].Cause != c.cause || !strings.Contains(got[0].Why, c.why) || strings.Contains(got[0].Why, "the-api-key"):
				t.Errorf("%d: got %+v, want %s and %q", c.answer, got, c.cause, c.why)
			case time.Until(got[0].Until) != 20*time.Second:
				t.Errorf("%d: got that it is asked for again in %v, want 20 s", c.answer, time.Until(got[0].Until))
			}
		})
	}
}
