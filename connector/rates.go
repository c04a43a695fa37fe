package connector

import (
	"slices"

	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// reconcilingPart is the batch lane's part of service.rate where a mapping uses both
// lanes, or creates table records by files: it calls only for keys that were
// written by both at the same time, and to read records that rows have met.
const reconcilingPart = 0.1

// rateOf is a lane's part of service.rate, which is the whole deployment's. It
// follows from the mappings alone, so that members that run different lanes agree
// on it without asking. Imports are not counted: there are a few a day.
func rateOf(which schemas.Lane, mappings []*router.Compiled) float64 {
	part := 0.0
	if slices.ContainsFunc(mappings, func(m *router.Compiled) bool { return m.DualLane() || creates(m) }) {
		part = reconcilingPart
	}
	if which == schemas.Immediate {
		part = 1 - part - autoRate(mappings)
	}
	return part
}

// autoRate is the part of service.rate for calls in the place of rows: of what reconciling
// leaves, as much as the weights of the auto routes are of those of all routes that make
// calls.
func autoRate(mappings []*router.Compiled) float64 {
	rows, others := 0.0, 0.0
	for _, m := range mappings {
		immediate := 0.0
		for i, r := range m.Config.Routes {
			if _, _, auto := m.Auto(i); auto {
				rows += m.Weight(i)
			} else if r.Lane == "immediate" {
				immediate += m.Weight(i)
			}
		}
		if m.Uses(schemas.Immediate) && immediate == 0 {
			immediate = 1 // its columns send rows to the immediate lane
		}
		others += immediate
	}
	if rows == 0 {
		return 0
	}
	return (1 - rateOf(schemas.Batch, mappings)) * rows / (rows + others)
}

// creates reports whether the mapping has files that create table records.
func creates(m *router.Compiled) bool {
	return m.Uses(schemas.Batch) && m.Table.Custom && m.Config.Imports.Create != nil
}

// eitherRate is the part of the batch lane's calls that reconcile keys, and that
// of those which read records: each has half where both may be needed.
func eitherRate(mappings []*router.Compiled) float64 {
	part := rateOf(schemas.Batch, mappings)
	if slices.ContainsFunc(mappings, creates) && slices.ContainsFunc(mappings, (*router.Compiled).DualLane) {
		part /= 2
	}
	return part
}

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
