package cluster

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Commits asks again and again what one group has committed, of the broker that coordinates
// the group: one request each time. After each answer that names topics and has no ids of
// them, the client's own way asks for the topics' metadata, of which only the ids are used,
// and the sink uses none. Its methods may be used concurrently.
type Commits struct {
	client *kgo.Client
	admin  *kadm.Client
	group  string
	broker atomic.Int32 // that coordinates the group, or one of those below
}

const (
	notKnown   int32 = -1 // it has to be found
	ownWayOnly int32 = -2 // its answers have no names: the client finds them
)

// NewCommits asks for nothing yet.
func NewCommits(client *kgo.Client, group string) *Commits {
	c := &Commits{client: client, admin: kadm.NewClient(client), group: group}
	c.broker.Store(notKnown)
	return c
}

// Fetch is what CommittedBy is, to which it leaves what goes wrong.
func (c *Commits) Fetch(ctx context.Context) (kadm.OffsetResponses, error) {
	broker := c.broker.Load()
	if broker == notKnown {
		if found, ok := c.admin.FindGroupCoordinators(ctx, c.group)[c.group]; ok && found.Err == nil {
			broker = found.NodeID
		}
	}
	if broker >= 0 {
		found, next := c.ask(ctx, broker)
		if c.broker.Store(next); next == broker {
			return found, nil
		}
	}
	return CommittedBy(ctx, c.admin, c.group)
}

// ask asks the broker once, and reports whom to ask next.
func (c *Commits) ask(ctx context.Context, broker int32) (found kadm.OffsetResponses, next int32) {
	of := kmsg.NewOffsetFetchRequestGroup()
	of.Group = c.group
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.Groups = c.group, []kmsg.OffsetFetchRequestGroup{of} // before version 8, and from it on
	resp, err := req.RequestWith(ctx, c.client.Broker(int(broker)))
	if err != nil {
		return nil, notKnown
	}
	if resp.Version < 8 {
		return nil, ownWayOnly
	}
	found = kadm.OffsetResponses{}
	for _, g := range resp.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return nil, notKnown
		}
		for _, t := range g.Topics {
			if t.Topic == "" {
				return nil, ownWayOnly
			}
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return nil, notKnown
				}
				o := kadm.Offset{Topic: t.Topic, Partition: p.Partition, At: p.Offset, LeaderEpoch: p.LeaderEpoch}
				if p.Metadata != nil {
					o.Metadata = *p.Metadata
				}
				found.Add(kadm.OffsetResponse{Offset: o})
			}
		}
	}
	return found, broker
}
