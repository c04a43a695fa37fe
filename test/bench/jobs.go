package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/gzip"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/schemas"
)

// callJob is a line of the immediate lane: every event is one call.
type callJob struct {
	latency    time.Duration // of the service
	inFlight   int           // calls of the sink
	calls      int           // a multiple of variants
	floorRole  string        // calls | loop
	workers    int           // of the floor
	floorCalls int           // a multiple of variants
}

func (j *callJob) events() events { return distinct(j.calls) }

func (j *callJob) side(ctx context.Context, b *bench, topic string, floor bool) sample {
	service, n := b.serve(j.latency, false), int64(j.calls)
	if floor {
		c := b.start(ctx, j.floorRole, settings{Broker: b.broker, Topic: topic, Service: service.address, Workers: j.workers, Calls: j.floorCalls})
		return c.most(ctx, int64(j.floorCalls), service.done)
	}
	sink := b.sink(ctx, service, sinkConfig{Topic: topic, Start: j.inFlight, Highest: j.inFlight}, schemas.Immediate)
	s := sink.most(ctx, n, service.done)
	sink.reach(ctx, n, sink.done)
	var size int64 // of the floor's calls
	for _, body := range bodies() {
		size += n / variants * int64(len(body))
	}
	if calls, bytes := service.calls.Load(), service.bytes.Load(); calls != n || bytes != size {
		try(fmt.Errorf("%d calls of %d bytes for %d events of %d: must be one for each, of the floor's length", calls, bytes, n, size))
	}
	return s
}

// newCalls is the floor of the immediate lane: a bare net/http loop.
func newCalls(s settings) *role {
	call := newCaller(s)
	all := bodies()
	for i := range all {
		_, all[i] = filled(all, i, i)
	}
	var next atomic.Int64
	return &role{run: func(ctx context.Context) error {
		failed := make(chan error, s.Workers)
		var workers sync.WaitGroup
		for range s.Workers {
			workers.Go(func() {
				for i := next.Add(1) - 1; i < int64(s.Calls); i = next.Add(1) - 1 {
					if err := call(ctx, all[i%variants]); err != nil {
						failed <- err
						return
					}
				}
			})
		}
		workers.Wait()
		close(failed)
		return <-failed
	}}
}

// newCaller makes calls of the service.
func newCaller(s settings) func(ctx context.Context, body []byte) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: s.Workers}}
	url := s.Service + profilesPath
	return func(ctx context.Context, body []byte) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer bench")
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("the service answered %s", response.Status)
		}
		return nil
	}
}

// batchJob is a line of the batch lane.
type batchJob struct {
	visits  schemas.Format // of the events; empty: canonical ones
	all     int            // events in the topic
	measure int            // the run ends with the first commit so many beyond its first
	keys    int
	rows    int  // distinct keys after which a file is complete
	whole   bool // the run is of all events, each of another key, from its start until all are confirmed
}

func (j *batchJob) events() events {
	if j.whole {
		return distinct(j.all)
	}
	if j.visits == "" {
		return recurring(j.all, j.keys, canonical())
	}
	return recurring(j.all, j.keys, visits(j.visits))
}

// side of the sink begins with the first commit: commits come in leaps, and the first
// may be of several files.
func (j *batchJob) side(ctx context.Context, b *bench, topic string, floor bool) sample {
	if floor {
		c := b.start(ctx, "files", settings{Broker: b.broker, Topic: topic, Format: j.visits})
		return c.most(ctx, int64(j.all), c.done)
	}
	sink := b.sink(ctx, b.serve(0, false), sinkConfig{Topic: topic, Start: 1, Highest: 1, Visits: j.visits, Rows: j.rows, Whole: j.whole}, schemas.Batch)
	if j.whole {
		return sink.window(ctx, 0, int64(j.all), sink.done)
	}
	_, first := sink.reach(ctx, 1, sink.done)
	return sink.window(ctx, first, first+int64(j.measure), sink.done)
}

// newFiles is the floor of the batch lane: it consumes, decodes each event into a struct
// and writes CSV through gzip to nowhere.
func newFiles(s settings) *role {
	consumer, decoded := newConsumer(s), rowOf(s.Format)
	file := csv.NewWriter(must(gzip.NewWriterLevel(io.Discard, 6)))
	var done atomic.Int64
	return &role{done: done.Load, run: func(ctx context.Context) (err error) {
		defer consumer.Close()
		var row []string
		for ctx.Err() == nil {
			fetches := consumer.PollFetches(ctx)
			for records := fetches.RecordIter(); !records.Done(); {
				if row, err = decoded(records.Next().Value, row[:0]); err != nil {
					return err
				}
				if err := file.Write(row); err != nil {
					return err
				}
				done.Add(1)
			}
		}
		return nil
	}}
}

// rowOf decodes an event into a struct and appends its columns.
func rowOf(f schemas.Format) func(event []byte, row []string) ([]string, error) {
	if f == schemas.FormatAvro {
		schema, header := avro.MustParse(visitAvro), len(visitHeader(f))
		return func(event []byte, row []string) ([]string, error) {
			var v visit
			_, err := schema.Decode(event[header:], &v)
			return v.row(row), err
		}
	}
	return func(event []byte, row []string) ([]string, error) {
		var p profile
		err := json.Unmarshal(event, &p)
		return p.row(row), err
	}
}

// newConsumer reads a topic from its start with the settings that a client has by itself.
func newConsumer(s settings) *kgo.Client {
	return must(kgo.NewClient(kgo.SeedBrokers(s.Broker), kgo.ConsumeTopics(s.Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())))
}

// newLoop is the loop that a team would write by hand: it makes a call for each record
// as soon as it is there and one of so many workers is free. It does nothing else: no
// order, offsets, retries, dead letters, checks or metrics.
func newLoop(s settings) *role {
	consumer, call := newConsumer(s), newCaller(s)
	free := make(chan struct{}, s.Workers)
	var done atomic.Int64
	return &role{done: done.Load, run: func(ctx context.Context) error {
		defer consumer.Close()
		var workers sync.WaitGroup
		defer workers.Wait()
		ctx, fail := context.WithCancelCause(ctx)
		defer fail(nil)
		for ctx.Err() == nil {
			fetches := consumer.PollFetches(ctx)
			if err := fetches.Err(); err != nil && ctx.Err() == nil {
				return fmt.Errorf("fetch: %w", err)
			}
			fetches.EachRecord(func(r *kgo.Record) {
				free <- struct{}{}
				workers.Go(func() {
					body, err := loopBody(r.Value)
					if err == nil {
						err = call(ctx, body)
					}
					if err != nil {
						fail(err)
					}
					done.Add(1)
					<-free
				})
			})
		}
		return context.Cause(ctx)
	}}
}

// loopBody is what such a loop sends of an event: all that is neither op nor key.
func loopBody(value []byte) ([]byte, error) {
	var e struct {
		Op   string         `json:"op"`
		Key  map[string]any `json:"key"`
		Rest map[string]any `json:",embed"`
	}
	if err := json.Unmarshal(value, &e); err != nil {
		return nil, err
	}
	return json.Marshal(e.Rest)
}
