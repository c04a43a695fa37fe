package decode

import (
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// eventData is the data of an event, Absent where it has none. The event's attributes
// are added to the record's headers under the names that they have in the binary
// content mode: one configuration reads both modes.
func (d *Reader) eventData(into *router.Record, r *kafka.Record) (schemas.Value, error) {
	header := func(name string) string { return HeaderText(r, name) }
	structured, err := schemas.IsStructuredEvent(header)
	if err != nil {
		return schemas.Value{}, err
	}
	if !structured {
		if text := header(schemas.HeaderContentType); text != "" {
			into.Headers = append(into.Headers, router.Header{Key: schemas.HeaderDataType, Value: []byte(text)})
		}
		if len(r.Value) == 0 {
			return schemas.Value{}, nil
		}
		return d.format.readValue(r)
	}
	v, err := d.eventFormat(r).readValue(r)
	if err != nil {
		return v, err
	}
	ev, err := schemas.StructuredEvent(v)
	if err != nil {
		return schemas.Value{}, err
	}
	for _, attribute := range ev.Attributes {
		into.Headers = append(into.Headers, router.Header{Key: attribute.Name, Value: []byte(attribute.Value.Text())})
	}
	if ev.Encoded != nil {
		return d.format.value.Decode(ev.Encoded)
	}
	return ev.Data, nil
}

// eventFormat reads a structured event: JSON, whatever the format of the data is,
// unless the event itself was written through the schema registry.
func (d *Reader) eventFormat(r *kafka.Record) topicFormat {
	if NamesSchema(r) {
		return d.format
	}
	return d.formats.of("")
}
