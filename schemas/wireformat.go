package schemas

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Format is how the values of a topic are encoded.
type Format string

// The formats. All but JSON come in the wire format of the Confluent schema
// registry: a zero byte, the writer schema's id in four bytes, and what the
// schema describes.
const (
	FormatJSON       Format = "json"
	FormatAvro       Format = "avro"
	FormatJSONSchema Format = "json-schema"
	FormatProtobuf   Format = "protobuf"
)

// ErrSchemaUnavailable says that a record cannot be decoded yet: its writer schema is
// being fetched, or the registry cannot be asked. Whoever decodes offers the
// record again a little later, however often; it says nothing against the
// record.
var ErrSchemaUnavailable = errors.New("the writer schema is not here yet")

// writer is a writer schema ready for reading.
type writer interface {
	format() Format
	// read reads what follows the schema's id with the decoder's memory.
	read(d *wire, payload []byte) (Value, error)
}

// wire decodes one format in the registry's wire format.
type wire struct {
	want     Format
	registry *Registry

	// Most records have the writer of the one before.
	lastID uint32
	last   writer

	avro  avroReader
	proto protoReader
	json  *JSON
}

// headerBytes is the length of magic byte and schema id.
const headerBytes = 5

// Decoder returns a decoder for one goroutine. Its errors are *DecodeError, or
// ErrSchemaUnavailable from every format that needs the registry.
func (r *Registry) Decoder(f Format) Decoder {
	return &wire{want: f, registry: r, json: NewJSON()}
}

// Decode implements Decoder.
func (d *wire) Decode(data []byte) (Value, error) {
	refuse := func(format string, args ...any) (Value, error) {
		return Value{}, &DecodeError{Format: string(d.want), Rule: fmt.Sprintf(format, args...)}
	}
	switch {
	case len(data) > MaxBytes:
		return refuse("longer than 64 MiB")
	case len(data) < headerBytes || data[0] != 0:
		return refuse("does not begin with a zero byte and a schema's id: it was not written through a schema registry")
	}
	id := binary.BigEndian.Uint32(data[1:])
	if d.last == nil || d.lastID != id {
		w, err := d.registry.writer(id)
		if broken, ok := errors.AsType[*schemaError](err); ok {
			return Value{}, &DecodeError{Format: string(d.want), Rule: fmt.Sprintf("schema %d: %v", id, broken), missing: broken.missing}
		}
		if err != nil {
			return Value{}, err
		}
		if w.format() != d.want {
			return refuse("schema %d is for %s", id, w.format())
		}
		d.lastID, d.last = id, w
	}
	v, err := d.last.read(d, data[headerBytes:])
	if err == nil {
		return v, nil
	}
	if bad, ok := errors.AsType[*DecodeError](err); ok && bad.Offset >= 0 {
		bad.Offset += headerBytes // of the record, as it lies in the topic
	}
	return v, err
}

// schemaError is a reason not to decode what a schema wrote.
type schemaError struct {
	reason  string
	missing bool // the registry does not know it, or what it refers to
}

// Error reads `the registry has no such schema`.
func (e *schemaError) Error() string { return e.reason }

// avroWriter is an Avro schema.
type avroWriter struct{ root *avroType }

func (avroWriter) format() Format { return FormatAvro }

func (w avroWriter) read(d *wire, payload []byte) (Value, error) {
	return d.avro.decode(w.root, payload)
}
