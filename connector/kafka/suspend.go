package kafka

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/kafka/balance"
)

// A source outlives what its lane does with records: it is suspended, and goes on with
// another handler, and with what other mappings say of its topics. For the group nothing
// happens meanwhile. The partitions begin as they would with a new owner: in new
// assignments, from the ledgers that were committed before.

// suspension is a source that waits for its next handler.
type suspension struct {
	released chan struct{} // closed once the former handler has let go
	next     chan succession
}

// succession is how a source goes on.
type succession struct {
	subscription Subscription
	handler      Handler
}

// Suspend has the handler let go of all partitions, as when they are given back, and
// commits what is confirmed. It returns once the handler is not used any more. No
// partition changes hands until resume is called, once; the group holds the member
// for one that works. An error is ctx's: the handler goes on. Where Run ends
// meanwhile, resume does nothing.
func (s *Source) Suspend(ctx context.Context) (resume func(Subscription, Handler), err error) {
	x := &suspension{released: make(chan struct{}), next: make(chan succession, 1)}
	select {
	case s.suspending <- x:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	<-x.released
	return func(sub Subscription, h Handler) { x.next <- succession{sub, h} }, nil
}

// suspended suspends the source, if that was asked for, until it goes on or ctx ends. It
// is called by the poll loop while it holds the group.
func (s *Source) suspended(ctx context.Context) bool {
	var x *suspension
	select {
	case x = <-s.suspending:
	default:
		return false
	}
	ps := s.Partitions()
	releasing, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.ReleaseTimeout)
	defer cancel()
	s.handler.Release(releasing, ps)
	s.handler = idle{}
	if err := s.commit(context.WithoutCancel(ctx), ps); err != nil {
		s.log.Warn("offsets were not committed before the configuration changed; what was confirmed since the last commit is repeated", "error", err)
	}
	for _, p := range ps {
		p.end()
	}
	close(x.released)
	select {
	case next := <-x.next:
		s.proceed(next, ps)
	case <-ctx.Done():
		s.forget(ps)
	}
	return true
}

// proceed begins new assignments of the partitions whose topics are read still.
func (s *Source) proceed(next succession, ps []*Partition) {
	s.former = s.now.Swap(&next.subscription)
	s.handler = next.handler
	s.forget(slices.DeleteFunc(slices.Clone(ps), func(p *Partition) bool { return slices.Contains(next.subscription.Topics, p.Topic) }))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		s.reassign(p, p.member)
	}
}

// followSubscription has the client read the topics of now.
func (s *Source) followSubscription(ctx context.Context, former *Subscription) {
	now := s.now.Load()
	without := func(some, others []string) []string {
		return slices.DeleteFunc(slices.Clone(some), func(topic string) bool { return slices.Contains(others, topic) })
	}
	added, removed := without(now.Topics, former.Topics), without(former.Topics, now.Topics)
	if len(removed) > 0 {
		s.client.PurgeTopicsFromConsuming(removed...)
	}
	if len(added) > 0 {
		s.lookBeforeJoining(ctx, added)
		s.client.AddConsumeTopics(added...)
	}
	if now.TableOf != nil && slices.ContainsFunc(now.Topics, func(topic string) bool { return now.TableOf(topic) != former.TableOf(topic) }) {
		s.client.ForceRebalance() // tables were joined or divided
	}
}

// balancer shares the group's partitions as the subscription of now says.
func (s *Source) balancer() kgo.GroupBalancer {
	if s.now.Load().TableOf == nil {
		return balance.By(nil)
	}
	return balance.By(func(topic string) string { return s.now.Load().TableOf(topic) })
}

// idle is the handler of a source that has none.
type idle struct{}

func (idle) Records(*Partition, []*Record) int     { return 0 }
func (idle) Ready() bool                           { return false }
func (idle) Assigned([]*Partition)                 {}
func (idle) Release(context.Context, []*Partition) {}
