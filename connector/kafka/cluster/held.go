package cluster

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/feedsink/feedsink/connector/kafka/lease"
)

// Held is a group that this process holds.
type Held struct {
	// Lost is closed if the brokers did without this process for longer than the session, after
	// which another may hold the group.
	Lost <-chan struct{}

	lease   *lease.Lease
	group   string
	session time.Duration
}

// Holds reports whether no other process can hold the group yet: one that was suspended learns of the
// loss only some time after it has gone on.
func (h *Held) Holds() bool {
	select {
	case <-h.Lost:
		return false
	default:
		return h.lease.Holds()
	}
}

// keep sends heartbeats until ctx ends, or none was answered within the session.
func (h *Held) keep(ctx context.Context, client *kgo.Client) {
	for h.Holds() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(h.session / 10):
		}
		h.renew(ctx, client)
	}
}

// renew sends a heartbeat and reports whether the brokers took it: the lease lasts for a session from then.
func (h *Held) renew(ctx context.Context, client *kgo.Client) bool {
	ctx, cancel := context.WithTimeout(ctx, h.session/2)
	defer cancel()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group = h.group
	req.MemberID, req.Generation = client.GroupMetadata()
	sent := h.lease.Now()
	resp, err := req.RequestWith(ctx, client)
	if err != nil || resp.ErrorCode != 0 && resp.ErrorCode != kerr.RebalanceInProgress.Code { // who rebalances is known to be alive
		return false
	}
	h.lease.Renew(sent, h.session)
	return true
}
