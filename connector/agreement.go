package connector

import (
	"context"
	"slices"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/schemas"
)

// topicRoutes is what the configuration says of each topic to a lane.
func (s *Sink) topicRoutes(which schemas.Lane, followed map[string]bool) func(topic string) kafka.TopicRoutes {
	topics := map[string]kafka.TopicRoutes{}
	for _, topic := range s.router.Topics(which) {
		immediate, batch := s.router.TopicLanes(topic)
		routes := kafka.TopicRoutes{
			LaneRoutes: ack.LaneRoutes{Batch: which == schemas.Batch, Shared: immediate && batch},
			Follows:    which == schemas.Batch && followed[topic],
		}
		for _, m := range s.router.TopicMappings(topic) {
			routes.Fingerprints = append(routes.Fingerprints, m.Routes)
			lanes := map[schemas.Lane]bool{}
			lanes[schemas.Immediate], lanes[schemas.Batch] = m.Lanes()
			if !lanes[otherLane(which)] {
				routes.Alone = append(routes.Alone, m.Routes)
			}
		}
		routes.Fingerprints = slices.Clip(routes.Fingerprints)
		topics[topic] = routes
	}
	return func(topic string) kafka.TopicRoutes { return topics[topic] }
}

// executionEnded reports whether an import that a former batch lane sent has ended.
func (s *Sink) executionEnded(ctx context.Context, execution string) (bool, error) {
	r, err := request(&s.service, func() (service.Results, error) { return s.client.Results(ctx, execution) })
	if err != nil {
		return false, err
	}
	return r.Status == service.Finished || r.Status == service.Failed, nil
}
