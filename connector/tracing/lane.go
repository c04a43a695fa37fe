package tracing

import (
	"time"

	"github.com/feedsink/feedsink/connector/kafka"
)

// Lane traces the records of one consumer group. The zero Lane traces nothing.
type Lane struct {
	*Tracer
	Group string
}

// Record begins the span of a record that is this lane's.
func (l Lane) Record(begun time.Time, r *kafka.Record) *Record {
	if l.Tracer == nil {
		return nil
	}
	return l.Tracer.Record(begun, Place{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Group: l.Group}, headers{r})
}

// headers carry a trace through Kafka. Of two with one name the last one counts.
type headers struct{ record *kafka.Record }

// Get is the header's value.
func (h headers) Get(name string) (value string) {
	for _, header := range h.record.Headers {
		if header.Key == name {
			value = string(header.Value)
		}
	}
	return value
}

// Set does nothing: a record that was read is not written.
func (headers) Set(string, string) {}

// Keys are the headers' names.
func (h headers) Keys() (names []string) {
	for _, header := range h.record.Headers {
		names = append(names, header.Key)
	}
	return names
}
