// Package reconcile follows the keys of one table that two lanes write: rows of
// files by this one, single calls by the other. Nothing but the order of a key's
// writes in the log is right in the end, and neither lane waits for the other; so
// a key whose writes may land in another order is conflicting, and once its file
// has landed its newest state is sent again.
//
// It is told of writes in the order of the log and of what became of files. It
// knows nothing of files, calls, ledgers or time, and is not safe for concurrent
// use.
package reconcile
