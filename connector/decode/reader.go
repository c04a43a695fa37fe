package decode

import (
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// Reader decodes and routes records, in one goroutine.
type Reader struct {
	Router  *router.Router
	Unread  *Unread // nil: fields that are not read are not looked for
	formats formats

	// Most records are of the topic of the one before.
	topic  string
	format topicFormat
	routes *router.Topic

	// Reused from record to record.
	decoded router.Record
	over    []router.Routed // whose cells are the next record's
}

// NewReader has decoders of its own.
func NewReader(r *router.Router, writers *schemas.Registry) Reader {
	d := Reader{Router: r, formats: newFormats(r, writers)}
	d.selectTopic("")
	return d
}

// selectTopic is told whose topic's records follow.
func (d *Reader) selectTopic(topic string) {
	d.topic, d.format, d.routes = topic, d.formats.of(topic), d.Router.Topic(topic)
}

// Decode makes of a record what the router reads. The result is valid until
// the next call.
func (d *Reader) Decode(r *kafka.Record) (*router.Record, error) {
	into := &d.decoded
	into.Topic, into.Partition, into.Offset, into.Timestamp, into.Key = r.Topic, r.Partition, r.Offset, r.Timestamp, r.Key
	into.Headers = into.Headers[:0]
	for _, h := range r.Headers {
		into.Headers = append(into.Headers, router.Header{Key: h.Key, Value: h.Value})
	}
	into.Tombstone = r.Value == nil
	if r.Topic != d.topic {
		d.selectTopic(r.Topic)
	}
	var err error
	if err = d.format.readKey(into, r); err != nil {
		return nil, err
	}
	if into.Tombstone {
		into.Value = schemas.Value{}
		return into, nil
	}
	if d.format.events {
		into.Value, err = d.eventData(into, r)
	} else {
		into.Value, err = d.format.readValue(r)
	}
	if d.Unread != nil && err == nil {
		d.look(into)
	}
	return into, err
}

// look has the first records of a topic looked at, and then one of many.
func (d *Reader) look(decoded *router.Record) {
	*d.format.decoded++
	if n := *d.format.decoded; n <= lookEvery || n%lookEvery == 0 {
		d.Unread.look(d.routes, decoded)
	}
}

// RouteOver routes the record that was just decoded, of which nothing is needed
// beyond the next call.
func (d *Reader) RouteOver(decoded *router.Record) []router.Routed {
	d.over = d.routes.RouteOver(d.over, decoded)
	return d.over
}

// Forget lets go of the texts of records that have passed: each holds all that
// was fetched with its record.
func (d *Reader) Forget() {
	over := d.over[:cap(d.over)]
	for i := range over {
		clear(over[i].Write.Cells[:cap(over[i].Write.Cells)])
		over[i].Write = schemas.Write{Cells: over[i].Write.Cells[:0]}
	}
}
