package ops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/decode"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
)

// ReplayOptions are what a replay is asked to do.
type ReplayOptions struct {
	Filter       replay.Filter
	MaxAttempts  int
	DryRun       bool
	AsCalls      bool
	AssumeNewest bool
	GiveUp       time.Duration
	Rate         config.Rate // of calls; none: the service's as configured
	Progress     func(replay.Report)
	Log          *slog.Logger
	Rand         *rand.Rand // chance for jitter; nil: seeded from the system
}

// roundDeadLetters is how many dead letters are sent before the rows they are about are
// looked at again: with a rate, as many as ten seconds allow.
const (
	roundDeadLetters = 500
	roundTime        = 10 * time.Second
)

// replaySession is how soon another replay may go on where a killed one was.
const replaySession = 10 * time.Second

// lateCalls is how many times service.timeout after it was made a call may still
// be applied whose outcome is unknown.
const lateCalls = 3

// Replay tries dead letters again, beside the running sink.
func Replay(ctx context.Context, cfg *config.Config, o ReplayOptions) (replay.Report, error) {
	if cfg.DLQ.Topic == "" {
		return replay.Report{}, ErrNoDeadLetters
	}
	rt, problems := router.Compile(cfg.Mappings)
	if len(problems) > 0 {
		return replay.Report{}, fmt.Errorf("%s: %s", problems[0].Path, problems[0].Message)
	}
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	reader, err := kafka.NewReader(build.KafkaConnection(cfg.Kafka, o.Log))
	if err != nil {
		return replay.Report{}, err
	}
	defer reader.Close()
	client, err := build.NewService(cfg.Service)
	if err != nil {
		return replay.Report{}, err
	}
	defer client.Close()
	post, err := build.NewDeadLetters(cfg, o.Log)
	if err != nil {
		return replay.Report{}, err
	}
	defer post.Close()
	decode, stopDecoding, err := decode.NewDecoder(ctx, cfg, rt, o.Rand, o.Log)
	if err != nil {
		return replay.Report{}, err
	}
	defer stopDecoding()
	run := &replay.Replay{
		Config: replay.Config{
			Topic: cfg.DLQ.Topic, Connector: cfg.Kafka.Group, Filter: o.Filter, MaxAttempts: o.MaxAttempts, DryRun: o.DryRun,
			AsCalls: o.AsCalls, AssumeNewest: o.AssumeNewest, GiveUp: o.GiveUp, Round: roundDeadLetters, Progress: o.Progress,
			Late: lateCalls * cfg.Service.Timeout,
		},
		Reader: reader, Post: post, Router: rt, Decode: decode,
		Rejected: writes.RejectReason, Refused: writes.RefusalReason, Wait: retry.Sleep, Log: o.Log,
	}
	if !o.DryRun {
		held, release, err := hold(ctx, reader, cfg, o.Rand)
		if err != nil {
			return replay.Report{}, err
		}
		defer release()
		ctx = held
	}
	// Its calls end before another replay may run, and with the hold.
	service, stop := startReplayService(ctx, cfg, rt.Mappings(), client, &o)
	defer stop()
	run.Service = service
	if r := o.Rate; r.Calls > 0 { // as startReplayService has it
		each := r.Per / time.Duration(r.Calls)
		run.Round = min(roundDeadLetters, max(1, int(roundTime/each)))
		run.GiveUp = max(o.GiveUp, 3*each)
	}
	stopFloods(run, cfg.DLQ)
	report, err := run.Run(ctx)
	if err != nil && context.Cause(ctx) != nil {
		err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	return report, err
}

// hold keeps other replays away. The result ends if that fails for a while: then
// two could send the same dead letters, and forget each other's marks.
func hold(ctx context.Context, reader *kafka.Reader, cfg *config.Config, rnd *rand.Rand) (held context.Context, release func(), err error) {
	lost, leave, err := reader.Hold(ctx, replay.MarksPrefix(cfg.Kafka.Group), cfg.DLQ.Topic, replaySession, rnd)
	if errors.Is(err, kafka.ErrHeld) {
		return nil, nil, fmt.Errorf("another replay of this connector is running; wait for its end: %w", err)
	}
	if err != nil {
		return nil, nil, err
	}
	held, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-lost:
			cancel(errors.New("the brokers lost sight of this replay, so that another may run; run again to go on"))
		case <-held.Done():
		}
	})
	return held, func() {
		cancel(nil)
		watching.Wait()
		leave()
	}, nil
}
