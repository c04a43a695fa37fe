package ops

import (
	"context"
	"log/slog"
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

// ListOptions say which dead letters are listed or counted.
type ListOptions struct {
	Match func(*deadletter.Received) bool
	All   bool // also those that have ended
	// Progress is told how many records there are, and how many of them have been read.
	Progress func(read, of int64)
	Log      *slog.Logger
}

// ListDeadLetters counts the configuration's dead letters, or lists them where counts is nil.
// It returns how many records of the topic are none of them.
func ListDeadLetters(ctx context.Context, cfg *config.Config, o ListOptions, list *deadletter.List, counts *deadletter.Counts) (foreign int, err error) {
	return deadLetters(ctx, cfg, o.Log, o.Progress, func(l *letter) error {
		if l.state.Ended() && !o.All || !o.Match(l.Received) {
			return nil
		}
		one := deadletter.NewEntry(l.Received, l.state, l.discard, list.Values)
		if counts != nil {
			counts.Add(one)
			return nil
		}
		if !list.Next() {
			return nil
		}
		var err error
		if one.EndedBy, err = l.endedBy(ctx); err != nil {
			return err
		}
		return list.Add(one, l.Record)
	})
}

// letter is a dead letter with what became of it.
type letter struct {
	*deadletter.Received
	state   deadletter.State
	discard string // why it was discarded
	ends    *ends
}

// deadLetters calls each for the dead letters of the configuration's connector, as
// they lie in the dead-letter topic now, and returns how many records of it are
// none of them. progress is told how many records there are, and how many of them have
// been read. An error of each ends it.
func deadLetters(ctx context.Context, cfg *config.Config, log *slog.Logger, progress func(read, of int64), each func(*letter) error) (foreign int, err error) {
	if cfg.DLQ.Topic == "" {
		return 0, ErrNoDeadLetters
	}
	reader, err := cluster.OpenReader(ctx, build.KafkaConnection(cfg.Kafka, log))
	if err != nil {
		return 0, err
	}
	defer reader.Close()
	marks, err := replay.LoadMarks(ctx, reader, cfg.DLQ.Topic, cfg.Kafka.Group, log)
	if err != nil {
		return 0, err
	}
	ends, err := newEnds(ctx, cfg, reader)
	if err != nil {
		return 0, err
	}
	defer ends.close()
	var read, of int64
	for _, span := range marks.Spans() {
		of += span.To - span.From
	}
	err = marks.Letters(ctx, func(_ *deadletter.Record, l *deadletter.Received) error {
		read++
		progress(read, of)
		if l == nil {
			foreign++
			return nil
		}
		one := &letter{Received: l, ends: ends}
		one.state, one.discard = marks.State(l)
		return each(one)
	})
	return foreign, err
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
	waiting, cancel := context.WithTimeout(ctx, listPatience)
	decode, stop, err := decode.NewDecoder(waiting, cfg, rt, newRand(), slog.New(slog.DiscardHandler))
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

// endedBy is the command, of those of dlq, that ends the dead letter with the present
// configuration, with the flags that it needs; "" where it has ended.
func (l *letter) endedBy(ctx context.Context) (string, error) {
	if l.state.Ended() {
		return "", nil
	}
	command, err := l.ends.replay.EndedBy(ctx, l.Received, l.state == deadletter.StateTried)
	if err != nil && ctx.Err() == nil {
		return "replay", nil // a list needs neither the registry nor rights on topics; replay says what it lacks
	}
	return command, err
}
