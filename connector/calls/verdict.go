package calls

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/schemas"
)

// Outcome is how an attempt ended.
type Outcome uint8

// The outcomes. The first two confirm a write.
const (
	Applied       Outcome = iota + 1 // the service said yes
	AbsentAlready                    // delete of what is not there (operations 3 and 7: 404)
	Rejected                         // the service will not take it, or it was given up
	Retried                          // it failed and will be tried again
	Abandoned                        // the lane ended before another try
)

// String is the outcome's word in metrics.
func (o Outcome) String() string {
	switch o {
	case Applied:
		return "applied"
	case AbsentAlready:
		return "absent"
	case Rejected:
		return "rejected"
	case Retried:
		return "retried"
	case Abandoned:
		return "abandoned"
	default:
		return "unknown"
	}
}

// verdict is what an attempt came to.
type verdict struct {
	outcome    Outcome
	err        error // nil if confirmed
	answered   bool  // the service dealt with it, whatever it said
	unsure     bool  // it may have been applied
	overload   bool
	retryAfter time.Duration
	status     int
	held       bool // refused, and kept until its mapping is resumed
}

// judge reads an attempt's error. An attempt that was cut off because the lane
// ends is neither confirmed nor rejected: the write is still to be done.
func (l *Lane) judge(ctx context.Context, c *call, err error, now time.Time) verdict {
	if err == nil {
		return verdict{outcome: Applied, answered: true}
	}
	v := verdict{outcome: Retried, err: err, unsure: true}
	if f, ok := errors.AsType[Failure](err); ok {
		v.status, v.overload, v.retryAfter, v.unsure = f.Status(), f.Overload(), f.RetryAfter(), f.Unknown()
		v.answered = !f.Transient()
	}
	switch {
	case v.answered && v.status == http.StatusNotFound && c.write.Op == schemas.Delete:
		v.outcome, v.err = AbsentAlready, nil
	case v.answered && early(v.status, c.write.Op) && c.premature():
		// What it is for, or what makes room for it, may still be on its way by other means.
	case v.answered:
		v.outcome = Rejected
	case ctx.Err() != nil:
		v.outcome = Abandoned
	case l.givesUp(c, v.status, now):
		v.outcome = Rejected
		v.err = fmt.Errorf("given up after %d tries in %s: %w", c.tries, now.Sub(c.first).Round(time.Millisecond), err)
	}
	if v.outcome == Rejected && c.holds(v.err) {
		v.outcome, v.held = Retried, true
	}
	return v
}

// early reports whether the answer may be another one later: there is nothing to
// write to, or a record where a create is to make one.
func early(status int, op schemas.Op) bool {
	return status == http.StatusNotFound || status == http.StatusConflict && op == schemas.Create
}

// refused reports whether the login or its rights were refused, which says nothing
// about the write.
func (v *verdict) refused() bool {
	return !v.answered && (v.status == http.StatusUnauthorized || v.status == http.StatusForbidden)
}

// givesUp reports whether the write was tried for long enough. That the lane may
// not call (401, 403) says nothing about the write, so it waits.
func (l *Lane) givesUp(c *call, status int, now time.Time) bool {
	after := l.cfg.Retry.GiveUpAfter
	return after > 0 && now.Sub(c.first) >= after &&
		status != http.StatusUnauthorized && status != http.StatusForbidden
}

// backOff is the pause after so many failures in a row, and never shorter than the
// service asked for.
func (l *Lane) backOff(failures int, after time.Duration) time.Duration {
	return retry.Backoff{Initial: l.cfg.Retry.Initial, Max: l.cfg.Retry.Max}.Next(failures, after, l.rnd.Float64)
}
