// Package credentials gets the short-lived credentials that brokers are shown:
// access tokens of an OAuth server and keys of AWS. Both are kept while they are
// good, and got anew in time.
//
// It knows token endpoints and AWS. It knows nothing about Kafka: who asks it is
// about to authenticate, and waits.
package credentials

import "time"

// due reports whether something that was got at one time and ends at another has
// to be got anew: when a fifth of its life is left, so that a session that begins
// with it lasts a while.
func due(got, ends, now time.Time) bool {
	return !now.Before(ends.Add(-ends.Sub(got) / 5))
}

// lock is a mutex that is waited for no longer than a context lasts: while one
// asks, the others wait for its answer.
type lock chan struct{}

func newLock() lock { return make(lock, 1) }
