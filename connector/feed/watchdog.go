package feed

import (
	"context"
	"errors"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// errSilent ends a call whose time is up. It is not context.DeadlineExceeded,
// which would look like the caller's own deadline.
var errSilent = errors.New("timeout")

// watchdog bounds one exchange and notes how far it came.
type watchdog struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  time.Duration
	trace  httptrace.ClientTrace

	asked, connected atomic.Bool // for a connection, and got one
}

func watch(parent context.Context, limit time.Duration) *watchdog {
	w := &watchdog{limit: limit}
	w.ctx, w.cancel = context.WithCancelCause(parent)
	w.timer = time.AfterFunc(limit, func() { w.cancel(errSilent) })
	w.trace.GetConn = func(string) { w.asked.Store(true) }
	w.trace.GotConn = func(httptrace.GotConnInfo) { w.connected.Store(true) }
	return w
}

// moved starts the time anew: a byte was transferred.
func (w *watchdog) moved() {
	if w.ctx.Err() == nil {
		w.timer.Reset(w.limit)
	}
}

func (w *watchdog) stop() {
	w.cancel(nil)
	w.timer.Stop()
}
