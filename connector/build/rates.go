package build

import (
	"slices"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// ReconcilingPart is the batch lane's part of service.rate where a mapping uses both
// lanes, or creates table records by files: it calls only for keys that were
// written by both at the same time, and to read records that rows have met.
const ReconcilingPart = 0.1

// RateOf is a lane's part of service.rate, which is the whole deployment's. It
// follows from the mappings alone, so that members that run different lanes agree
// on it without asking. Imports are not counted: there are a few a day.
func RateOf(which schemas.Lane, mappings []*router.Compiled) float64 {
	part := 0.0
	if slices.ContainsFunc(mappings, func(m *router.Compiled) bool { return m.DualLane() || creates(m) }) {
		part = ReconcilingPart
	}
	if which == schemas.Immediate {
		part = 1 - part - AutoRate(mappings)
	}
	return part
}

// AutoRate is the part of service.rate for calls in the place of rows: of what reconciling
// leaves, as much as the weights of the auto routes are of those of all routes that make
// calls.
func AutoRate(mappings []*router.Compiled) float64 {
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
	return (1 - RateOf(schemas.Batch, mappings)) * rows / (rows + others)
}

// creates reports whether the mapping has files that create table records.
func creates(m *router.Compiled) bool {
	return m.Uses(schemas.Batch) && m.Table.Custom && m.Config.Imports.Create != nil
}

// EitherRate is the part of the batch lane's calls that reconcile keys, and that
// of those which read records: each has half where both may be needed.
func EitherRate(mappings []*router.Compiled) float64 {
	part := RateOf(schemas.Batch, mappings)
	if slices.ContainsFunc(mappings, creates) && slices.ContainsFunc(mappings, (*router.Compiled).DualLane) {
		part /= 2
	}
	return part
}
