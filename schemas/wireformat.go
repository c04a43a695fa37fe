package schemas

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
)

// Format is how the values of a topic are encoded.
type Format string

// The formats. All but JSON come in the wire format of the Confluent schema
// registry: a zero byte, the writer schema's id in four bytes, and what the
// schema describes; or what the schema describes alone, beside a header that names
// the schema.
const (
	FormatJSON       Format = "json"
	FormatAvro       Format = "avro"
	FormatJSONSchema Format = "json-schema"
	FormatProtobuf   Format = "protobuf"
)

// Registered reports whether the format needs a schema registry.
func (f Format) Registered() bool {
	return f == FormatAvro || f == FormatJSONSchema || f == FormatProtobuf
}

// ErrSchemaUnavailable says that a record cannot be decoded yet: its writer schema is
// being fetched, or may be new, or the registry cannot be asked. The caller decodes
// the record again a little later, any number of times; it says nothing against
// the record.
var ErrSchemaUnavailable = errors.New("the writer schema is not here yet")

// The headers by which newer serializers name the schemas of a record's value and key.
const (
	HeaderValueSchema = "__value_schema_id"
	HeaderKeySchema   = "__key_schema_id"
)

// SchemaDecoder is a Decoder of what was written through a schema registry.
type SchemaDecoder interface {
	Decoder
	// DecodeNamed decodes data that does not name its schema itself: name is the value
	// of the record's header that does, HeaderValueSchema or HeaderKeySchema.
	DecodeNamed(name, data []byte) (Value, error)
}

// guid names a schema in all registries.
type guid [16]byte

// schemaID names a schema: by its GUID, or where that is zero by the registry's
// number for it.
type schemaID struct {
	number uint32
	guid   guid
}

// String is the number, or the GUID in its usual five groups.
func (id schemaID) String() string {
	if id.guid == (guid{}) {
		return strconv.FormatUint(uint64(id.number), 10)
	}
	return string(appendUUID(nil, id.guid[:]))
}

// writer is a writer schema ready for reading: read reads what follows the schema's
// id with the decoder's memory.
type writer struct {
	format Format
	read   func(d *wire, payload []byte) (Value, error)
}

// wire decodes one format in the registry's wire format.
type wire struct {
	want     Format
	registry *Registry

	// Most records have the writer of the one before.
	lastID schemaID
	last   writer

	// Of a Protobuf record whose schema a header names, the indexes stand there, too.
	// Nil: they stand in the value.
	indexes []byte

	avro  avroReader
	proto protoReader
	json  jsonReader
}

// A schema is named by a byte that says how, and its id or its GUID.
const (
	byID        = 0
	idBytes     = 1 + 4
	byGUID      = 1
	guidBytes   = 1 + len(guid{})
	ruleUnnamed = "does not begin with a zero byte and a schema's id: it was not written through a schema registry"
	ruleName    = "the header that names its schema holds neither a schema's id nor a GUID"
)

// Decoder returns a decoder for one goroutine. Its errors are *DecodeError, or
// ErrSchemaUnavailable from every format that needs the registry.
func (r *Registry) Decoder(f Format) SchemaDecoder {
	return &wire{want: f, registry: r}
}

// Decode implements Decoder.
func (d *wire) Decode(data []byte) (Value, error) {
	if len(data) < idBytes || data[0] != byID {
		return d.refuse(ruleUnnamed)
	}
	d.indexes = nil
	return d.decode(schemaID{number: binary.BigEndian.Uint32(data[1:])}, data, idBytes)
}

// DecodeNamed implements SchemaDecoder.
func (d *wire) DecodeNamed(name, data []byte) (Value, error) {
	var id schemaID
	switch {
	case len(name) >= guidBytes && name[0] == byGUID:
		id.guid, d.indexes = guid(name[1:guidBytes]), name[guidBytes:]
	case len(name) >= idBytes && name[0] == byID:
		id.number, d.indexes = binary.BigEndian.Uint32(name[1:]), name[idBytes:]
	default:
		return d.refuse(ruleName)
	}
	if len(d.indexes) > 0 && d.want != FormatProtobuf {
		return d.refuse(ruleName)
	}
	return d.decode(id, data, 0)
}

func (d *wire) refuse(format string, args ...any) (Value, error) {
	return Value{}, &DecodeError{Format: string(d.want), Rule: fmt.Sprintf(format, args...)}
}

// decode decodes what the schema describes, behind the first bytes of data.
func (d *wire) decode(id schemaID, data []byte, first int) (Value, error) {
	if len(data) > maxBytes {
		return d.refuse("longer than 64 MiB")
	}
	if d.last.read == nil || d.lastID != id {
		w, err := d.registry.writer(id)
		if broken, ok := errors.AsType[*schemaError](err); ok {
			return Value{}, &DecodeError{Format: string(d.want), Rule: fmt.Sprintf("schema %v: %v", id, broken), missing: broken.missing}
		}
		if err != nil {
			return Value{}, err
		}
		if w.format != d.want {
			return d.refuse("schema %v is for %s", id, w.format)
		}
		d.lastID, d.last = id, w
	}
	v, err := d.last.read(d, data[first:])
	if err == nil {
		return v, nil
	}
	if bad, ok := errors.AsType[*DecodeError](err); ok && bad.Offset >= 0 {
		bad.Offset += int64(first) // of the record, as it lies in the topic
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
