package main

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/twmb/franz-go/pkg/kgo"
)

// plainSettings are those of the loop that a team would write by hand.
type plainSettings struct {
	Broker       string `json:"broker"`
	Topic        string `json:"topic"`
	Group        string `json:"group"`
	Service      string `json:"service"`
	PerPartition bool   `json:"perPartition"` // a goroutine for each partition of a poll; else one call after the other
}

// plainEvent is what such a loop looks at.
type plainEvent struct {
	Op   string         `json:"op"`
	Key  map[string]any `json:"key"`
	Rest map[string]any `json:",embed"`
}

// playPlain polls, makes a call for each record, and commits what has been
// answered. It keeps the order of a partition, as the sink does that of a key, and
// does nothing else: no retries, dead letters, checks or metrics.
func playPlain(ctx context.Context, w *wire) error {
	var s plainSettings
	if err := w.settings(&s); err != nil {
		return err
	}
	consumer, err := kgo.NewClient(kgo.SeedBrokers(s.Broker), kgo.ConsumeTopics(s.Topic), kgo.ConsumerGroup(s.Group),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer consumer.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: partitions}}
	url := s.Service + profilesPath(entity, table)
	return w.serve(ctx, answer{}, nil, func(ctx context.Context) error {
		l := &plainLoop{consumer: consumer, call: func(value []byte) error { return plainCall(ctx, client, url, value) }}
		err := l.run(ctx, s.PerPartition)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the bench has seen enough
		}
		return err
	})
}

type plainLoop struct {
	consumer *kgo.Client
	call     func(value []byte) error
}

// run ends with ctx or the first error.
func (l *plainLoop) run(ctx context.Context, perPartition bool) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var workers sync.WaitGroup
	defer workers.Wait()
	queues := map[int32]chan []*kgo.Record{}
	defer func() {
		for _, queue := range queues {
			close(queue)
		}
	}()
	for ctx.Err() == nil {
		fetches := l.consumer.PollFetches(ctx)
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			if !perPartition {
				if err := l.work(ctx, p.Records); err != nil {
					fail(err)
				}
				return
			}
			queue, there := queues[p.Partition]
			if !there {
				queue = make(chan []*kgo.Record, 1)
				queues[p.Partition] = queue
				workers.Go(func() {
					for records := range queue {
						if err := l.work(ctx, records); err != nil {
							fail(err)
						}
					}
				})
			}
			select {
			case queue <- p.Records:
			case <-ctx.Done():
			}
		})
	}
	return context.Cause(ctx)
}

// work makes the calls of some records of a partition and commits them, a
// hundred at a time.
func (l *plainLoop) work(ctx context.Context, records []*kgo.Record) error {
	for some := range slices.Chunk(records, 100) {
		for _, r := range some {
			if err := l.call(r.Value); err != nil {
				return err
			}
		}
		if err := l.consumer.CommitRecords(ctx, some...); err != nil {
			return err
		}
	}
	return nil
}

func plainCall(ctx context.Context, client *http.Client, url string, value []byte) error {
	body, err := plainBody(value)
	if err != nil {
		return err
	}
	return post(ctx, client, url, body)
}

// plainBody is what such a loop sends of an event: all that is neither op nor key.
func plainBody(value []byte) ([]byte, error) {
	var e plainEvent
	if err := json.Unmarshal(value, &e); err != nil {
		return nil, err
	}
	return json.Marshal(e.Rest)
}
