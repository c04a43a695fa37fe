package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	readyTimeout  = 4 * time.Minute        // formatting and starting take 5 s on two idle cores
	readyInterval = 100 * time.Millisecond // between two questions
)

// awaitReady returns once the broker lists itself among the brokers that work.
// That is later than an open port: before it, no topic has a leader.
func (b *Broker) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("not ready after %s", readyTimeout))
	defer cancel()
	kafka, err := kgo.NewClient(
		kgo.SeedBrokers(b.addr),
		kgo.MetadataMinAge(readyInterval),
		kgo.RetryTimeout(readyInterval), // this loop retries, and looks at the container between tries
	)
	if err != nil {
		return err
	}
	defer kafka.Close()
	admin := kadm.NewClient(kafka)
	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	for {
		brokers, err := admin.ListBrokers(ctx)
		if err == nil && len(brokers) > 0 {
			return nil
		}
		state, stateErr := b.container.State(ctx)
		if stateErr == nil && !state.Running {
			return fmt.Errorf("the broker exited with code %d", state.ExitCode)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}
