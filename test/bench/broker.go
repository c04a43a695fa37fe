package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// partitions of every topic.
const partitions = 12

// playBroker is the role of the broker. It has no settings; its knob is how long the
// endless topic seems.
func playBroker(ctx context.Context, w *wire) error {
	if err := w.settings(&struct{}{}); err != nil {
		return err
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return err
	}
	defer cluster.Close()
	backlog, err := newEndless(cluster)
	if err != nil {
		return err
	}
	w.set = backlog.stretch
	return w.serve(ctx, answer{Address: cluster.ListenAddrs()[0]}, nil, func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
}

// fill makes a topic of n events, each a key and a value.
func (f *field) fill(ctx context.Context, topic string, n int, next func() (key, value []byte), opts ...kgo.Opt) error {
	if _, err := f.admin.CreateTopic(ctx, partitions, 1, nil, topic); err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	return f.produce(ctx, topic, n, next, opts...)
}

// produce adds n events to a topic.
func (f *field) produce(ctx context.Context, topic string, n int, next func() (key, value []byte), opts ...kgo.Opt) error {
	producer, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(f.broker.address), kgo.DefaultProduceTopic(topic)}, opts...)...)
	if err != nil {
		return err
	}
	defer producer.Close()
	var failure atomic.Pointer[error]
	for range n {
		key, value := next()
		producer.Produce(ctx, &kgo.Record{Key: key, Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				failure.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := producer.Flush(ctx); err != nil {
		return fmt.Errorf("fill %s: %w", topic, err)
	}
	if err := failure.Load(); err != nil {
		return fmt.Errorf("fill %s: %w", topic, *err)
	}
	return nil
}

// committed is the sum of a group's committed offsets over all partitions of the
// topic: how many of its records are confirmed.
func committed(ctx context.Context, admin *kadm.Client, group, topic string) (int64, error) {
	offsets, err := admin.FetchOffsets(ctx, group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return 0, nil // nobody has joined it yet
	}
	if err != nil {
		return 0, fmt.Errorf("fetch offsets of %s: %w", group, err)
	}
	var sum int64
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Topic == topic {
			sum += max(o.At, 0)
		}
	})
	return sum, nil
}
