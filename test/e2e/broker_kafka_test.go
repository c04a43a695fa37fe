//go:build kafka

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/feedsink/feedsink/test/kafka"
)

// broker is shared by all tests; topics and groups have names of their own.
var broker *kafka.Broker

func startBroker() (stop func(), err error) {
	ctx := context.Background()
	if broker, err = kafka.Start(ctx, kafka.Options{}); err != nil {
		return nil, err
	}
	return func() {
		if err := broker.Close(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}, nil
}

func brokers(*testing.T) []string { return []string{broker.Addr()} }
