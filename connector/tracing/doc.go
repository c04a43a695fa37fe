// Package tracing tells by OpenTelemetry spans where a record's time went: one
// span for the record from its poll to its end, below it its decoding and each
// call made for it, and one for each import with links to records whose rows are in it.
// Records carry on the trace that their headers name, and calls pass it on.
//
// It knows topics, offsets and names. It knows nothing of keys and values, which
// are customers' data, nor of the Kafka client or the service. A nil *Tracer is
// tracing that is off: all methods may be called on it, and cost nothing.
package tracing
