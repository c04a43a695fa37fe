package connector

import (
	"errors"
	"fmt"
	"time"

	"github.com/feedsink/feedsink/batcher"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/service"
)

// request sends an import's request unless the service has named a time before which
// it wants none, and has all calls wait if the answer names one. That a table has no
// slot left is about no other request.
func request[T any](known *calls.Service, send func() (T, error)) (T, error) {
	if held := known.Held(); held > 0 {
		var none T
		return none, notYet{held}
	}
	got, err := send()
	if e, ok := errors.AsType[*service.Error](err); ok && !e.NoSlot() {
		known.Heard(err)
	}
	return got, err
}

// notYet stops a request before the time that the service has named.
type notYet struct{ held time.Duration }

var _ batcher.Failure = notYet{}

func (e notYet) Error() string {
	return fmt.Sprintf("not sent: the service wants no request for %v (Retry-After)", e.held.Round(time.Second))
}
func (notYet) Transient() bool             { return true }
func (e notYet) RetryAfter() time.Duration { return e.held }
func (notYet) Unknown() bool               { return false }
func (notYet) NoSlot() bool                { return false }
func (notYet) Reason() string              { return "" }
func (notYet) Cause() string               { return "" }

// heldGate also has a file wait, before it is sealed or its intent committed, until
// the service wants requests.
type heldGate struct {
	batcher.Gate
	service *calls.Service
}

// Wait implements batcher.Gate.
func (g heldGate) Wait(mapping string, retry bool) time.Duration {
	return max(g.Gate.Wait(mapping, retry), g.service.Held())
}
