package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/feedsink/feedsink/schemas"
)

// field is where everything is measured: a broker, and what asks it.
type field struct {
	dir     string
	profile string
	broker  *child
	schemas *srfake.Registry
	client  *kgo.Client
	admin   *kadm.Client
	runs    int // of the sink so far
}

// limit bounds one run of one side.
const limit = 3 * time.Minute

func openField(ctx context.Context, dir, profile string) (*field, error) {
	broker, err := start(ctx, "broker", struct{}{})
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.address))
	if err != nil {
		return nil, errors.Join(err, broker.stop())
	}
	registry := srfake.New()
	registry.SeedSchema("visits-value", 1, visitID, visitSchema(schemas.FormatAvro))
	return &field{dir: dir, profile: profile, broker: broker, schemas: registry, client: client, admin: kadm.NewClient(client)}, nil
}

func (f *field) close() error {
	f.client.Close()
	f.schemas.Close()
	return f.broker.stop()
}

// measure runs both sides of a line as often, alternating which goes first.
func (f *field) measure(ctx context.Context, l line, s series) (result, error) {
	topic := "bench-" + strings.ToLower(strings.Join(strings.FieldsFunc(l.name, notAlphanumeric), "-"))
	var err error
	switch {
	case l.decode != nil:
	case l.batch != nil:
		of := event
		if l.batch.format == schemas.FormatAvro {
			of = avroVisits()
		}
		err = f.fill(ctx, topic, l.batch.events, recurring(l.batch.keys, of))
	default:
		err = f.fill(ctx, topic, l.calling.calls, distinct())
	}
	if err != nil {
		return result{}, err
	}
	pairs, counted, err := repeat(s, func(i int) (pair, error) { return f.pair(ctx, &l, topic, i) })
	if err != nil {
		return result{}, err
	}
	if l.decode == nil {
		_, err = f.admin.DeleteTopics(ctx, topic) // the broker keeps everything in memory
	}
	return newResult(l, pairs, counted), err
}

// pair runs both sides of a line once.
func (f *field) pair(ctx context.Context, l *line, topic string, i int) (p pair, err error) {
	run := func(s side, to *sample) func() error {
		return func() (err error) {
			*to, err = s.run(ctx, l, topic)
			return err
		}
	}
	if err := alternate(i, run(f.floor, &p.floor), run(f.sink, &p.sink)); err != nil {
		return p, err
	}
	if l.calling != nil && p.sink.bytesPerCall != p.floor.bytesPerCall {
		return p, fmt.Errorf("the sink's calls have %v bytes, the floor's %v: they do not do the same",
			p.sink.bytesPerCall, p.floor.bytesPerCall)
	}
	return p, nil
}

func notAlphanumeric(r rune) bool {
	return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// side measures one of the two that are compared.
type side func(ctx context.Context, l *line, topic string) (sample, error)

func (s side) run(ctx context.Context, l *line, topic string) (sample, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %v", limit))
	defer cancel()
	return s(ctx, l, topic)
}

// floor runs the floor of a line once.
func (f *field) floor(ctx context.Context, l *line, topic string) (s sample, err error) {
	if l.decode != nil {
		return l.decode.measure(ctx, true)
	}
	if l.batch != nil {
		c, err := start(ctx, "transform", transformSettings{f.broker.address, topic, l.batch.format})
		if err != nil {
			return s, err
		}
		from, to := warm*float64(l.batch.events), cool*float64(l.batch.events)
		s, err = window(ctx, c, done{c}, int64(from), until(int64(to)))
		return s, errors.Join(err, c.stop())
	}
	service, err := start(ctx, "service", serviceSettings{Latency: l.calling.latency})
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, service.stop()) }()
	c, err := start(ctx, "calls", callsSettings{service.address, l.calling.floorWorkers, l.calling.floorCalls})
	if err != nil {
		return s, err
	}
	s, err = f.calls(ctx, c, service.address, l.calling.floorCalls)
	return s, errors.Join(err, c.stop())
}

// sink runs the sink once.
func (f *field) sink(ctx context.Context, l *line, topic string) (s sample, err error) {
	if l.decode != nil {
		return l.decode.measure(ctx, false)
	}
	file, lane, latency := sinkFile{topic: topic, start: 1, highest: 1}, schemas.Batch, time.Duration(0)
	if l.calling != nil {
		lane, latency = schemas.Immediate, l.calling.latency
		file.start, file.highest, file.mapping = l.calling.inFlight, l.calling.inFlight, immediateMapping
	} else {
		file.mapping, file.registry = l.batch.mapping(), f.schemas.URL()
	}
	service, err := start(ctx, "service", serviceSettings{Latency: latency})
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, service.stop()) }()
	file.service = service.address
	c, group, err := f.startSink(ctx, file, lane)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	commits := commits{f.admin, group + "-" + lane.String(), topic}
	if l.batch != nil {
		return window(ctx, c, commits, 1, after(int64(l.batch.measure)))
	}
	if s, err = f.calls(ctx, c, service.address, l.calling.calls); err != nil {
		return s, err
	}
	_, err = commits.reach(ctx, int64(l.calling.calls))
	return s, err
}

// calls measures whoever calls the service so many times.
func (f *field) calls(ctx context.Context, c *child, service string, n int) (sample, error) {
	s, err := window(ctx, c, calls{service}, int64(warm*float64(n)), until(int64(cool*float64(n))))
	if err != nil {
		return s, err
	}
	all, err := awaitCalls(ctx, service, int64(n))
	s.bytesPerCall = float64(all.Bytes) / float64(all.Calls)
	return s, err
}
