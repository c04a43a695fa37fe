package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/kafka/cluster"
)

// GroupMember is a member of the lane's group, as the brokers know it.
type GroupMember = cluster.Member

// generation is a group between two rebalances, in which its members stay the same. One with an
// instance id that begins anew has another id, and asks for a rebalance itself (shareAnew).
type generation struct {
	own     string // this member's id
	number  int32
	members []GroupMember
}

// GroupMembers asks the brokers for the group's members, this one among them, once in each of
// the group's generations. A member that has died is one until its session ends. Nothing is
// asked for a second time.
func (s *Source) GroupMembers(ctx context.Context) ([]GroupMember, error) {
	own, number := s.client.GroupMetadata()
	if g := s.generation.Load(); g != nil && g.own == own && g.number == number {
		return g.members, nil
	}
	all, stable, err := cluster.Members(ctx, s.admin, s.cfg.Group)
	if err == nil && stable && own != "" {
		s.generation.Store(&generation{own, number, all})
	}
	return all, err
}

// MemberID is the member's in its group; "": it has no place there.
func (s *Source) MemberID() string {
	id, _ := s.client.GroupMetadata()
	return id
}

// AwaitGroup returns once another group has committed everything that the topics hold at the
// time of the call, or all but some records, or with ctx's error.
func (s *Source) AwaitGroup(ctx context.Context, group string, topics []string, but func() map[cluster.RecordPlace]bool) error {
	return cluster.AwaitGroup(ctx, s.admin, s.log, group, topics, but)
}

// ErrClosed says that the source has ended.
var ErrClosed = kgo.ErrClientClosed

// WrittenBefore is how many offsets of the topic's partitions, in sum, are below their first
// record with a timestamp of at or later. What deletion and compaction have taken counts.
func (s *Source) WrittenBefore(ctx context.Context, topic string, at time.Time) (sum int64, err error) {
	return cluster.WrittenBefore(ctx, s.admin, topic, at)
}
