package ops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/decode"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/setup"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// errWireFormat says what a plain look at a value cannot do.
var errWireFormat = errors.New("its values are in the wire format of a schema registry; name it with --registry")

// Guess is a commented configuration for topics, from a look at the last records of
// each, at most limit. It joins no group.
func Guess(ctx context.Context, at setup.Place, topics []string, limit int64) (string, error) {
	reader, err := cluster.OpenReader(ctx, build.KafkaConnection(at.Kafka, nil))
	if err != nil {
		return "", err
	}
	defer reader.Close()
	values, done, err := guessing(ctx, at.Registry)
	if err != nil {
		return "", err
	}
	defer done()
	samples := make([]*setup.Sample, len(topics))
	for i, topic := range topics {
		if samples[i], err = sampleOf(ctx, reader, values, topic, limit); err != nil {
			if _, missing := errors.AsType[*cluster.MissingTopic](err); !missing { // which names the topic
				err = fmt.Errorf("topic %s: %w", topic, err)
			}
			return "", err
		}
	}
	return setup.Write(at, samples...)
}

// sampleOf is what the last records of a topic are.
func sampleOf(ctx context.Context, reader *cluster.Reader, values valueReader, topic string, limit int64) (*setup.Sample, error) {
	sample := setup.NewSample(topic, string(schemas.FormatJSON))
	_, err := readSample(ctx, reader, []string{topic}, Sample{Limit: limit}, func(r *kafka.Record) error {
		if r.Value == nil {
			sample.Add(setup.Record{Key: r.Key})
			return nil
		}
		record, format, err := eventOrValue(r, values)
		switch {
		case errors.Is(err, errWireFormat), errors.Is(err, schemas.ErrSchemaUnavailable):
			return err
		case err != nil:
			sample.Unreadable++
			return nil //nolint:nilerr // counted; others may be readable
		}
		if format != "" {
			sample.Format = string(format)
		}
		sample.Add(record)
		return nil
	})
	if err == nil && sample.Records()+sample.Tombstones+sample.Unreadable == 0 {
		err = errors.New("it has no record yet; come back when it has")
	}
	return sample, err
}

// valueReader decodes a record's value, and tells its format.
type valueReader func(*kafka.Record) (schemas.Value, schemas.Format, error)

// eventOrValue reads a record's value, of a CloudEvent its data. The format is "" where
// there is no data.
func eventOrValue(r *kafka.Record, read valueReader) (setup.Record, schemas.Format, error) {
	record := setup.Record{Key: r.Key, SchemaKey: decode.NamesKeySchema(r), Headers: map[string]string{}}
	for _, h := range r.Headers {
		if utf8.Valid(h.Value) {
			record.Headers[h.Key] = string(h.Value)
		}
	}
	structured, err := schemas.IsStructuredEvent(func(name string) string { return decode.HeaderText(r, name) })
	if err != nil {
		return record, "", err
	}
	record.Event = !structured
	if record.Event && len(r.Value) == 0 {
		return record, "", nil
	}
	var format schemas.Format
	if record.Value, format, err = read(r); err != nil || !structured {
		return record, format, err
	}
	ev, err := schemas.StructuredEvent(record.Value)
	if err != nil {
		return record, format, nil //nolint:nilerr // it is any other value
	}
	record.Event, record.Value = true, ev.Data
	for _, attribute := range ev.Attributes {
		record.Headers[attribute.Name] = attribute.Value.Text()
	}
	if ev.Encoded != nil {
		record.Value, format, err = read(&kafka.Record{Value: ev.Encoded})
	}
	return record, format, err
}

// guessing decodes values of any format. Those in the wire format of a registry
// are of the one whose schema reads them. Each value has a decoder of its own, since
// it is looked at after the next one was decoded.
func guessing(ctx context.Context, registry config.SchemaRegistry) (read valueReader, done func(), err error) {
	cfg := &config.Config{SchemaRegistry: registry, Retry: config.Retry{Initial: 200 * time.Millisecond, Max: 5 * time.Second}}
	writers, err := build.NewRegistry(cfg, newRand(), nil, schemas.RegistryConfig{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	done = func() {}
	formats := []schemas.Format{schemas.FormatAvro, schemas.FormatJSONSchema, schemas.FormatProtobuf}
	if writers != nil {
		done = writers.Close
	}
	return func(r *kafka.Record) (schemas.Value, schemas.Format, error) {
		if writers == nil || !decode.NamesSchema(r) {
			value, err := schemas.NewJSON().Decode(r.Value)
			if err != nil && decode.NamesSchema(r) {
				err = errWireFormat
			}
			return value, schemas.FormatJSON, err
		}
		var failed error
		for _, f := range formats {
			decoder := writers.Decoder(f)
			record, err := decode.AskForSchemas(ctx, writers, func(r *kafka.Record) (*router.Record, error) {
				value, err := decode.Value(decoder, r)
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
