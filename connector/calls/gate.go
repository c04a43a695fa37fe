package calls

import (
	"errors"
	"net/http"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"

	"github.com/feedsink/feedsink/schemas"
)

// BreakerState is what the breaker lets through: Closed everything, Open
// nothing, HalfOpen a single probe.
type BreakerState uint8

// The breaker's states.
const (
	Closed BreakerState = iota
	HalfOpen
	Open
)

// String is the state's word in logs and on the status page.
func (s BreakerState) String() string {
	switch s {
	case Closed:
		return "closed"
	case HalfOpen:
		return "half-open"
	default:
		return "open"
	}
}

var states = map[gobreaker.State]BreakerState{
	gobreaker.StateClosed:   Closed,
	gobreaker.StateHalfOpen: HalfOpen,
	gobreaker.StateOpen:     Open,
}

// stateChange is a change of the breaker on its way to the observer.
type stateChange struct {
	table schemas.Table
	to    BreakerState
	cause error
}

// errNoVerdict tells the breaker that an attempt says nothing about the service.
var errNoVerdict = errors.New("no verdict")

func newBreaker(cfg Breaker, turned func(string, gobreaker.State, gobreaker.State)) *gobreaker.TwoStepCircuitBreaker[struct{}] {
	return gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout: cfg.OpenFor,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return int64(c.ConsecutiveFailures) >= int64(cfg.Failures)
		},
		IsExcluded:    func(err error) bool { return errors.Is(err, errNoVerdict) },
		OnStateChange: turned,
	})
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

// shortOf is how long the rate makes the next call wait, 0 if it may start.
func (l *Lane) shortOf(now time.Time) time.Duration {
	if l.rate == nil {
		return 0
	}
	if l.cfg.Share != nil {
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
	wait := time.Duration(short/float64(l.rate.Limit())*float64(time.Second)) + 1
	if l.cfg.Share != nil {
		wait = min(wait, shareAgain) // it may have grown by then
	}
	return wait
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
		l.overloads = 0
	case v.overload && l.limiter.Limit() == 1 && (v.retryAfter > 0 || v.status == http.StatusTooManyRequests):
		l.overloads++
		l.hold(now.Add(l.backOff(l.overloads, v.retryAfter)))
	}
}
