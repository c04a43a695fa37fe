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
// with it lasts a while. The first of two clocks decides: the monotonic one does not
// run while a machine is suspended, the machine's own may be moved back.
func due(got, ends, now time.Time) bool {
	renew := ends.Add(-ends.Sub(got) / 5)
	return past(renew, now)
}

// past reports whether a time is over by one of the clocks that both were read off.
func past(t, now time.Time) bool {
	return !now.Before(t) || !now.Round(0).Before(t.Round(0))
}

// lock is a mutex that is waited for no longer than a context lasts: while one
// asks, the others wait for its answer.
type lock chan struct{}

func newLock() lock { return make(lock, 1) }
