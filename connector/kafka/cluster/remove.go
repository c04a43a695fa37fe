package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Cleanup is how a topic loses records.
type Cleanup struct {
	Compacted bool // a newer record of a key removes those before it
	Deleted   bool // what is old goes
	// Retention is how old; 0: there is no limit, or only one of size.
	Retention time.Duration
}

// Cleanup asks how a topic loses records.
func (r *Reader) Cleanup(ctx context.Context, topic string) (c Cleanup, err error) {
	all, err := r.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return c, failure("configuration of topic %s: %w", topic, err)
	}
	of, err := all.On(topic, nil)
	if err == nil {
		err = of.Err
	}
	if err != nil {
		return c, failure("configuration of topic %s: %w", topic, err)
	}
	values := map[string]string{"cleanup.policy": "delete"}
	for _, v := range of.Configs {
		if v.Value != nil {
			values[v.Key] = *v.Value
		}
	}
	for policy := range strings.SplitSeq(values["cleanup.policy"], ",") {
		switch strings.TrimSpace(policy) {
		case "compact":
			c.Compacted = true
		case "delete":
			c.Deleted = true
		}
	}
	if ms, err := strconv.ParseInt(values["retention.ms"], 10, 64); err == nil && ms > 0 && c.Deleted {
		c.Retention = time.Duration(min(ms, int64(1<<63-1)/int64(time.Millisecond))) * time.Millisecond
	}
	return c, nil
}

// DeleteBefore removes the records of a partition below an offset. A topic that is
// compacted only does not allow it.
func (r *Reader) DeleteBefore(ctx context.Context, p TopicPartition, offset int64) error {
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: p.Topic, Partition: p.Partition, At: offset})
	answers, err := r.admin.DeleteRecords(ctx, offsets)
	if err == nil {
		answer, ok := answers.Lookup(p.Topic, p.Partition)
		if err = answer.Err; err == nil && !ok {
			err = errors.New("the brokers did not answer")
		}
	}
	if err != nil {
		return failure("delete records of %s before %d: %w", p, offset, err)
	}
	return nil
}

// Tombstone writes a record without a value, so that compaction removes the records of
// the key that come before it in the partition.
func (r *Reader) Tombstone(ctx context.Context, p TopicPartition, key []byte) error {
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordDeliveryTimeout(offsetsTimeout),
	}, r.opts...)...)
	if err != nil {
		return fmt.Errorf("kafka client: %w", err)
	}
	defer client.Close()
	record := &kgo.Record{Topic: p.Topic, Partition: p.Partition, Key: key}
	if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
		return failure("write a tombstone to %s: %w", p, err)
	}
	return nil
}
