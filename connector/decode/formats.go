package decode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// topicFormat is how the records of one topic are read. The decoders are one
// lane's own.
type topicFormat struct {
	value   schemas.Decoder
	key     schemas.SchemaDecoder // nil: the key is read as bytes
	events  bool                  // values are CloudEvents
	decoded *int                  // records, where fields that are not read are looked for
}

// formats are the topics' formats, with one decoder for each.
type formats map[string]topicFormat

// newFormats takes the topics of all mappings. writers is nil where none of them
// needs a registry. A record's value is valid until the next record of its format is
// decoded, which may be of another topic.
func newFormats(r *router.Router, writers *schemas.Registry) formats {
	decoders := map[schemas.Format]schemas.Decoder{schemas.FormatJSON: schemas.NewJSON()}
	keys := map[schemas.Format]schemas.SchemaDecoder{} // their own: a key must outlast the decoding of the value
	known := formats{"": {value: decoders[schemas.FormatJSON], decoded: new(int)}}
	for _, m := range r.Mappings() {
		for _, topic := range m.Config.Topics {
			format := schemas.Format(m.Config.ValueFormat())
			if decoders[format] == nil {
				decoders[format] = writers.Decoder(format)
			}
			f := topicFormat{value: decoders[format], events: m.Config.Envelope == router.CloudEvents, decoded: new(int)}
			if key := schemas.Format(m.Config.KeyFormat()); key.Registered() {
				if keys[key] == nil {
					keys[key] = writers.Decoder(key)
				}
				f.key = keys[key]
			}
			known[topic] = f
		}
	}
	return known
}

// of is a topic's format. One that no mapping reads (a dead letter may come
// from it) is read as if it were JSON.
func (f formats) of(topic string) topicFormat {
	if known, ok := f[topic]; ok {
		return known
	}
	return f[""]
}

// readValue decodes a record's value.
func (f topicFormat) readValue(r *kafka.Record) (schemas.Value, error) {
	if d, ok := f.value.(schemas.SchemaDecoder); ok {
		return Value(d, r)
	}
	return f.value.Decode(r.Value)
}

// Value decodes a record's value by the schema that a header names, or else the value
// itself.
func Value(d schemas.SchemaDecoder, r *kafka.Record) (schemas.Value, error) {
	return named(d, header(r, schemas.HeaderValueSchema), r.Value)
}

func named(d schemas.SchemaDecoder, name, data []byte) (schemas.Value, error) {
	if name == nil {
		return d.Decode(data)
	}
	return d.DecodeNamed(name, data)
}

// header is the value of a record's last header of that name, nil where there is none.
func header(r *kafka.Record, name string) []byte {
	for _, h := range slices.Backward(r.Headers) {
		if h.Key == name {
			return h.Value
		}
	}
	return nil
}

// HeaderText is the text of a record's last header of that name, "" where there is
// none.
func HeaderText(r *kafka.Record, name string) string { return string(header(r, name)) }

// NamesSchema reports whether a record's value was written through a schema registry:
// a header names its schema, or it begins as the wire format does, and no JSON.
func NamesSchema(r *kafka.Record) bool {
	return header(r, schemas.HeaderValueSchema) != nil || len(r.Value) > 0 && r.Value[0] == 0
}

// NamesKeySchema is NamesSchema for a record's key.
func NamesKeySchema(r *kafka.Record) bool {
	return header(r, schemas.HeaderKeySchema) != nil || len(r.Key) > 0 && r.Key[0] == 0
}

// readKey decodes a record's key for those who ask for it. Only a schema that
// has to be waited for, or is missing, is an error for all of the record.
func (f topicFormat) readKey(into *router.Record, r *kafka.Record) error {
	into.KeyValue, into.KeyErr = schemas.Value{}, nil
	if f.key == nil || len(r.Key) == 0 {
		return nil
	}
	v, err := named(f.key, header(r, schemas.HeaderKeySchema), r.Key)
	if errors.Is(err, schemas.ErrSchemaUnavailable) || errors.Is(err, schemas.ErrSchemaMissing) {
		return fmt.Errorf("kafka key: %w", err)
	}
	into.KeyValue, into.KeyErr = v, err
	return nil
}

// What decodes one record waits this long for schemas, and asks that often. A command has
// somebody who waits for it: it gives up sooner where the registry refuses.
const (
	schemaPatience  = time.Minute
	refusedPatience = 2 * time.Second // a proxy may refuse while its registry starts
	schemaPoll      = 20 * time.Millisecond
)

// Decoder decodes a record of any topic.
type Decoder = func(*kafka.Record) (*router.Record, error)

// NewDecoder decodes for a command that looks at records of any topic.
func NewDecoder(ctx context.Context, cfg *config.Config, r *router.Router, random *rand.Rand, log *slog.Logger) (decode Decoder, stop func(), err error) {
	decoders, stop, err := NewDecoders(ctx, cfg, r, random, log, 1)
	if err != nil {
		return nil, nil, err
	}
	return decoders[0], stop, nil
}

// NewDecoders are n of them, each for one goroutine.
func NewDecoders(ctx context.Context, cfg *config.Config, r *router.Router, random *rand.Rand, log *slog.Logger, n int) (decoders []Decoder, stop func(), err error) {
	own := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
	writers, err := build.NewRegistry(cfg, own, nil, schemas.RegistryConfig{Log: log})
	if err != nil {
		return nil, nil, err
	}
	stop = func() {}
	if writers != nil {
		stop = writers.Close
	}
	for range n {
		reader := NewReader(r, writers)
		decode := reader.Decode
		if writers != nil {
			decode = AskForSchemas(ctx, writers, decode)
		}
		decoders = append(decoders, decode)
	}
	return decoders, stop, nil
}

// WaitForSchemas makes of a decoder one that waits for schemas. What it returns then
// is an error of the record, or why the registry could not be asked for long.
func WaitForSchemas(ctx context.Context, writers *schemas.Registry, decode Decoder) Decoder {
	return waiting(ctx, writers, decode, schemaPatience)
}

// AskForSchemas is WaitForSchemas for a command.
func AskForSchemas(ctx context.Context, writers *schemas.Registry, decode Decoder) Decoder {
	return waiting(ctx, writers, decode, refusedPatience)
}

// waiting is a decoder that waits for schemas, refused at most where the registry refuses.
func waiting(ctx context.Context, writers *schemas.Registry, decode Decoder, refused time.Duration) Decoder {
	return func(r *kafka.Record) (*router.Record, error) {
		ctx, cancel := context.WithTimeout(ctx, schemaPatience)
		defer cancel()
		began := time.Now()
		look := time.NewTicker(schemaPoll)
		defer look.Stop()
		for {
			decoded, err := decode(r)
			if !errors.Is(err, schemas.ErrSchemaUnavailable) {
				return decoded, err
			}
			select {
			case <-look.C:
				if lastErr := writers.Err(); schemas.Refused(lastErr) && time.Since(began) >= refused {
					return nil, fmt.Errorf("schema registry: %w (%w)", lastErr, err)
				}
			case <-ctx.Done():
				if lastErr := writers.Err(); lastErr != nil {
					return nil, fmt.Errorf("schema registry: %w (%w: %w)", lastErr, err, ctx.Err())
				}
				return nil, fmt.Errorf("%w: %w", err, ctx.Err())
			}
		}
	}
}
