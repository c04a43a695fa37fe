package ops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/decode"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/setup"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// errWireFormat says what a plain look at a value cannot do.
var errWireFormat = errors.New("its values are in the wire format of a schema registry; name it with --registry")

// Guess is a commented configuration for a topic, from a look at its last records.
// It joins no group.
func Guess(ctx context.Context, at setup.Place, limit int64) (string, error) {
	reader, err := kafka.NewReader(build.KafkaConnection(at.Kafka, nil))
	if err != nil {
		return "", err
	}
	defer reader.Close()
	values, done, err := guessing(ctx, at.Registry)
	if err != nil {
		return "", err
	}
	defer done()
	sample := setup.NewSample(string(schemas.FormatJSON))
	_, err = readSample(ctx, reader, []string{at.Topic}, Sample{Limit: limit}, func(r *kafka.Record) error {
		if r.Value == nil {
			sample.Add(r.Key, schemas.Value{})
			return nil
		}
		value, format, err := values(r)
		if errors.Is(err, errWireFormat) || errors.Is(err, schemas.ErrSchemaUnavailable) {
			return err
		}
		if err != nil {
			sample.Unreadable++
			return nil //nolint:nilerr // counted; others may be readable
		}
		sample.Format = string(format)
		sample.Add(r.Key, value)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("topic %s: %w", at.Topic, err)
	}
	if sample.Records()+sample.Tombstones+sample.Unreadable == 0 {
		return "", fmt.Errorf("topic %s: it has no record yet; come back when it has", at.Topic)
	}
	text, err := sample.Write(at)
	if err != nil {
		return "", fmt.Errorf("topic %s: %w (%d without a value, %d unreadable)", at.Topic, err, sample.Tombstones, sample.Unreadable)
	}
	return text, nil
}

// guessing decodes values of any format. Those in the wire format of a registry
// are of the one whose schema reads them. Each value has a decoder of its own, since
// it is looked at after the next one was decoded.
func guessing(ctx context.Context, registry config.SchemaRegistry) (read func(*kafka.Record) (schemas.Value, schemas.Format, error), done func(), err error) {
	cfg := &config.Config{SchemaRegistry: registry, Retry: config.Retry{Initial: 200 * time.Millisecond, Max: 5 * time.Second}}
	writers, err := build.NewRegistry(cfg, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), schemas.RegistryConfig{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	done = func() {}
	formats := []schemas.Format{schemas.FormatAvro, schemas.FormatJSONSchema, schemas.FormatProtobuf}
	if writers != nil {
		done = writers.Close
	}
	return func(r *kafka.Record) (schemas.Value, schemas.Format, error) {
		if len(r.Value) == 0 || r.Value[0] != 0 {
			value, err := schemas.NewJSON().Decode(r.Value)
			return value, schemas.FormatJSON, err
		}
		if writers == nil {
			return schemas.Value{}, "", errWireFormat
		}
		var failed error
		for _, f := range formats {
			decoder := writers.Decoder(f)
			record, err := decode.WaitForSchemas(ctx, writers, func(r *kafka.Record) (*router.Record, error) {
				value, err := decoder.Decode(r.Value)
				return &router.Record{Value: value}, err
			})(r)
			switch {
			case err == nil:
				return record.Value, f, nil
			case errors.Is(err, schemas.ErrSchemaUnavailable):
				return schemas.Value{}, "", err
			}
			failed = err
		}
		return schemas.Value{}, "", failed
	}, done, nil
}
