package sandbox

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// reason is a rule that was broken: a code for machines and a sentence for
// people. It names fields and rules, never values.
type reason struct{ code, text string }

// Error is the sentence.
func (r reason) Error() string { return r.text }

// refusedError is an answer that is an error of the document.
type refusedError struct {
	reason
	status     int
	retryAfter time.Duration
	bare       bool // no body, whatever the shape
}

func refuse(status int, format string, args ...any) *refusedError {
	code := strings.ToUpper(strings.ReplaceAll(http.StatusText(status), " ", "_"))
	return &refusedError{status: status, reason: reason{code, fmt.Sprintf(format, args...)}}
}

// as gives a refusal a code that says more than its status.
func (r *refusedError) as(code string) *refusedError {
	r.code = code
	return r
}

// codeOf is the code of what is wrong with a row.
func codeOf(err error) string {
	var r reason
	var refused *refusedError
	switch {
	case errors.As(err, &r):
		return r.code
	case errors.As(err, &refused):
		return refused.code
	}
	return "ERROR"
}

// refused turns an error into the answer of the configured shape.
func (s *Sandbox) refused(err error) answer {
	if err == nil {
		return answer{}
	}
	var r *refusedError
	if !errors.As(err, &r) {
		r = refuse(http.StatusInternalServerError, "%s", err)
	}
	a := answer{status: r.status, header: http.Header{}}
	if r.status == http.StatusBadRequest {
		a.status = s.conf.Shapes.Status.Invalid
	}
	if r.retryAfter > 0 {
		a.header.Set("Retry-After", wholeSeconds(r.retryAfter))
	}
	if a.status < http.StatusBadRequest || r.bare {
		return a
	}
	switch s.conf.Shapes.Errors {
	case ErrorText:
		a.body = []byte(r.text)
		a.header.Set("Content-Type", "text/plain; charset=utf-8")
	case ErrorList:
		a.body = map[string]any{"errors": []any{map[string]string{"code": r.code, "message": r.text}}}
	case ErrorEmpty:
	default:
		a.body = map[string]any{"status": a.status, "error": r.text}
	}
	return a
}
