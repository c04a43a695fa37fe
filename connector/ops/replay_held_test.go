package ops

import (
	"context"
	"errors"
	"testing"

	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/schemas"
)

// A process that was suspended goes on where it was, and another may have sent newer values meanwhile.
func TestNoCallBeginsOnceAnotherMayHoldTheGroup(t *testing.T) {
	asked := 0
	s := &replayService{still: func() bool { asked++; return false }} // without a client: a request would panic
	for _, try := range []calls.Try{{}, {Retried: true}} {
		if err := s.Call(t.Context(), &schemas.Write{Op: schemas.Upsert}, try); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want it ended", err)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times, want before each attempt", asked)
	}
}
