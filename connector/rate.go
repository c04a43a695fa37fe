package connector

import (
	"slices"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// settling is the batch lane's part of service.rate where a mapping uses both
// lanes: it calls only for keys that were written by both at the same time.
const settling = 0.1

// rateOf is a lane's part of service.rate, which is the whole deployment's. It
// follows from the mappings alone, so that members that run different lanes agree
// on it without asking. Imports are not counted: there are a few a day.
func rateOf(which schemas.Lane, mappings []*router.Compiled) float64 {
	part := 0.0
	if slices.ContainsFunc(mappings, both) {
		part = settling
	}
	if which == schemas.Immediate {
		part = 1 - part
	}
	return part
}

// share is this member's share of the lane's part of the rate: that of the lane's
// partitions which it has.
func (l *lane) share(part float64) func() float64 {
	return func() float64 { return part * l.source.Share() }
}
