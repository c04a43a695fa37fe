package service

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// errSilent is a call whose time is up. It is not context.DeadlineExceeded,
// which would look like the caller's own deadline.
var errSilent = errors.New("timeout")

// watchdog bounds one exchange after the other and notes how far each came. Its
// context, timer, trace and the memory of the body are made once: made for each
// call they would be a good part of what a call costs.
type watchdog struct {
	limit  time.Duration
	parent any // the context it was made for
	cancel context.CancelFunc
	timer  *time.Timer
	trace  httptrace.ClientTrace
	blank  *http.Request // carries the context

	body *lent // of the call

	asked, connected atomic.Bool // for a connection, and got one
	silent           atomic.Bool // the time was up
	stopped          atomic.Bool // the exchange is over
}

// newWatchdog makes one whose context ends when nothing has moved for limit, or
// with parent. end or rest must be called.
func newWatchdog(parent context.Context, limit time.Duration) *watchdog {
	w := &watchdog{limit: limit, parent: parent}
	ctx, cancel := context.WithCancel(parent)
	w.cancel = cancel
	w.timer = time.AfterFunc(limit, func() {
		w.silent.Store(true)
		cancel()
	})
	w.body = newLent()
	w.trace.GetConn = func(string) { w.asked.Store(true) }
	w.trace.GotConn = func(httptrace.GotConnInfo) { w.connected.Store(true) }
	w.blank = (&http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(httptrace.WithClientTrace(ctx, &w.trace))
	return w
}

// request is a new request under the watchdog's context.
func (w *watchdog) request() *http.Request {
	r := *w.blank
	return &r
}

// moved starts the time anew: a byte was transferred.
func (w *watchdog) moved() {
	if !w.stopped.Load() {
		w.timer.Reset(w.limit)
	}
}

// end lets go of the exchange, and of whatever of it is still under way.
func (w *watchdog) end() {
	w.stopped.Store(true)
	w.timer.Stop()
	w.cancel()
}

// watchdogPool keeps watchdogs between calls: as many as there may be calls in flight.
type watchdogPool struct {
	limit time.Duration
	idle  chan *watchdog
}

func newWatchdogPool(limit time.Duration, room int) *watchdogPool {
	return &watchdogPool{limit: limit, idle: make(chan *watchdog, room)}
}

// wake returns a watchdog for an exchange under parent. One that was made for
// the same context serves again, which is the lane's for all of its calls but
// those that are traced: another context may carry another call's span.
func (k *watchdogPool) wake(parent context.Context) *watchdog {
	select {
	case w := <-k.idle:
		if w.parent == parent {
			w.asked.Store(false)
			w.connected.Store(false)
			w.timer.Reset(k.limit)
			return w
		}
		w.cancel()
	default:
	}
	return newWatchdog(parent, k.limit)
}

// rest takes a watchdog back after an exchange that was answered. One whose time
// is up, be it only now, is of no further use.
func (k *watchdogPool) rest(w *watchdog) {
	if !w.body.free() {
		w.body = newLent()
	}
	if !w.timer.Stop() {
		w.end()
		return
	}
	select {
	case k.idle <- w:
	default:
		w.end()
	}
}

// close ends the idle ones.
func (k *watchdogPool) close() {
	for {
		select {
		case w := <-k.idle:
			w.end()
		default:
			return
		}
	}
}
