// Package imports gives the batcher what it needs of Kafka and of the service: it sends files,
// keeps each step of an import on the ledger, takes over what former owners began, reads the
// records behind rows again, and writes the receipts of rows.
package imports

import (
	"log/slog"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/outbox"
	"github.com/feedsink/feedsink/connector/receipt"
	"github.com/feedsink/feedsink/connector/tracing"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Lane is what the parts share of the batch lane.
type Lane struct {
	Source         *kafka.Source
	Router         *router.Router
	Writers        *schemas.Registry // nil: no mapping needs one
	Post           *deadletter.Post  // nil: no dead-letter topic
	Book           *receipt.Book     // nil: no receipts topic
	Metrics        *observe.Metrics
	Recent         *observe.History
	Spans          *tracing.Imports // nil: tracing is off
	Log            *slog.Logger
	Unacknowledged *outbox.Outbox
}

// Reader reads the lane's records again.
func (l *Lane) Reader() Reader { return Reader{l.Source, l.Router, l.Writers} }
