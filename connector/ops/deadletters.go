package ops

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/decode"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router/check"
)

// DeadLetterState is whether a dead letter has ended.
type DeadLetterState string

// The states: not replayed, perhaps sent by a replay that did not end, replayed, discarded.
const (
	DeadLetterOpen      DeadLetterState = "open"
	DeadLetterTried     DeadLetterState = "tried"
	DeadLetterDone      DeadLetterState = "done"
	DeadLetterDiscarded DeadLetterState = "discarded"
)

// Ended reports whether nothing is left to do.
func (s DeadLetterState) Ended() bool { return s == DeadLetterDone || s == DeadLetterDiscarded }

// DeadLetter is a dead letter with what became of it.
type DeadLetter struct {
	*deadletter.Received
	State   DeadLetterState
	Discard string // why it was discarded
	ends    *ends
}

// DeadLetters calls each for the dead letters of the configuration's connector, as
// they lie in the dead-letter topic now, and returns how many records of it are
// none of them. progress is told how many records there are, and how many of them have
// been read. An error of each ends it.
func DeadLetters(ctx context.Context, cfg *config.Config, log *slog.Logger, progress func(read, of int64), each func(*DeadLetter) error) (foreign int, err error) {
	if cfg.DLQ.Topic == "" {
		return 0, ErrNoDeadLetters
	}
	reader, err := cluster.NewReader(build.KafkaConnection(cfg.Kafka, log))
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
	ends, err := newEnds(ctx, cfg, reader)
	if err != nil {
		return 0, err
	}
	defer ends.close()
	var read, of int64
	for _, span := range spans {
		of += span.To - span.From
	}
	err = replay.DeadLetters(ctx, reader, cfg.DLQ.Topic, spans, func(_ *deadletter.Record, l *deadletter.Received) error {
		read++
		progress(read, of)
		if l == nil || l.Connector != cfg.Kafka.Group {
			foreign++
			return nil
		}
		one := &DeadLetter{Received: l, ends: ends}
		one.State, one.Discard = stateOf(l, marks)
		return each(one)
	})
	return foreign, err
}

// stateOf is whether the dead letter has ended, and why it was discarded.
func stateOf(l *deadletter.Received, marks *replay.Marks) (state DeadLetterState, discard string) {
	discard, discarded := marks.Discarded(l.Partition, l.Offset)
	switch {
	case discarded:
		return DeadLetterDiscarded, discard
	case marks.Done(l.Partition, l.Offset):
		return DeadLetterDone, ""
	case marks.Tried(l.Partition, l.Offset):
		return DeadLetterTried, ""
	}
	return DeadLetterOpen, ""
}

// EndedBy is the command, of those of dlq, that ends the dead letter with the present
// configuration, with the flags that it needs; "" where it has ended.
func (d *DeadLetter) EndedBy(ctx context.Context) (string, error) {
	if d.State.Ended() {
		return "", nil
	}
	return d.ends.of(ctx, d)
}

// MaxAttempts is how many times a dead letter may fail again before a replay leaves it.
const MaxAttempts = 5

// ends tells what ends dead letters.
type ends struct {
	replay replay.Replay
	close  func()
}

// listPatience is how long a list waits for the schema registry in all.
const listPatience = 10 * time.Second

func newEnds(ctx context.Context, cfg *config.Config, reader *cluster.Reader) (*ends, error) {
	rt, err := first(check.Compile(cfg.Mappings))
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	waiting, cancel := context.WithTimeout(ctx, listPatience)
	decode, stop, err := decode.NewDecoder(waiting, cfg, rt, random, slog.New(slog.DiscardHandler))
	if err != nil {
		cancel()
		return nil, err
	}
	return &ends{
		replay: replay.Replay{
			Config: replay.Config{MaxAttempts: MaxAttempts}, Reader: reader, Router: rt, Decode: decode, Rejected: writes.RejectReason,
		},
		close: func() { cancel(); stop() },
	}, nil
}

func (e *ends) of(ctx context.Context, d *DeadLetter) (string, error) {
	command, err := e.replay.EndedBy(ctx, d.Received, d.State == DeadLetterTried)
	if err != nil && ctx.Err() == nil {
		return "replay", nil // a list needs neither the registry nor rights on topics; replay says what it lacks
	}
	return command, err
}
