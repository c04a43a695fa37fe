package ops

import (
	"context"
	"errors"
	"log/slog"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/connector/replay"
)

// ErrNoDeadLetters says that the configuration names no dead-letter topic.
var ErrNoDeadLetters = errors.New("dlq.topic: is not configured, so there are no dead letters")

// DeadLetterState is whether a dead letter was replayed.
type DeadLetterState string

// The states: not replayed, perhaps sent by a run that did not end, replayed.
const (
	DeadLetterOpen  DeadLetterState = "open"
	DeadLetterTried DeadLetterState = "tried"
	DeadLetterDone  DeadLetterState = "done"
)

// DeadLetters calls each for the dead letters of the configuration's connector, as
// they lie in the dead-letter topic now, and returns how many records of it are
// none of them. An error of each ends it.
func DeadLetters(ctx context.Context, cfg *config.Config, log *slog.Logger,
	each func(*deadletter.Received, DeadLetterState) error,
) (foreign int, err error) {
	if cfg.DLQ.Topic == "" {
		return 0, ErrNoDeadLetters
	}
	reader, err := kafka.NewReader(build.KafkaConnection(cfg.Kafka, log))
	if err != nil {
		return 0, err
	}
	defer reader.Close()
	spans, err := reader.Spans(ctx, cfg.DLQ.Topic)
	if err != nil {
		return 0, err
	}
	marks, err := replay.LoadMarks(ctx, reader, cfg.DLQ.Topic, replay.MarksPrefix(cfg.Kafka.Group), spans, log)
	if err != nil {
		return 0, err
	}
	err = replay.DeadLetters(ctx, reader, cfg.DLQ.Topic, spans, func(_ *deadletter.Record, l *deadletter.Received) error {
		if l == nil || l.Connector != cfg.Kafka.Group {
			foreign++
			return nil
		}
		state := DeadLetterOpen
		switch {
		case marks.Done(l.Partition, l.Offset):
			state = DeadLetterDone
		case marks.Tried(l.Partition, l.Offset):
			state = DeadLetterTried
		}
		return each(l, state)
	})
	return foreign, err
}
