package connector

import (
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// partsOf is for how many pending records of each topic the immediate lane has room,
// however many of other topics wait: half as many as maxPending for all topics, by the
// weights of their most urgent routes; nil: there is one topic.
func partsOf(mappings []*router.Compiled) map[string]int {
	weights, all := map[string]float64{}, 0.0
	for _, m := range mappings {
		weight := 0.0
		for i, r := range m.Config.Routes {
			if r.Lane == "immediate" {
				weight = max(weight, m.Weight(i))
			}
		}
		if m.Uses(schemas.Immediate) && weight == 0 {
			weight = 1 // its columns send rows to the immediate lane
		}
		for _, topic := range m.Config.Topics {
			weights[topic] = max(weights[topic], weight)
		}
	}
	if len(weights) == 1 { // there is no other to be held up
		return nil
	}
	for _, weight := range weights {
		all += weight
	}
	parts := map[string]int{}
	for topic, weight := range weights {
		parts[topic] = 1 + int(maxPending/2*weight/all)
	}
	return parts
}

// share is this member's share of a lane's part of the rate: that of the lane's
// partitions which it has.
func share(source *kafka.Source, part float64) func() float64 {
	return func() float64 { return part * source.Share() }
}
