package service

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// After a failed token request, the next one waits this long, doubling up to
// the longer: hundreds of waiting calls must not become hundreds of requests
// with a key that was just refused.
const (
	firstHold = 100 * time.Millisecond
	maxHold   = 5 * time.Second
)

// token is one answer of operation 14, immutable, with the headers of the calls
// it allows: built once here instead of once per call. A RoundTripper must not
// change a request, so calls may share them.
type token struct {
	secrets []string  // the token and the key it was had for: never to be quoted
	renewAt time.Time // from here on a call fetches the next one
	expires time.Time // from here on it is not used any more
	bare    http.Header
	json    http.Header
}

// newToken starts the token's life when its request was sent: the service
// counts from then on at the earliest. A fifth of the life is left for the
// renewal, whether it lasts 15 minutes or three seconds.
func newToken(text, key string, life time.Duration, sent time.Time) *token {
	bare := http.Header{
		"Authorization": {"Bearer " + text},
		"Accept":        {"application/json"},
		"User-Agent":    {userAgent},
	}
	json := bare.Clone()
	json["Content-Type"] = []string{"application/json"}
	return &token{
		secrets: []string{text, key},
		renewAt: sent.Add(life / 5 * 4),
		expires: sent.Add(life),
		bare:    bare,
		json:    json,
	}
}

// tokenSource holds the one token of all calls. It has no goroutine of its own:
// the first call that finds the token due fetches the next one, while the
// others go on with the old one as long as that lives and wait only after that.
type tokenSource struct {
	key   func() (Secret, error)
	fetch func(context.Context, Secret) (*token, error)

	current atomic.Pointer[token] // nil: none
	ok      atomic.Bool           // the last fetch succeeded
	refused atomic.Int32          // the status of the answer to the last fetch, if it failed; 0: none came

	mu        sync.Mutex
	fetching  *tokenFetch // the fetch under way, nil if none
	failures  int         // fetches failed in a row
	holdUntil time.Time
	last      error // of the last fetch
}

// tokenFetch is one fetch; tok and err may be read once done is closed.
type tokenFetch struct {
	done chan struct{}
	tok  *token
	err  error
}

// fresh is the token if it is not due yet, else nil.
func (s *tokenSource) fresh() *token {
	if t := s.current.Load(); t != nil && time.Now().Before(t.renewAt) {
		return t
	}
	return nil
}

// get returns a token to call with. One fetch serves all who wait; each waits
// only as long as its own ctx.
func (s *tokenSource) get(ctx context.Context) (*token, error) {
	for {
		t, f, lead, err := s.join()
		if t != nil || err != nil {
			return t, err
		}
		if lead {
			return s.lead(ctx, f)
		}
		select {
		case <-ctx.Done():
			return nil, canceled(ctx, opToken, "")
		case <-f.done:
		}
		if f.tok != nil {
			return f.tok, nil
		}
		if failed, ok := errors.AsType[*Error](f.err); !ok || failed.kind != Canceled {
			return nil, altered(f.err, func(e *Error) { e.shared = true })
		}
		// Only the call that fetched for all was canceled: fetch again.
	}
}

// join decides what a call without a fresh token does: use the token it gets,
// lead the flight or wait for it, or take the error.
func (s *tokenSource) join() (t *token, f *tokenFetch, lead bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	t = s.current.Load()
	if t != nil && !now.Before(t.expires) {
		t = nil
	}
	switch {
	case t != nil && (now.Before(t.renewAt) || s.fetching != nil || now.Before(s.holdUntil)):
		return t, nil, false, nil
	case s.fetching != nil:
		return nil, s.fetching, false, nil
	case now.Before(s.holdUntil):
		return nil, nil, false, altered(s.last, func(e *Error) { e.after = s.holdUntil.Sub(now) })
	}
	s.fetching = &tokenFetch{done: make(chan struct{})}
	return nil, s.fetching, true, nil
}

// lead fetches for everybody. If that fails, the old token is good for this
// call until it expires.
func (s *tokenSource) lead(ctx context.Context, f *tokenFetch) (*token, error) {
	key, err := s.key()
	switch {
	case err != nil:
		err = &Error{op: opToken, kind: Unauthorized, text: "read API key: " + err.Error(), err: err}
	case !headerSafe(key.Reveal()):
		err = &Error{
			op: opToken, kind: Unauthorized,
			text: "the API key is empty or holds characters that no HTTP header may carry",
		}
	default:
		f.tok, err = s.fetch(ctx, key)
	}
	f.err = err

	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(f.done)
	s.fetching = nil
	if err == nil {
		s.current.Store(f.tok)
		s.ok.Store(true)
		s.refused.Store(0)
		s.failures, s.holdUntil, s.last = 0, time.Time{}, nil
		return f.tok, nil
	}
	if ctx.Err() == nil {
		s.fail(err)
	}
	if t := s.current.Load(); t != nil && time.Now().Before(t.expires) && ctx.Err() == nil {
		return t, nil
	}
	return nil, err
}

// fail counts a failed fetch and holds back the next one. mu is held.
func (s *tokenSource) fail(err error) {
	s.ok.Store(false)
	hold := firstHold
	for range s.failures {
		hold = min(2*hold, maxHold)
	}
	s.failures = min(s.failures+1, 10)
	status := 0
	if asked, ok := errors.AsType[*Error](err); ok {
		hold, status = max(hold, asked.after), asked.Status()
	}
	s.refused.Store(int32(status)) //nolint:gosec // a status has three digits
	s.holdUntil, s.last = time.Now().Add(hold), err
}

// drop forgets a token that the service refused, unless it has been replaced
// already: of many calls refused at once only the first finds it.
func (s *tokenSource) drop(refused *token) {
	s.current.CompareAndSwap(refused, nil)
}

// altered is the failure of a fetch for a call that did not make it.
func altered(failed error, change func(*Error)) error {
	e, ok := errors.AsType[*Error](failed)
	if !ok {
		return failed
	}
	own := *e
	change(&own)
	return &own
}

// headerSafe reports whether text can be sent as a header.
func headerSafe(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] == 0x7f {
			return false
		}
	}
	return text != ""
}

// Authenticate makes sure that there is a token (operation 14), fetching one
// if none is fresh.
func (c *Client) Authenticate(ctx context.Context) error {
	_, err := c.tokens.get(ctx)
	return err
}

// TokenOK reports whether the last token request succeeded. It stays true
// while no call needs a token, however long ago that was.
func (c *Client) TokenOK() bool { return c.tokens.ok.Load() }

// TokenRefused is the status with which the last token request was refused; 0: it was not,
// or no answer came.
func (c *Client) TokenRefused() int { return int(c.tokens.refused.Load()) }

// TokenErr is why the last token request failed, and the time before which no other one is
// made; no error: it did not.
func (c *Client) TokenErr() (notBefore time.Time, err error) {
	c.tokens.mu.Lock()
	defer c.tokens.mu.Unlock()
	return c.tokens.holdUntil, c.tokens.last
}

// TakeToken goes on with the token of a client that has the same key from the same address,
// and with what was heard when it was asked for. It is called before any call is made.
func (c *Client) TakeToken(of *Client) {
	c.tokens.current.Store(of.tokens.current.Load())
	c.tokens.ok.Store(of.tokens.ok.Load())
	c.tokens.refused.Store(of.tokens.refused.Load())
	of.tokens.mu.Lock()
	failures, holdUntil, last := of.tokens.failures, of.tokens.holdUntil, of.tokens.last
	of.tokens.mu.Unlock()
	c.tokens.mu.Lock()
	defer c.tokens.mu.Unlock()
	c.tokens.failures, c.tokens.holdUntil, c.tokens.last = failures, holdUntil, last
}

// requestToken is operation 14. Its answer holds a secret under a name
// that is not certain, so that a 2xx is never quoted.
func (c *Client) requestToken(ctx context.Context, key Secret) (*token, error) {
	sent := time.Now()
	got, err := c.exchange(ctx, &call{op: opToken, url: c.auth}, http.Header{
		"Authorization": {key.Reveal()},
		"Accept":        {"application/json"},
		"User-Agent":    {userAgent},
	}, key.Reveal())
	if err != nil {
		return nil, err
	}
	text, life, err := tokenAnswer(got.body)
	if err != nil {
		return nil, unreadable(opToken, "", got, err)
	}
	return newToken(text, key.Reveal(), life, sent), nil
}
