// Package retry waits between tries: exponential back-off with jitter, never
// shorter than the service asked for, ended at once by the caller's context.
//
// It knows durations and errors. It knows nothing about what is tried, which
// errors deserve another try, HTTP or Kafka; the caller says so.
package retry

import (
	"context"
	"fmt"
	"time"
)

// Backoff says how long to wait between tries. The ceiling starts at Initial,
// doubles with every failure and stops at Max. Zero or negative values are
// allowed and mean no wait of our own: only what the service asks for.
type Backoff struct {
	Initial time.Duration
	Max     time.Duration
}

// Next is the wait after the attempt-th failure in a row (counted from 1).
//
// Half of the ceiling is always waited, the other half is drawn with rnd, a
// source of numbers in [0, 1). after is what the service asked for
// (Retry-After; zero if it did not): the wait is never shorter, even where that
// exceeds Max, and the drawn half comes on top, so that everybody who was told
// the same time does not come back at the same time.
func (b Backoff) Next(attempt int, after time.Duration, rnd func() float64) time.Duration {
	half := b.ceiling(attempt) / 2
	return max(half, after) + time.Duration(rnd()*float64(half))
}

// ceiling doubles step by step instead of shifting, so that a failure count of
// any size cannot overflow.
func (b Backoff) ceiling(attempt int) time.Duration {
	d := max(b.Initial, 0)
	for n := 1; n < attempt && 0 < d && d < b.Max; n++ {
		if d > b.Max/2 {
			return b.Max
		}
		d *= 2
	}
	return min(d, max(b.Max, 0))
}

// Do calls fn until it succeeds, until retryable says that another try cannot
// help, or until ctx ends. retryable sees every error of fn and also tells the
// least wait before the next try (zero: the back-off decides).
//
// The result is nil, or the error of the last try; if ctx ended, it matches
// both the reason for that and the last try's error.
func Do(ctx context.Context, b Backoff, rnd func() float64,
	fn func(context.Context) error, retryable func(error) (again bool, after time.Duration),
) error {
	for attempt := 1; ; attempt++ {
		err := fn(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ended(ctx, attempt, err)
		}
		again, after := retryable(err)
		if !again {
			return err
		}
		if Sleep(ctx, b.Next(attempt, after, rnd)) != nil {
			return ended(ctx, attempt, err)
		}
	}
}

// Sleep waits, unless ctx ends first. With nothing to wait for no timer is made: in a synctest
// bubble, the race detector of Go 1.26 may crash at a select with one that is due.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

func ended(ctx context.Context, tries int, last error) error {
	return fmt.Errorf("given up at try %d (%w): %w", tries, ctx.Err(), last)
}
