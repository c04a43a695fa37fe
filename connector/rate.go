package connector

import (
	"slices"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// settling is the batch lane's part of service.rate where a mapping uses both
// lanes, or creates table records by files: it calls only for keys that were
// written by both at the same time, and to read records that rows have met.
const settling = 0.1

// rateOf is a lane's part of service.rate, which is the whole deployment's. It
// follows from the mappings alone, so that members that run different lanes agree
// on it without asking. Imports are not counted: there are a few a day.
func rateOf(which schemas.Lane, mappings []*router.Compiled) float64 {
	part := 0.0
	if slices.ContainsFunc(mappings, func(m *router.Compiled) bool { return m.DualLane() || creates(m) }) {
		part = settling
	}
	if which == schemas.Immediate {
		part = 1 - part
	}
	return part
}

// creates reports whether the mapping has files that create table records.
func creates(m *router.Compiled) bool {
	_, batch := m.Lanes()
	return batch && m.Table.Custom && m.Config.Imports.Create != nil
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

// share is this member's share of the lane's part of the rate: that of the lane's
// partitions which it has.
func (l *lane) share(part float64) func() float64 {
	return func() float64 { return part * l.source.Share() }
}
