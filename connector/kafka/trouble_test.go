package kafka_test

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/kafka"
)

// TestRefusedGroupIsTold: and no more once the group lets the member in.
func TestRefusedGroupIsTold(t *testing.T) {
	t.Parallel()
	b := newBroker(t, 1, "a")
	var admitted atomic.Bool
	b.ControlKey(kmsg.JoinGroup.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		if admitted.Load() {
			return nil, nil, false
		}
		response := req.ResponseKind().(*kmsg.JoinGroupResponse)
		response.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return response, nil, true
	})
	m := b.join(newLane(t))
	eventually(t, "the refusal is told", func() (bool, any) {
		got := m.Troubles()
		return len(got) == 1 && got[0].Cause == kafka.Refused, got
	})
	admitted.Store(true)
	eventually(t, "nothing is told any more", func() (bool, any) {
		got := m.Troubles()
		return len(got) == 0, got
	})
}
