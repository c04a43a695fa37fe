// Package lease tells for how long a member of a group counts on its partitions.
package lease

import (
	"sync/atomic"
	"time"
)

// Lease is how long the member's partitions are its own for certain. It runs by two
// clocks and ends with the first: a machine that was suspended goes on with a
// monotonic clock that did not, and the machine's clock may be moved back.
type Lease struct {
	began time.Time            // of the monotonic clock
	wall  func() time.Time     // the machine's clock
	until atomic.Pointer[Time] // nil: there is none
	wake  chan struct{}        // partitions were assigned: there should be a lease
}

// Time is when a lease ends.
type Time struct {
	after time.Duration // since the monotonic clock began
	at    time.Time     // by the machine's clock
}

// New is a lease that does not hold yet.
func New() *Lease {
	return &Lease{
		began: time.Now(), wake: make(chan struct{}, 1),
		wall: func() time.Time { return time.Now().Round(0) },
	}
}

// Renew lets the lease last so long from now, as it was when a heartbeat was sent.
func (l *Lease) Renew(sent Time, lasts time.Duration) {
	l.until.Store(&Time{sent.after + lasts, sent.at.Add(lasts)})
}

// Now is the time by the two clocks.
func (l *Lease) Now() Time { return Time{time.Since(l.began), l.wall()} }

// Holds reports whether it has not ended. It may be called for each record.
func (l *Lease) Holds() bool {
	until, now := l.until.Load(), l.Now()
	return until != nil && now.after < until.after && now.at.Before(until.at)
}

// Assigned tells who renews it that there should be a lease.
func (l *Lease) Assigned() {
	select {
	case l.wake <- struct{}{}:
	default: // told already
	}
}

// Wanted has something once partitions were assigned since it was last received from.
func (l *Lease) Wanted() <-chan struct{} { return l.wake }

// End ends it at once.
func (l *Lease) End() { l.until.Store(nil) }
