package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrHeld says that somebody else holds the group.
var ErrHeld = errors.New("another process holds it")

// Hold makes this process the one member of a group that exists for nothing else,
// and keeps it so until release: of several processes that try, at most one
// succeeds, and the others get ErrHeld. A holder that was killed is forgotten
// after its session, and is waited for. lost is closed if the brokers did without this process for longer than the
// session, after which another may hold the group. topic is one that may be read.
func (r *Reader) Hold(ctx context.Context, group, topic string, session time.Duration, rnd *rand.Rand) (lost <-chan struct{}, release func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, session+session/4)
	defer cancel()
	var holder string
	for {
		members, err := r.members(waiting, group)
		if err == nil && len(members) == 0 {
			lost, release, members, err = r.join(waiting, group, topic, session)
			if err == nil && release != nil {
				return lost, release, nil
			}
		}
		if len(members) > 0 {
			holder = members[0].ClientHost
		}
		select {
		case <-time.After(session/40 + time.Duration(rnd.Int64N(int64(session/20)))): // two that met must not meet again
			continue
		case <-waiting.Done():
		}
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case holder == "" && err != nil:
			return nil, nil, fmt.Errorf("group %s: %w", group, err)
		}
		return nil, nil, fmt.Errorf("group %s: %w, at %s", group, ErrHeld, holder)
	}
}

// join makes this process a member, one that takes no records. If it is not the
// only one, it goes again; release is nil then.
func (r *Reader) join(ctx context.Context, group, topic string, session time.Duration) (lost <-chan struct{}, release func(), members []kadm.DescribedGroupMember, err error) {
	joined, gone := make(chan struct{}), make(chan struct{})
	in, out := sync.OnceFunc(func() { close(joined) }), sync.OnceFunc(func() { close(gone) })
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(session), kgo.HeartbeatInterval(session / 5),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { in() }),
		kgo.OnPartitionsLost(func(context.Context, *kgo.Client, map[string][]int32) { out() }),
	}, r.opts...)...)
	if err != nil {
		return nil, nil, nil, err
	}
	client.PauseFetchTopics(topic)
	select {
	case <-joined:
		members, err = r.members(ctx, group)
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil && len(members) == 1 {
		return gone, client.Close, members, nil
	}
	client.Close() // which leaves the group
	return nil, nil, members, err
}

func (r *Reader) members(ctx context.Context, group string) ([]kadm.DescribedGroupMember, error) {
	described, err := r.admin.DescribeGroups(ctx, group)
	if err == nil {
		err = described.Error()
	}
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // nobody has joined it yet
		return nil, err
	}
	return described[group].Members, nil
}
