// Package token gets the service's first token, and another one where a renewal has failed, and
// says why there is none.
//
// It knows requests for tokens and when they are made again. It knows nothing of the calls
// that need one.
package token

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/waits"
)

// First gets the first token. Later ones are fetched by the calls that need them; where that fails,
// it asks again: a member may make no other call for long.
type First struct {
	Client  *service.Client
	Backoff retry.Backoff
	Random  func() float64
	Log     *slog.Logger

	again atomic.Int64 // when it is asked for next, in nanoseconds of the Unix time
}

// lookEvery is how often it is looked whether a call could not renew the token.
const lookEvery = time.Minute

// Run asks until there is a token, so that a wrong key shows before there is anything
// to send, and whenever the last request for one has failed. It ends with ctx.
func (f *First) Run(ctx context.Context) {
	for f.ask(ctx); retry.Sleep(ctx, lookEvery) == nil; {
		if !f.Client.TokenOK() {
			f.ask(ctx)
		}
	}
}

// ask asks until a request for a token has succeeded, or ctx ends.
func (f *First) ask(ctx context.Context) {
	for tries := 1; ; tries++ {
		_ = f.Client.Authenticate(ctx)        // no error where the former token is still good
		notBefore, err := f.Client.TokenErr() // of the last request
		if err == nil || ctx.Err() != nil {
			return
		}
		wait := f.Backoff.Next(tries, time.Until(notBefore), f.Random)
		f.again.Store(time.Now().Add(wait).UnixNano())
		f.Log.Warn("no new token; trying again", "tries", tries, "wait", wait, "error", hinted(err))
		if retry.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// Waits says why there is no token, and when it is asked for next; nothing where there is one, or the
// first request is under way.
func (f *First) Waits() []observe.Wait {
	next, err := f.Client.TokenErr()
	if err == nil {
		return nil
	}
	w := observe.Wait{Cause: waits.Service, Why: fmt.Sprintf("the service has given no token: %v; it is asked for again", hinted(err))}
	if e, ok := errors.AsType[*service.Error](err); ok {
		switch status := e.Status(); {
		case status == http.StatusTooManyRequests:
			w.Cause = waits.Throttled
		case status == http.StatusUnauthorized, status == http.StatusForbidden, status == 0 && e.Kind() == service.Unauthorized: // the key cannot be read
			w.Cause = waits.Unauthorized
		}
	}
	if again := time.Unix(0, f.again.Load()); again.After(next) {
		next = again
	}
	if next.After(time.Now()) { // else by the next call
		w.Until = next.Round(0)
	}
	return []observe.Wait{w}
}

// hinted is the error with what a person has to do about it.
func hinted(err error) error {
	if hint := service.Hint(err, "service.authURL"); hint != "" {
		return fmt.Errorf("%w; %s", err, hint)
	}
	return err
}
