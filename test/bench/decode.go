package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// decodeJob is a line of decoding, routing and mapping, without anything around.
type decodeJob struct {
	format schemas.Format
	lane   schemas.Lane
	events int
}

// decodeSettings are those of both of its sides.
type decodeSettings struct {
	Format schemas.Format `json:"format"`
	Lane   schemas.Lane   `json:"lane"` // whose way with a record it is
	Bare   bool           `json:"bare"` // the floor: the library alone, into a struct
}

// measure runs one side.
func (j *decodeJob) measure(ctx context.Context, bare bool) (sample, error) {
	c, err := start(ctx, "decode", decodeSettings{j.format, j.lane, bare})
	if err != nil {
		return sample{}, err
	}
	s, err := window(ctx, c, done{c}, int64(warm*float64(j.events)), until(int64(j.events)))
	return s, errors.Join(err, c.stop())
}

// work handles one event.
type work func(event []byte) error

// workingHeap is how the collector of both sides is set: a heap of 32 MB and
// more, which is what a sink's has under load. A process that does nothing else
// collects each four megabytes, ten times as often as any sink, and what is
// measured then is mostly the collector.
const workingHeap = 800 // percent; the least heap is this of 4 MB

// playDecode handles the same thousand events again and again, in one goroutine.
func playDecode(ctx context.Context, w *wire) error {
	var s decodeSettings
	if err := w.settings(&s); err != nil {
		return err
	}
	debug.SetGCPercent(workingHeap)
	events, err := encodedVisits(ctx, s.Format)
	if err != nil {
		return err
	}
	var handle work
	if s.Bare {
		handle, err = bare(ctx, s.Format)
	} else {
		if s.Format != schemas.FormatJSON { // they come from Kafka with the id of their schema
			for i := range events {
				events[i] = slices.Concat(framed(), events[i])
			}
		}
		var over func()
		handle, over, err = throughTheSink(s.Format, s.Lane)
		defer over()
	}
	if err != nil {
		return err
	}
	var count atomic.Int64
	return w.serve(ctx, answer{}, count.Load, func(ctx context.Context) error {
		for ctx.Err() == nil {
			for _, event := range events {
				if err := handle(event); err != nil {
					return err
				}
			}
			count.Add(int64(len(events)))
		}
		return nil
	})
}

// bare decodes with the library alone. Without generated code the Protobuf
// library's own is a dynamic message.
func bare(ctx context.Context, f schemas.Format) (work, error) {
	switch f {
	case schemas.FormatAvro:
		schema, err := avro.Parse(visitAvro)
		return func(event []byte) error {
			var v visit
			_, err := schema.Decode(event, &v)
			return err
		}, err
	case schemas.FormatProtobuf:
		descriptor, err := visitDescriptor(ctx)
		return func(event []byte) error {
			return proto.Unmarshal(event[1:], dynamicpb.NewMessage(descriptor)) // without the index of the message
		}, err
	}
	return func(event []byte) error {
		var v visit
		return json.Unmarshal(event, &v)
	}, nil
}

// throughTheSink decodes, routes and maps as a lane does. The writes of the
// immediate lane outlive their record.
func throughTheSink(f schemas.Format, lane schemas.Lane) (_ work, over func(), err error) {
	r, problems := router.Compile([]router.Mapping{visitMapping(f)})
	if len(problems) > 0 {
		return nil, func() {}, errors.New(problems[0].String())
	}
	decode, over := schemas.NewJSON().Decode, func() {}
	if f != schemas.FormatJSON {
		registry := srfake.New()
		registry.SeedSchema("visits-value", 1, visitID, visitSchema(f))
		writers, err := schemas.NewRegistry(schemas.RegistryConfig{
			URL: registry.URL(), Log: slog.New(slog.DiscardHandler), Backoff: func(int) time.Duration { return time.Second },
		})
		if err != nil {
			return nil, registry.Close, err
		}
		over = func() { writers.Close(); registry.Close() }
		decode = writers.Decoder(f).Decode
	}
	var routed []router.Routed
	var slab router.Slab
	rec := &router.Record{Topic: "visits"}
	return func(event []byte) error {
		v, err := decode(event)
		for errors.Is(err, schemas.ErrSchemaAway) { // the first event only
			time.Sleep(time.Millisecond)
			v, err = decode(event)
		}
		if err != nil {
			return err
		}
		rec.Value = v
		if lane == schemas.Batch {
			routed = r.Topic(rec.Topic).RouteOver(routed, rec)
		} else {
			routed = r.RouteFrom(routed[:0], rec, &slab)
		}
		if len(routed) != 1 || len(routed[0].Write.Cells) != visitFields {
			return fmt.Errorf("not mapped: %v", routed)
		}
		return routed[0].Err
	}, over, nil
}

// encodedVisits are a thousand different events.
func encodedVisits(ctx context.Context, f schemas.Format) ([][]byte, error) {
	events := make([][]byte, variants)
	for i := range events {
		v := visitOf(i)
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		switch f {
		case schemas.FormatAvro:
			schema, err := avro.Parse(visitAvro)
			if err != nil {
				return nil, err
			}
			if events[i], err = schema.Encode(v); err != nil {
				return nil, err
			}
		case schemas.FormatProtobuf:
			descriptor, err := visitDescriptor(ctx)
			if err != nil {
				return nil, err
			}
			m := dynamicpb.NewMessage(descriptor)
			if err := protojson.Unmarshal(text, m); err != nil {
				return nil, err
			}
			data, err := proto.Marshal(m)
			if err != nil {
				return nil, err
			}
			events[i] = append([]byte{0}, data...)
		default:
			events[i] = text
		}
	}
	return events, nil
}

func visitSchema(f schemas.Format) sr.Schema {
	switch f {
	case schemas.FormatAvro:
		return sr.Schema{Schema: visitAvro}
	case schemas.FormatProtobuf:
		return sr.Schema{Schema: visitProto, Type: sr.TypeProtobuf}
	}
	return sr.Schema{Schema: `{"type":"object"}`, Type: sr.TypeJSON}
}
