package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// load produces events of recurring keys evenly until ctx ends, as many for each
// lane, and counts them.
func (f *field) load(ctx context.Context, topic string, produced *atomic.Int64) error {
	producer, err := kgo.NewClient(kgo.SeedBrokers(f.broker.address), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer producer.Close()
	var failure atomic.Pointer[error]
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	for i := 0; failure.Load() == nil; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for ; i < int(time.Since(began).Seconds()*2*soakRate); i++ {
			key, value := numbered(i%soakKeys, i)
			producer.Produce(ctx, &kgo.Record{Key: key, Value: value}, func(_ *kgo.Record, err error) {
				if err == nil {
					produced.Add(1)
				} else if ctx.Err() == nil {
					failure.CompareAndSwap(nil, &err)
				}
			})
		}
	}
	return fmt.Errorf("produce to %s: %w", topic, *failure.Load())
}

// paced produces numbered events evenly, each of a key of its own and without
// waiting for the one before: those from first up to, not including, end. sent
// gets the moments at which they were handed to the client.
func (f *field) paced(ctx context.Context, topic string, perSecond int, sent []time.Time, first, end int) error {
	producer, err := kgo.NewClient(kgo.SeedBrokers(f.broker.address), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0))
	if err != nil {
		return err
	}
	defer producer.Close()
	var mu sync.Mutex
	var failure error
	began := time.Now()
	for i := first; i < end; i++ {
		due := began.Add(time.Duration(i-first) * time.Second / time.Duration(perSecond))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(due)):
		}
		key, value := numbered(i, i)
		sent[i] = time.Now()
		producer.Produce(ctx, &kgo.Record{Key: key, Value: value}, func(_ *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			failure = errors.Join(failure, err)
		})
	}
	if err := producer.Flush(ctx); err != nil {
		return fmt.Errorf("produce to %s: %w", topic, err)
	}
	return failure
}
