package calls

import (
	"errors"
	"fmt"
	"time"

	"github.com/feedsink/feedsink/schemas"
)

// Config is what a Lane may do to the service. The keys of the configuration
// file are named in the messages of Validate.
type Config struct {
	Concurrency Concurrency
	Rate        Rate
	Breaker     Breaker
	Retry       Retry
	// MayCall is asked before each call: while it says no, none starts, because
	// the writes may be another owner's by now. It must be quick; nil: always.
	MayCall func() bool
	// Share is which part of Rate is this lane's at present, from 0 to 1, where
	// several lanes share it; nil: all of it. It must be quick.
	Share func() float64
	// Service is what this lane and others that call the same service know of it
	// together; nil: it is alone.
	Service *Service
	// RepeatAfter is when a call whose outcome is unknown has landed or never will:
	// what later calls of its key said is then sent once more. 0: it never is.
	RepeatAfter time.Duration
	// Repeats is asked then whether what this lane sent last for a key of the table is
	// its newest state, unless Superseded said otherwise; nil: it always is. It must be
	// quick.
	Repeats func(schemas.Table) bool
}

// Concurrency bounds the calls in flight: the first limit, and the highest that
// the limiter may find.
type Concurrency struct{ Start, Max int }

// Rate is the most calls to start per period, evenly spread, by all lanes that
// share it; 0 calls means no such bound.
type Rate struct {
	Calls int
	Per   time.Duration
}

// Breaker says how many failed calls in a row, over all keys of a table, stop its
// calls, and how long it then waits before it tries one.
type Breaker struct {
	Failures int
	OpenFor  time.Duration
}

// Retry is the back-off of one key: Initial, doubling up to Max, jittered. A
// write that still fails GiveUpAfter its first try is rejected; 0 means never.
type Retry struct{ Initial, Max, GiveUpAfter time.Duration }

// Validate reports everything that cannot work, each line naming the key, the
// rule and the value.
func (c Config) Validate() error {
	var errs []error
	require := func(ok bool, key, rule string, value any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: must be %s, is %v", key, rule, value))
		}
	}
	require(c.Concurrency.Max >= 1, "service.concurrency.max", "at least 1", c.Concurrency.Max)
	require(c.Concurrency.Start >= 1 && c.Concurrency.Start <= max(c.Concurrency.Max, 1),
		"service.concurrency.start", "from 1 to service.concurrency.max", c.Concurrency.Start)
	require(c.Rate.Calls >= 0, "service.rate.calls", "0 (no bound) or more", c.Rate.Calls)
	require(c.Rate.Calls == 0 || c.Rate.Per > 0, "service.rate.per", "longer than 0s", c.Rate.Per)
	require(c.Breaker.Failures >= 1, "service.breaker.failures", "at least 1", c.Breaker.Failures)
	require(c.Breaker.OpenFor > 0, "service.breaker.openFor", "longer than 0s", c.Breaker.OpenFor)
	require(c.Retry.Initial > 0, "retry.initial", "longer than 0s", c.Retry.Initial)
	require(c.Retry.Max >= c.Retry.Initial, "retry.max", "at least retry.initial", c.Retry.Max)
	require(c.RepeatAfter >= 0, "service.timeout", "longer than 0s", c.RepeatAfter)
	require(c.Retry.GiveUpAfter >= 0, "retry.giveUpAfter", "0s (never) or longer", c.Retry.GiveUpAfter)
	return errors.Join(errs...)
}
