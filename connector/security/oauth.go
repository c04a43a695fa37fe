package security

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

// Tokens gives tokens of one OAuth client. It may be used concurrently.
type Tokens struct {
	from OAuth
	http *http.Client
	kept kept[string]
}

// NewTokens asks for nothing yet.
func NewTokens(from OAuth) *Tokens {
	return &Tokens{from: from, kept: newKept[string](), http: &http.Client{
		Transport: from.Transport,
		Timeout:   requestTimeout,
		// The request holds the secret: it goes where it was meant to, or nowhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Get is a token that is good for a while. Its errors name the address and hold
// neither secret nor token; one attempt is made.
func (t *Tokens) Get(ctx context.Context) (string, error) {
	token, err := t.kept.get(ctx, t.fetch)
	if err != nil {
		err = fmt.Errorf("token from %s: %w", t.from.TokenURL, err)
	}
	return token, err
}

func (t *Tokens) fetch(ctx context.Context) (token string, ends time.Time, err error) {
	secret, err := t.from.Secret()
	if err != nil {
		return "", ends, err
	}
	request := clientcredentials.Config{ClientID: t.from.ClientID, ClientSecret: secret, TokenURL: t.from.TokenURL}
	if t.from.Scope != "" {
		request.Scopes = []string{t.from.Scope}
	}
	got, err := request.Token(context.WithValue(ctx, oauth2.HTTPClient, t.http))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return "", ends, refusal(refused)
	}
	if err != nil {
		return "", ends, err
	}
	return got.AccessToken, got.Expiry, nil
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
