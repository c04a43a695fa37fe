package decode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
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
	value schemas.Decoder
	key   schemas.Decoder // nil: whoever needs the key reads its bytes
}

// formats are the topics' formats, with one decoder for each.
type formats map[string]topicFormat

// newFormats takes the topics of all mappings. writers is nil where none of them
// needs a registry. A record's value is valid until the next record of its format is
// decoded, which may be of another topic.
func newFormats(r *router.Router, writers *schemas.Registry) formats {
	decoders := map[schemas.Format]schemas.Decoder{schemas.FormatJSON: schemas.NewJSON()}
	var keys schemas.Decoder // its own: a key must outlast the decoding of the value
	known := formats{"": {value: decoders[schemas.FormatJSON]}}
	for _, m := range r.Mappings() {
		for _, topic := range m.Config.Topics {
			format := schemas.Format(r.Format(topic))
			if decoders[format] == nil {
				decoders[format] = writers.Decoder(format)
			}
			f := topicFormat{value: decoders[format]}
			if r.KeyFormat(topic) == string(schemas.FormatAvro) {
				if keys == nil {
					keys = writers.Decoder(schemas.FormatAvro)
				}
				f.key = keys
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

// readKey decodes a record's key for those who ask for it. Only a schema that
// has to be waited for, or is missing, is an error for all of the record.
func (f topicFormat) readKey(into *router.Record, key []byte) error {
	into.KeyValue, into.KeyErr = schemas.Value{}, nil
	if f.key == nil || len(key) == 0 {
		return nil
	}
	v, err := f.key.Decode(key)
	if errors.Is(err, schemas.ErrSchemaUnavailable) || errors.Is(err, schemas.ErrSchemaMissing) {
		return fmt.Errorf("kafka key: %w", err)
	}
	into.KeyValue, into.KeyErr = v, err
	return nil
}

// Commands that decode wait for schemas: they have nothing else to do. At most
// this long for one record, and that often is asked.
const (
	schemaPatience = time.Minute
	schemaPoll     = 20 * time.Millisecond
)

// NewDecoder decodes for a command that looks at records of any topic.
func NewDecoder(ctx context.Context, cfg *config.Config, r *router.Router, chance *rand.Rand, log *slog.Logger) (
	decode func(*kafka.Record) (*router.Record, error), stop func(), err error,
) {
	own := rand.New(rand.NewPCG(chance.Uint64(), chance.Uint64()))
	writers, err := build.NewRegistry(cfg, own, schemas.RegistryConfig{Log: log})
	if err != nil {
		return nil, nil, err
	}
	l := NewReader(r, writers)
	if writers == nil {
		return l.Decode, func() {}, nil
	}
	return WaitForSchemas(ctx, writers, l.Decode), writers.Close, nil
}

// WaitForSchemas makes of a decoder one that waits for schemas. What it returns then
// is an error of the record, or why the registry could not be asked for long.
func WaitForSchemas(ctx context.Context, writers *schemas.Registry, decode func(*kafka.Record) (*router.Record, error)) func(*kafka.Record) (*router.Record, error) {
	return func(r *kafka.Record) (*router.Record, error) {
		ctx, cancel := context.WithTimeout(ctx, schemaPatience)
		defer cancel()
		look := time.NewTicker(schemaPoll)
		defer look.Stop()
		for {
			decoded, err := decode(r)
			if !errors.Is(err, schemas.ErrSchemaUnavailable) {
				return decoded, err
			}
			select {
			case <-look.C:
			case <-ctx.Done():
				return nil, fmt.Errorf("%w: %w", err, errors.Join(ctx.Err(), writers.Trouble()))
			}
		}
	}
}
