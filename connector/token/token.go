// Package token gets the service's first token and says why there is none.
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

// First gets the first token. Later ones are fetched by the calls that need them.
type First struct {
	Client  *service.Client
	Backoff retry.Backoff
	Random  func() float64
	Log     *slog.Logger

	again atomic.Int64 // when it is asked for next, in nanoseconds of the Unix time
}

// Run asks until there is one or ctx ends, so that a wrong key shows before there is anything
// to send.
func (f *First) Run(ctx context.Context) {
	for tries := 1; ; tries++ {
		err := f.Client.Authenticate(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		var after time.Duration // before that, no request is made
		if e, ok := errors.AsType[*service.Error](err); ok {
			after = e.RetryAfter()
		}
		wait := f.Backoff.Next(tries, after, f.Random)
		f.again.Store(time.Now().Add(wait).UnixNano())
		f.Log.Warn("no token yet; trying again", "tries", tries, "wait", wait, "error", hinted(err))
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
