package feed

import (
	"context"
	"errors"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// errSilent is a call whose time is up. It is not context.DeadlineExceeded,
// which would look like the caller's own deadline.
var errSilent = errors.New("timeout")

// watchdog bounds one exchange and notes how far it came.
type watchdog struct {
	limit  time.Duration
	cancel context.CancelFunc
	timer  *time.Timer
	trace  httptrace.ClientTrace

	asked, connected atomic.Bool // for a connection, and got one
	silent           atomic.Bool // the time was up
	stopped          atomic.Bool // the exchange is over
}

// watch returns a context that ends when nothing has moved for limit. stop must
// be called.
func watch(parent context.Context, limit time.Duration) (context.Context, *watchdog) {
	w := &watchdog{limit: limit}
	ctx, cancel := context.WithCancel(parent)
	w.cancel = cancel
	w.timer = time.AfterFunc(limit, func() {
		w.silent.Store(true)
		cancel()
	})
	w.trace.GetConn = func(string) { w.asked.Store(true) }
	w.trace.GotConn = func(httptrace.GotConnInfo) { w.connected.Store(true) }
	return httptrace.WithClientTrace(ctx, &w.trace), w
}

// moved starts the time anew: a byte was transferred.
func (w *watchdog) moved() {
	if !w.stopped.Load() {
		w.timer.Reset(w.limit)
	}
}

func (w *watchdog) stop() {
	w.stopped.Store(true)
	w.timer.Stop()
	w.cancel()
}
