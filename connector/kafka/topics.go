package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Topic is what the cluster says about a topic.
type Topic struct {
	Partitions int
	Err        error // it does not exist, or we may not see it
}

// Topics asks the cluster about topics. The error is about the cluster as a
// whole.
func Topics(ctx context.Context, c Connection, names []string) (map[string]Topic, error) {
	opts, err := c.Options()
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	defer client.Close()
	details, err := kadm.NewClient(client).ListTopics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	topics := make(map[string]Topic, len(details))
	for name, d := range details {
		topics[name] = Topic{Partitions: len(d.Partitions), Err: d.Err}
	}
	return topics, nil
}
