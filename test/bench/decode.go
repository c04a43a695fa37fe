package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/twmb/avro"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// decodeJob is a line of decoding, routing and mapping, without anything around.
type decodeJob struct {
	format schemas.Format
	lane   schemas.Lane // whose way with a record it is
	count  int          // of events
}

func (*decodeJob) events() events { return events{} } // each side makes its own

func (j *decodeJob) side(ctx context.Context, b *bench, topic string, floor bool) sample {
	path := b.configure(sinkConfig{Topic: topic, Service: "http://127.0.0.1:1", Start: 1, Highest: 1, Visits: j.format})
	c := b.start(ctx, "decode", settings{Config: path, Format: j.format, Lanes: []schemas.Lane{j.lane}, Floor: floor})
	return c.window(ctx, int64(j.count/10), int64(j.count), c.done)
}

// work handles one event.
type work func(event []byte) error

// workingHeap is how the collector of both sides is set: a heap of 32 MB and
// more, which is what a sink's has under load. A process that does nothing else
// collects each four megabytes, ten times as often as any sink, and what is
// measured then is mostly the collector.
const workingHeap = 800 // percent; the least heap is this of 4 MB

// newDecode handles the same thousand events again and again, in one goroutine.
func newDecode(s settings) *role {
	debug.SetGCPercent(workingHeap)
	all := visits(s.Format)
	for i := range all {
		_, all[i] = filled(all, i, i)
	}
	handle := asTheSink
	if s.Floor {
		handle = withTheLibrary
	}
	work := handle(s)
	var count atomic.Int64
	return &role{done: count.Load, run: func(ctx context.Context) error {
		for ctx.Err() == nil {
			for _, event := range all {
				if err := work(event); err != nil {
					return err
				}
			}
			count.Add(int64(len(all)))
		}
		return nil
	}}
}

// withTheLibrary decodes with the library alone, and looks at nothing. Without
// generated code the Protobuf library's own is a dynamic message.
func withTheLibrary(s settings) work {
	header := len(visitHeader(s.Format))
	switch s.Format {
	case schemas.FormatAvro:
		schema := avro.MustParse(visitAvro)
		return func(event []byte) error {
			var v visit
			_, err := schema.Decode(event[header:], &v)
			return err
		}
	case schemas.FormatProtobuf:
		descriptor := visitMessage()
		return func(event []byte) error {
			return proto.Unmarshal(event[header:], dynamicpb.NewMessage(descriptor))
		}
	}
	return func(event []byte) error {
		var v visit
		return json.Unmarshal(event[header:], &v)
	}
}

// asTheSink decodes, routes and maps as a lane does. The writes of the immediate lane
// outlive their record.
func asTheSink(s settings) work {
	cfg := must(config.Load(s.Config, os.LookupEnv))
	r, problems := router.Compile(cfg.Mappings)
	if len(problems) > 0 {
		try(errors.New(problems[0].String()))
	}
	batch := s.Lanes[0] == schemas.Batch
	d := decoder(cfg.SchemaRegistry.URL.Reveal(), s.Format)
	var routed []router.Routed
	var arena router.Arena
	rec := &router.Record{Topic: cfg.Mappings[0].Topics[0]}
	return func(event []byte) error {
		v, err := d.Decode(event)
		for errors.Is(err, schemas.ErrSchemaUnavailable) { // the first event only
			time.Sleep(time.Millisecond)
			v, err = d.Decode(event)
		}
		if err != nil {
			return err
		}
		rec.Value = v
		if batch {
			routed = r.Topic(rec.Topic).RouteOver(routed, rec)
		} else {
			routed = r.RouteFrom(routed[:0], rec, &arena)
		}
		if len(routed) != 1 || len(routed[0].Write.Cells) != visitFields {
			return fmt.Errorf("not mapped: %v", routed)
		}
		return routed[0].Err
	}
}

// decoder is the lane's for a format.
func decoder(registry string, f schemas.Format) schemas.Decoder {
	if f == schemas.FormatJSON {
		return schemas.NewJSON()
	}
	writers := must(schemas.NewRegistry(schemas.RegistryConfig{
		URL: registry, HTTP: http.DefaultClient, Log: slog.New(slog.DiscardHandler), Backoff: func(int) time.Duration { return time.Second },
	}))
	return writers.Decoder(f)
}
