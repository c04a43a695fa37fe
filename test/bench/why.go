package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/ops"
)

// whyGoal is how long `feedsink why` may take over ten million records.
const whyGoal = 10 * time.Second

// why asks what became of the records of a key, in all partitions of a long topic.
func why(ctx context.Context, b *bench, o options) []finding {
	length := int64(10_000_000)
	if o.quick {
		length /= 10
	}
	try(b.produce(ctx, endlessTopic, recurring(1_000_000, 500_000, canonical())))
	b.backlog.stretch(length)
	config := b.configure(sinkConfig{Topic: endlessTopic, Service: "http://localhost", Start: 1, Highest: 1})
	runs, counted := repeat(b, repetitions(o.quick), func(int) time.Duration {
		began := time.Now()
		c := b.start(ctx, "why", settings{Config: config})
		ended, _ := c.reach(ctx, 1, c.done)
		return ended.Sub(began)
	})
	took := over(runs, time.Duration.Seconds)
	return []finding{
		check(took.median() <= whyGoal.Seconds(), fmt.Sprintf("a key's records among %d million, all partitions read", length/1e6), fmt.Sprintf("≤ %.0f s", whyGoal.Seconds()), "%s", took.text(1, " s")),
		counted.finding(),
	}
}

// newWhy is the role of `feedsink why`.
func newWhy(s settings) *role {
	var done atomic.Int64
	return &role{done: done.Load, run: func(ctx context.Context) error {
		report, err := ops.Why(ctx, must(config.Load(s.Config, os.LookupEnv)), ops.WhyOptions{
			Name: "customers", Keys: []string{string(customer(7))}, Progress: func(int64, int64) {}, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return err
		}
		if len(report.Keys) != 1 || len(report.Keys[0].Records) == 0 {
			return fmt.Errorf("no record of the key was found")
		}
		done.Store(1)
		return nil
	}}
}
