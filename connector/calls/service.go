package calls

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Service is what lanes that call one service know of it together: the time before
// which it wants no more calls, as an answer with Retry-After said. Such an answer
// means every call, not the key that met it. After its time one call at a time
// probes the service until one is answered otherwise. It also has them use what others of
// them leave of their parts of the rate. Its zero value is ready.
type Service struct {
	held atomic.Bool // spares calls the lock while nothing was said

	rates sync.Mutex // held while a call is taken out of a rate
	lanes []*Lane    // that have one

	mu      sync.Mutex
	until   time.Time
	status  int  // that said so
	probing bool // a call is under way to find out
	again   int  // probes in a row that were refused without a time
}

// throttled reports whether the service named a time before which it wants no call.
func (v *verdict) throttled() bool {
	return !v.answered && !v.noToken && v.retryAfter > 0 &&
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
	case v.outcome == Abandoned, now.Before(s.until): // the latter: another answer named that time since the probe began
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

// Take goes on with the time that the service has named to lanes of another set: they have
// ended, and these call the same service.
func (s *Service) Take(from *Service) {
	from.mu.Lock()
	until, status, held := from.until, from.status, from.held.Load()
	from.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until, s.status = until, status
	s.held.Store(held)
}

// Heard takes an answer that such a call got. One that asks to wait holds all calls.
func (s *Service) Heard(err error) {
	f, ok := errors.AsType[Failure](err)
	if !ok {
		return
	}
	v := verdict{status: f.Status(), retryAfter: f.RetryAfter(), answered: !f.Transient(), noToken: f.NoToken()}
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

const (
	askAgain   = 20 * time.Millisecond  // until the lane asks again whether it may call
	shareAgain = 250 * time.Millisecond // until it asks again for its share of the rate
)

// admit lets the lane's next call start, which probes the service or not, or tells how
// long it has to wait.
func (l *Lane) admit(now time.Time) (probe bool, wait time.Duration) {
	if l.cfg.MayCall != nil && !l.cfg.MayCall() {
		return false, askAgain
	}
	if l.rate == nil {
		return l.service.admit(now)
	}
	s := l.service
	s.rates.Lock()
	defer s.rates.Unlock()
	of, wait := s.spare(l, now)
	if wait > 0 {
		l.short = now.Add(wait + askAgain)
		return false, wait
	}
	if probe, wait = s.admit(now); wait == 0 {
		of.rate.ReserveN(now, 1)
	}
	return probe, wait
}

// spare finds the lane out of whose part of the rate a call of l may start: l, or one that
// has no call for what it has. If there is none, it tells how long to wait for one.
func (s *Service) spare(l *Lane, now time.Time) (of *Lane, wait time.Duration) {
	if wait = l.shortOf(now); wait == 0 {
		return l, 0
	}
	for _, other := range s.lanes {
		if other == l || now.Before(other.short) || !other.lends() {
			continue
		}
		switch w := other.shortOf(now); {
		case w == 0:
			return other, 0
		case w < wait:
			wait = w
		}
	}
	return nil, wait
}

// join has the lane and those before it use what either leaves of the rate.
func (s *Service) join(l *Lane) {
	s.rates.Lock()
	defer s.rates.Unlock()
	s.lanes = append(s.lanes, l)
}

// lends reports whether the lane has a part of the rate at present.
func (l *Lane) lends() bool {
	return (l.cfg.MayCall == nil || l.cfg.MayCall()) && (l.cfg.Share == nil || l.cfg.Share() > 0)
}

// Spend takes one more call out of the rate: an attempt under way makes another one.
func (l *Lane) Spend() {
	if l.rate != nil {
		l.rate.ReserveN(time.Now(), 1)
	}
}

// newRate spreads the calls evenly.
func newRate(cfg Rate) *rate.Limiter {
	if cfg.Calls == 0 {
		return nil
	}
	return rate.NewLimiter(cfg.perSecond(), burst(cfg.perSecond()))
}

func (r Rate) perSecond() rate.Limit { return rate.Limit(float64(r.Calls) / r.Per.Seconds()) }

// burst is what may be caught up at once: no more than a timer's lateness, so
// that no period sees noticeably more than its calls.
func burst(perSecond rate.Limit) int {
	const lateness = 20 * time.Millisecond
	return max(1, int(float64(perSecond)*lateness.Seconds()))
}

// shortOf is how long the lane's part of the rate makes a call wait, 0 if it may start.
func (l *Lane) shortOf(now time.Time) time.Duration {
	longest := time.Duration(1 << 62) // which a float64 holds
	if l.cfg.Share != nil {
		longest = shareAgain // it may have grown by then
		share := l.cfg.Share()
		if share <= 0 {
			return askAgain
		}
		if perSecond := l.cfg.Rate.perSecond() * rate.Limit(share); perSecond != l.rate.Limit() {
			l.rate.SetLimitAt(now, perSecond)
			l.rate.SetBurstAt(now, burst(perSecond))
		}
	}
	short := 1 - l.rate.TokensAt(now)
	if short <= 0 {
		return 0
	}
	return time.Duration(min(short/float64(l.rate.Limit())*float64(time.Second)+1, float64(longest)))
}

// hold lets no call start before then.
func (l *Lane) hold(until time.Time) {
	if until.After(l.notBefore) {
		l.notBefore = until
		l.wakeAt(until)
	}
}

// easeOff holds the whole lane back when a single call in flight is still too
// much: what is limited then is calls per time, and the limiter has nothing left
// to give.
func (l *Lane) easeOff(v *verdict, now time.Time) {
	switch {
	case v.answered:
		l.overloads, l.throttled = 0, Wait{}
		return
	case v.status == http.StatusTooManyRequests: // its key is tried again before long
		l.throttled = Wait{Status: v.status}
	}
	if v.overload && l.limiter.limit == 1 && (v.retryAfter > 0 || v.status == http.StatusTooManyRequests) {
		l.overloads++
		l.throttled = Wait{Until: now.Add(l.backOff(l.overloads, v.retryAfter)), Status: v.status}
		l.hold(l.throttled.Until)
	}
}
