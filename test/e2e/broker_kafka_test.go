//go:build kafka

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/test/kafka"
)

// broker is shared by all tests; topics and groups have names of their own.
var broker *kafka.Broker

// throughVariable names the environment variable that takes all tests of this
// folder through one of the broker's secured listeners, by its name.
const throughVariable = "FEEDSINK_E2E_THROUGH"

func startBroker() (stop func(), err error) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "feedsink-secrets-")
	if err != nil {
		return nil, err
	}
	if guards, err = newGuards(dir); err != nil {
		return nil, err
	}
	if broker, err = kafka.Start(ctx, kafka.Options{Secured: guards.listeners(), Files: guards.files(), Config: guards.config()}); err != nil {
		return nil, err
	}
	guards.open(broker)
	return func() {
		guards.close()
		if err := errors.Join(stopRegistry(ctx), broker.Close(ctx)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		_ = os.RemoveAll(dir)
	}, nil
}

// usual is the shared broker's plain listener, or the one that the environment
// names.
func usual(t *testing.T) access {
	name := os.Getenv(throughVariable)
	if name == "" {
		return access{brokers: []string{broker.Addr()}, own: []kgo.Opt{kgo.SeedBrokers(broker.Addr())}}
	}
	for _, s := range securities(t) {
		if s.name == name {
			return s
		}
	}
	t.Fatalf("%s: there is no listener %q", throughVariable, name)
	return access{}
}
