package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// forwardSettings are those of the floor of the latency.
type forwardSettings struct {
	Broker  string `json:"broker"`
	Topic   string `json:"topic"`
	Service string `json:"service"`
}

// playForward is the floor of the latency: a bare consumer, and a call for each
// record as soon as it is there. It keeps no order and commits nothing.
func playForward(ctx context.Context, w *wire) error {
	var s forwardSettings
	if err := w.settings(&s); err != nil {
		return err
	}
	consumer, err := bareConsumer(s.Broker, s.Topic)
	if err != nil {
		return err
	}
	defer consumer.Close()
	// As many as the sink may have in flight: none is opened anew after a burst.
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: latencyInFlight}}
	url := s.Service + profilesPath(entity, table)
	var done atomic.Int64
	return w.serve(ctx, answer{}, done.Load, func(ctx context.Context) error {
		err := forward(ctx, consumer, func(ctx context.Context, value []byte) error {
			defer done.Add(1)
			return plainCall(ctx, client, url, value)
		})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the bench has seen enough
		}
		return err
	})
}

// forward calls for each record in a goroutine of its own. It ends with ctx or the
// first error, once every call has ended.
func forward(ctx context.Context, consumer *kgo.Client, call func(ctx context.Context, value []byte) error) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var calls sync.WaitGroup
	defer calls.Wait()
	for ctx.Err() == nil {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil && ctx.Err() == nil {
			return fmt.Errorf("fetch: %w", err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			calls.Go(func() {
				if err := call(ctx, r.Value); err != nil {
					fail(err)
				}
			})
		})
	}
	return context.Cause(ctx)
}
