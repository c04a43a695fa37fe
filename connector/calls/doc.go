// Package calls sends writes as single calls: each write becomes one call,
// in order per key, concurrently across keys.
//
// A Lane keeps, for every key with work, the calls not yet confirmed. A key has
// at most one call in flight, so its writes arrive in the order they were
// submitted; a key that is busy, failing or backing off holds up only itself.
// Writes of one key that have not started are merged into one call where that
// cannot be told from sending them one by one. How many calls are in flight is
// found out by a limiter from what comes back; a breaker for each table stops calls
// that fail, and probes the table; what the service says of all calls (Retry-After)
// holds them all. A call whose outcome is unknown may land late: what its key said
// since is then sent once more.
//
// It knows writes and whether a call may be tried again. It knows nothing about
// Kafka, offsets, dead letters, HTTP or tokens: those are behind Origin and
// Caller.
package calls
