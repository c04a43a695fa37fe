package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr/srfake"
)

// partitions of every topic.
const partitions = 12

// bench is where everything is measured: a broker, a schema registry, and what asks them.
type bench struct {
	dir      string
	profile  string // directory of the sink's profiles; empty: none
	broker   string // address
	backlog  *endless
	registry *srfake.Registry
	admin    *kadm.Client
	receipts bool           // sinks produce receipts
	sinks    int            // so far, each in a group of its own
	cleanups []func() error // of what was started
}

func open(dir, profile string) *bench {
	cluster := must(kfake.NewCluster(kfake.NumBrokers(1)))
	b := &bench{dir: dir, profile: profile, broker: cluster.ListenAddrs()[0], backlog: newEndless(cluster), registry: srfake.New()}
	for _, f := range registered {
		b.registry.SeedSchema(string(f)+"-value", 1, visitID(f), visitSchema(f))
	}
	b.admin = must(kadm.NewOptClient(kgo.SeedBrokers(b.broker)))
	b.cleanup(func() error {
		b.admin.Close()
		b.registry.Close()
		cluster.Close()
		return nil
	})
	return b
}

func (b *bench) cleanup(f func() error) { b.cleanups = append(b.cleanups, f) }

// close ends what was started after the first so many, the last first.
func (b *bench) close(first int) (err error) {
	for _, f := range slices.Backward(b.cleanups[first:]) {
		err = errors.Join(err, f())
	}
	b.cleanups = b.cleanups[:first]
	return err
}

// apart does something and ends what it has started.
func apart[T any](b *bench, do func() T) T {
	first := len(b.cleanups)
	result := do()
	try(b.close(first))
	return result
}

// fill makes a topic of these events until apart ends: the broker keeps everything in
// memory.
func (b *bench) fill(ctx context.Context, topic string, e events) {
	must(b.admin.CreateTopic(ctx, partitions, 1, nil, topic))
	b.cleanup(func() error {
		_, err := b.admin.DeleteTopics(context.WithoutCancel(ctx), topic)
		return err
	})
	try(b.produce(ctx, topic, e))
}

// produce adds events to a topic.
func (b *bench) produce(ctx context.Context, topic string, e events) error {
	opts := []kgo.Opt{kgo.SeedBrokers(b.broker), kgo.DefaultProduceTopic(topic)}
	if e.perSecond > 0 {
		opts = append(opts, kgo.ProducerLinger(0)) // each at once
	}
	producer, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer producer.Close()
	promise := kgo.AbortingFirstErrPromise(producer)
	began := time.Now()
	for i := 0; i < e.n && ctx.Err() == nil; i++ {
		if e.perSecond > 0 {
			time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(e.perSecond))))
		}
		key, value := e.next(i)
		producer.Produce(ctx, &kgo.Record{Key: key, Value: value}, promise.Promise())
	}
	if err := errors.Join(promise.Err(), ctx.Err()); err != nil {
		return fmt.Errorf("produce to %s: %w", topic, err)
	}
	return nil
}

// committed is the sum of a group's committed offsets over all partitions of the
// topic: how many of its records are confirmed.
func (b *bench) committed(group, topic string) counter {
	return func(ctx context.Context) (sum int64) {
		offsets, err := b.admin.FetchOffsets(ctx, group)
		if errors.Is(err, kerr.GroupIDNotFound) {
			return 0 // it has no member yet
		}
		try(err)
		offsets.Each(func(o kadm.OffsetResponse) {
			if o.Topic == topic {
				sum += max(o.At, 0)
			}
		})
		return sum
	}
}
