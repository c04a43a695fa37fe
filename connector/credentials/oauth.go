package credentials

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// OAuth is a client of an OAuth 2.0 server that gets tokens for itself (RFC 6749
// section 4.4, client credentials).
type OAuth struct {
	TokenURL string
	ClientID string
	Secret   func() (string, error) // asked for with each request, so that a changed one is taken up
	Scope    string                 // as sent: names with spaces between them; "": none

	// Transport makes the requests; nil is http.DefaultTransport.
	Transport http.RoundTripper
}

const tokenTimeout = 10 * time.Second // of one request for a token

// Tokens gives tokens of one OAuth client. It may be used concurrently.
type Tokens struct {
	from OAuth
	http *http.Client

	lock lock // guards what follows
	last *oauth2.Token
	got  time.Time
}

// NewTokens asks for nothing yet.
func NewTokens(from OAuth) *Tokens {
	return &Tokens{from: from, lock: newLock(), http: &http.Client{
		Transport: from.Transport,
		Timeout:   tokenTimeout,
		// The request holds the secret: it goes where it was meant to, or nowhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Get is a token that is good for a while. Its errors name the address and hold
// neither secret nor token; one attempt is made.
func (t *Tokens) Get(ctx context.Context) (string, error) {
	select {
	case t.lock <- struct{}{}:
		defer func() { <-t.lock }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	now := time.Now()
	if t.last != nil && !t.last.Expiry.IsZero() && !due(t.got, t.last.Expiry, now) {
		return t.last.AccessToken, nil
	}
	token, err := t.fetch(ctx)
	switch {
	case err == nil:
		t.last, t.got = token, now
	case t.last == nil || past(t.last.Expiry, now):
		return "", fmt.Errorf("token from %s: %w", t.from.TokenURL, err)
	}
	return t.last.AccessToken, nil
}

func (t *Tokens) fetch(ctx context.Context) (*oauth2.Token, error) {
	secret, err := t.from.Secret()
	if err != nil {
		return nil, err
	}
	request := clientcredentials.Config{ClientID: t.from.ClientID, ClientSecret: secret, TokenURL: t.from.TokenURL}
	if t.from.Scope != "" {
		request.Scopes = []string{t.from.Scope}
	}
	token, err := request.Token(context.WithValue(ctx, oauth2.HTTPClient, t.http))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return nil, refusal(refused)
	}
	return token, err
}

// refusal leaves out the body of the answer, which may repeat what was sent.
func refusal(e *oauth2.RetrieveError) error {
	said := e.Response.Status
	if 300 <= e.Response.StatusCode && e.Response.StatusCode < 400 {
		return errors.New(said + ": a redirect is not followed: the request holds the client's secret")
	}
	if known[e.ErrorCode] {
		said += ": " + e.ErrorCode
	}
	return errors.New(said)
}

// known are the codes of RFC 6749 section 5.2.
var known = map[string]bool{
	"invalid_request": true, "invalid_client": true, "invalid_grant": true,
	"unauthorized_client": true, "unsupported_grant_type": true, "invalid_scope": true,
}
