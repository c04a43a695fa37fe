package service

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Kind is what an error means for the call that met it.
type Kind uint8

// The kinds of error.
const (
	Transient    Kind = iota + 1 // network, timeout, 3xx, 408, 425, 5xx, an answer that cannot be read or is not the service's
	Throttled                    // 429
	Unauthorized                 // no token to be had, 401 with a fresh one, 403
	NotFound                     // 404
	Conflict                     // 409
	Rejected                     // any other 4xx, and keys that no address can hold
	NoSlot                       // operations 8 and 10: no import left today
	Canceled                     // the caller's context ended; says nothing about the service
)

var kindNames = [...]string{
	Transient:    "transient",
	Throttled:    "throttled",
	Unauthorized: "unauthorized",
	NotFound:     "not found",
	Conflict:     "conflict",
	Rejected:     "rejected",
	NoSlot:       "no slot left",
	Canceled:     "canceled",
}

// String is the kind in words.
func (k Kind) String() string {
	if k < Transient || k > Canceled {
		return "unknown"
	}
	return kindNames[k]
}

// Error is a call that did not succeed. Every error of a Client's method is
// one, found with errors.As, except those of a file or writer that the caller
// handed in: these are returned as they are, with the operation in front.
type Error struct {
	op      Op
	kind    Kind
	status  int
	after   time.Duration
	unknown bool
	timeout bool
	target  string // table, ETL or execution; never a key
	text    string // what happened, when no status came: printable, without secrets
	reason  string // beginning of the answer's body: printable, without secrets
	err     error  // what errors.Is may look for
}

// Op is the operation that was called.
func (e *Error) Op() Op { return e.op }

// Kind is what the error means.
func (e *Error) Kind() Kind { return e.kind }

// Status is the HTTP status of the answer, 0 if none came.
func (e *Error) Status() int { return e.status }

// RetryAfter is what the service asked to wait, at most 15 minutes; 0 if it
// did not ask.
func (e *Error) RetryAfter() time.Duration { return e.after }

// Transient reports whether the same call may succeed later: nothing was said
// against its content. It holds for a Canceled call too, whose fate is open,
// and for NoSlot, where later means tomorrow.
func (e *Error) Transient() bool {
	switch e.kind {
	case NotFound, Conflict, Rejected:
		return false
	}
	return true
}

// NoSlot reports whether the table has no import left today (operations 8
// and 10).
func (e *Error) NoSlot() bool { return e.kind == NoSlot }

// Overload reports whether the service had too much to do: 408, 429, 503, 504,
// or no answer in time.
func (e *Error) Overload() bool {
	switch e.status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return e.timeout
}

// Unknown reports whether the call may have been applied all the same: the
// request went out, and the answer was lost or was a 5xx. It is false where
// that is excluded: nothing was sent, an upload was cut before its last byte,
// the operation only reads, or the service refused.
func (e *Error) Unknown() bool { return e.unknown }

// Reason is the beginning of the service's answer, at most 500 characters,
// printable and without secrets; "" if there was none. Where the operation
// CarriesData it may quote the customer's values: it belongs into a dead letter,
// which holds them anyway, or before a person who asks, and not into a log.
func (e *Error) Reason() string { return e.reason }

// Cause is what of Reason may be said anywhere, "" if that is nothing.
func (e *Error) Cause() string { return plainly(e.reason) }

// Error reads as a path: operation, what it was about, what happened. It holds
// no secret, no key and no value: where the operation CarriesData, the service's
// words are left to Reason.
func (e *Error) Error() string {
	s := e.op.String()
	if e.target != "" {
		s += " " + e.target
	}
	if e.status == 0 {
		return s + ": " + e.text
	}
	s = fmt.Sprintf("%s: %d", s, e.status)
	if name := http.StatusText(e.status); name != "" {
		s += " " + name
	}
	if e.text != "" {
		s += ": " + e.text
	}
	if e.reason != "" && !e.op.CarriesData() {
		s += ": " + e.reason
	}
	return s
}

// Unwrap leads to the cause, if there is one below HTTP.
func (e *Error) Unwrap() error { return e.err }

// canceled is the error of a call whose caller's context ended.
func canceled(ctx context.Context, op Op, target string) *Error {
	return &Error{op: op, kind: Canceled, target: target, text: ctx.Err().Error(), err: ctx.Err()}
}

// unreadable is a 2xx of a reading operation that does not say what it should.
// It is transient: a page from something in between goes away again.
func unreadable(op Op, target string, got answer, err error) *Error {
	return &Error{op: op, kind: Transient, target: target, status: got.status, text: err.Error(), err: err}
}
