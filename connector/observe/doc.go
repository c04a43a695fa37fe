// Package observe holds what is known of a running sink from outside: its counters, what
// has ended since it began, and the documents of /status and /imports.
package observe
