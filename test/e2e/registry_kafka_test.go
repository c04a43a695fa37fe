//go:build kafka

package e2e_test

import (
	"context"
	"sync"
	"testing"

	"github.com/feedsink/feedsink/test/kafka"
)

// registry is shared by the tests that want one; subjects have names of their own.
var registry struct {
	once    sync.Once
	running *kafka.Registry
	err     error
}

// schemaRegistry is a real registry, started for the first test that asks.
func schemaRegistry(t *testing.T) (url string) {
	t.Helper()
	registry.once.Do(func() { registry.running, registry.err = kafka.StartRegistry(context.Background()) })
	if registry.err != nil {
		t.Fatal(registry.err)
	}
	return registry.running.URL()
}

func stopRegistry(ctx context.Context) error {
	if registry.running == nil {
		return nil
	}
	return registry.running.Close(ctx)
}
