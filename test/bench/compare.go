package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/schemas"
)

// rival is another way to do the immediate lane's job.
type rival struct {
	name  string
	start func(ctx context.Context, f *field, topic, group, service string) (*child, error)
	calls int // of a run
}

// compare has the same topic brought to the same service, which takes 5 ms, by
// the sink, by loops that forward each event and do nothing else, and by Apache
// Camel, as a sink that needs no code but a route.
func compare(ctx context.Context, f *field, _ bool) (found []finding, err error) {
	const latency, topic, all = 5 * time.Millisecond, "bench-comparison", 100_000
	// With gzip, as kafkajs reads nothing else by itself.
	if err := f.fill(ctx, topic, all, distinct(), kgo.ProducerBatchCompression(kgo.GzipCompression())); err != nil {
		return nil, err
	}
	plain := func(perPartition bool) func(context.Context, *field, string, string, string) (*child, error) {
		return func(ctx context.Context, f *field, topic, group, service string) (*child, error) {
			return start(ctx, "plain", plainSettings{f.broker.address, topic, group, service, perPartition})
		}
	}
	rivals := []rival{
		{"feedsink, 64 in flight, order per key", sinkAsRival, 40_000},
		{"Go loop, one call after the other", plain(false), 2000},
		{"Go loop, a goroutine for each of 12 partitions", plain(true), 10_000},
		{"Node with kafkajs, 12 partitions at once", node, 10_000},
		{"Apache Camel, a consumer for each of 12 partitions", camel(0), 80_000},
		{"Apache Camel, 64 in flight, order and offsets not kept", camel(64), 80_000},
	}
	list := rivalry{unit: "calls", cpuDigits: 0, rateDigits: 1}
	for _, r := range rivals {
		s, err := f.against(ctx, r, topic, latency)
		if err := list.add(r.name, s, err); err != nil {
			return nil, err
		}
	}
	return list.found, nil
}

// rivalry compares those that do the same job with the first of them, the sink.
type rivalry struct {
	unit                  string // what is counted
	cpuDigits, rateDigits int    // behind the point, of CPU and of the ratio of rates
	sink                  sample
	found                 []finding
}

// add takes what a rival's run came to. One that cannot be had here is no error.
func (c *rivalry) add(name string, s sample, err error) error {
	if errors.Is(err, errNotHere) {
		c.found = append(c.found, note(name, "not measured: %v", err))
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	told := fmt.Sprintf("%.0f %s/s, %.*f CPU-s per million, peak RSS %.0f MB", s.rate, c.unit, c.cpuDigits, s.cpu, float64(s.rss)/1e6)
	switch {
	case len(c.found) == 0:
		c.sink = s
	case c.sink.bytesPerCall > 0 && math.Abs(s.bytesPerCall/c.sink.bytesPerCall-1) > 0.01:
		return fmt.Errorf("%s: its calls have %.1f bytes, the sink's %.1f: they do not do the same", name, s.bytesPerCall, c.sink.bytesPerCall)
	default:
		told += fmt.Sprintf(": the sink has %.*f times its rate, %.2f times its CPU", c.rateDigits, c.sink.rate/s.rate, c.sink.cpu/s.cpu)
	}
	c.found = append(c.found, note(name, "%s", told))
	return nil
}

func sinkAsRival(ctx context.Context, f *field, topic, _, service string) (*child, error) {
	c, _, err := f.startSink(ctx, sinkFile{topic: topic, service: service, start: 64, highest: 64, mapping: immediateMapping}, schemas.Immediate)
	return c, err
}

// against measures one of them, from a tenth of its calls to 95 %.
func (f *field) against(ctx context.Context, r rival, topic string, latency time.Duration) (s sample, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %v", limit))
	defer cancel()
	service, err := start(ctx, "service", serviceSettings{Latency: latency})
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, service.stop()) }()
	f.runs++
	c, err := r.start(ctx, f, topic, fmt.Sprintf("rival-%d", f.runs), service.address)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if s, err = window(ctx, c, calls{service.address}, int64(warm*float64(r.calls)), until(int64(cool*float64(r.calls)))); err != nil {
		return s, err
	}
	all, err := awaitCalls(ctx, service.address, 0)
	s.bytesPerCall = float64(all.Bytes) / float64(all.Calls)
	return s, err
}
