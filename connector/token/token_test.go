package token_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
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

// changing is a service whose answer changes.
type changing struct {
	status atomic.Int64
	after  atomic.Bool // in 90 seconds
	asked  atomic.Int64
}

func (c *changing) RoundTrip(r *http.Request) (*http.Response, error) {
	c.asked.Add(1)
	resp, err := answers(c.status.Load()).RoundTrip(r)
	if c.after.Load() {
		resp.Header.Set("Retry-After", "90")
	}
	return resp, err
}

// A member that makes no calls renews no token: one renewal that failed would be the last.
func TestATokenThatCouldNotBeRenewedIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := new(changing)
		answer.status.Store(200)
		client, err := service.New(service.Config{
			BaseURL: "https://api.example.com", AuthURL: "https://auth.example.com", Entity: "acme", Timeout: time.Minute,
			APIKey: func() (service.Secret, error) { return service.NewSecret("the-api-key"), nil }, Transport: answer,
		})
		if err != nil {
			t.Fatal(err)
		}
		first := token.First{
			Client: client, Backoff: retry.Backoff{Initial: time.Second, Max: 8 * time.Second}, Random: func() float64 { return 0 },
			Log: slog.New(slog.DiscardHandler),
		}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			first.Run(ctx)
			close(ended)
		}()
		expect := func(what string, asked int64, ok bool) {
			t.Helper()
			if synctest.Wait(); answer.asked.Load() != asked || client.TokenOK() != ok {
				t.Errorf("%s: got %d requests, ok %v, want %d, %v", what, answer.asked.Load(), client.TokenOK(), asked, ok)
			}
		}
		time.Sleep(12*time.Minute + 30*time.Second) // from then on a call renews it
		expect("the first token, which no call renews", 1, true)

		answer.status.Store(503)
		answer.after.Store(true)
		if err := client.Authenticate(ctx); err != nil {
			t.Fatalf("the former token is good still: got %v", err)
		}
		expect("the renewal failed", 2, false)
		time.Sleep(89 * time.Second)
		expect("before the time that the service asked for", 2, false)
		answer.after.Store(false)
		time.Sleep(30*time.Second + 700*time.Millisecond)
		before := answer.asked.Load()
		if expect("the service is down", before, false); before < 6 || before > 12 { // 4 seconds apart, and less at first
			t.Errorf("got %d requests in half a minute", before-2)
		}
		if got := first.Waits(); len(got) != 1 || time.Until(got[0].Until) > 8*time.Second {
			t.Errorf("got that it waits for %+v", got)
		}
		answer.status.Store(200)
		time.Sleep(8 * time.Second)
		expect("the service is back", before+1, true)
		time.Sleep(time.Hour)
		expect("an hour without calls", before+1, true)
		end()
		<-ended
	})
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
