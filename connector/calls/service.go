package calls

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Service is what lanes that call one service know of it together: the time before
// which it wants no more calls, as an answer with Retry-After said. Such an answer
// means every call, not the key that met it. After its time one call at a time
// probes the service until one is answered otherwise. Its zero value is ready.
type Service struct {
	held atomic.Bool // spares calls the lock while nothing was said

	mu      sync.Mutex
	until   time.Time
	status  int  // that said so
	probing bool // a call is under way to find out
	again   int  // probes in a row that were refused without a time
}

// throttled reports whether the service named a time before which it wants no call.
func (v *verdict) throttled() bool {
	return !v.answered && v.retryAfter > 0 &&
		(v.status == http.StatusTooManyRequests || v.status == http.StatusServiceUnavailable)
}

// admit lets a call start, which probes the service or not, or tells how long to
// wait.
func (s *Service) admit(now time.Time) (probe bool, wait time.Duration) {
	if !s.held.Load() {
		return false, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.held.Load():
		return false, 0
	case now.Before(s.until):
		return false, s.until.Sub(now)
	case s.probing:
		return false, askAgain
	}
	s.probing = true
	return true, 0
}

// hear takes an attempt's answer; probe says that admit made it one.
func (l *Lane) hear(v *verdict, probe bool, now time.Time) {
	if !probe && !v.throttled() {
		return
	}
	s := l.service
	s.mu.Lock()
	defer s.mu.Unlock()
	if probe {
		s.probing = false
	}
	switch {
	case v.throttled():
		s.asked(v, now)
	case v.outcome == Abandoned:
	case v.status == http.StatusTooManyRequests && !v.answered:
		s.again++
		s.until = now.Add(l.backOff(s.again, 0))
	default:
		s.status, s.again = 0, 0
		s.held.Store(false)
	}
}

// waits is the time before which no call starts and the status that said so, 0 if
// none did.
func (s *Service) waits() (time.Time, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until, s.status
}

// Held is how long the service wants no call yet, for calls beside the lanes.
func (s *Service) Held() time.Duration {
	if !s.held.Load() {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(time.Until(s.until), 0)
}

// Heard takes an answer that such a call got. One that asks to wait holds all calls.
func (s *Service) Heard(err error) {
	f, ok := errors.AsType[Failure](err)
	if !ok {
		return
	}
	v := verdict{status: f.Status(), retryAfter: f.RetryAfter(), answered: !f.Transient()}
	if !v.throttled() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked(&v, time.Now())
}

// asked notes the time that the service named, with mu held.
func (s *Service) asked(v *verdict, now time.Time) {
	if until := now.Add(v.retryAfter); until.After(s.until) {
		s.until = until
	}
	s.status, s.again = v.status, 0
	s.held.Store(true)
}
