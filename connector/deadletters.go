package connector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/feed"
	"github.com/feedsink/feedsink/connector/immediate"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/connector/source"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// ErrNoDeadLetters says that the configuration names no dead-letter topic.
var ErrNoDeadLetters = errors.New("dlq.topic: is not configured, so there are no dead letters")

// LetterState is whether a dead letter was replayed.
type LetterState string

// The states: not replayed, perhaps sent by a run that did not end, replayed.
const (
	LetterOpen  LetterState = "open"
	LetterTried LetterState = "tried"
	LetterDone  LetterState = "done"
)

// DeadLetters calls each for the letters of the configuration's connector, as
// they lie in the dead-letter topic now, and returns how many records of it are
// none of them. An error of each ends it.
func DeadLetters(ctx context.Context, cfg *config.Config, log *slog.Logger,
	each func(*deadletter.Received, LetterState) error,
) (foreign int, err error) {
	if cfg.DLQ.Topic == "" {
		return 0, ErrNoDeadLetters
	}
	reader, err := source.NewReader(connection(cfg.Kafka))
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
	err = replay.Letters(ctx, reader, cfg.DLQ.Topic, spans, func(_ *deadletter.Record, l *deadletter.Received) error {
		if l == nil || l.Connector != cfg.Kafka.Group {
			foreign++
			return nil
		}
		state := LetterOpen
		switch {
		case marks.Done(l.Partition, l.Offset):
			state = LetterDone
		case marks.Tried(l.Partition, l.Offset):
			state = LetterTried
		}
		return each(l, state)
	})
	return foreign, err
}

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

// roundLetters is how many letters are sent before the rows they are about are
// looked at again: with a rate, as many as ten seconds allow.
const (
	roundLetters = 500
	roundTime    = 10 * time.Second
)

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
	reader, err := source.NewReader(connection(cfg.Kafka))
	if err != nil {
		return replay.Report{}, err
	}
	defer reader.Close()
	client, err := NewClient(cfg.Service)
	if err != nil {
		return replay.Report{}, err
	}
	defer client.Close()
	post, err := newPost(cfg, o.Log)
	if err != nil {
		return replay.Report{}, err
	}
	defer post.Close()
	service, stop := startReplayService(ctx, cfg, client, &o)
	defer stop()
	decoding := &lane{router: rt, decoder: schemas.NewJSON()}
	run := &replay.Replay{
		Config: replay.Config{
			Topic: cfg.DLQ.Topic, Connector: cfg.Kafka.Group, Filter: o.Filter, MaxAttempts: o.MaxAttempts, DryRun: o.DryRun,
			AsCalls: o.AsCalls, AssumeNewest: o.AssumeNewest, GiveUp: o.GiveUp, Round: roundLetters, Progress: o.Progress,
		},
		Reader: reader, Post: post, Service: service, Router: rt, Decode: decoding.decode,
		Rejected: rejectLetter, Refused: refusalLetter, Log: o.Log,
	}
	if r := o.Rate; r.Calls > 0 {
		each := r.Per / time.Duration(r.Calls)
		run.Round = min(roundLetters, max(1, int(roundTime/each)))
		run.GiveUp = max(o.GiveUp, 3*each)
	}
	return run.Run(ctx)
}

func newPost(cfg *config.Config, log *slog.Logger) (*deadletter.Post, error) {
	opts, err := connection(cfg.Kafka).Options()
	if err != nil {
		return nil, err
	}
	return deadletter.New(opts, cfg.DLQ.Topic, cfg.Kafka.Group, log)
}

// replayService makes a replay's calls: a lane of its own, which remembers the
// ids of the profiles that it upserted.
type replayService struct {
	*immediate.Lane
	calls
	mu  sync.Mutex
	ids map[[2]string]string // by table and key
}

// startReplayService starts the lane; stop returns once its calls have ended.
func startReplayService(ctx context.Context, cfg *config.Config, client *feed.Client, o *ReplayOptions) (s *replayService, stop func()) {
	if o.Rate.Calls == 0 {
		o.Rate = cfg.Service.Rate
	}
	pace := pace(cfg)
	pace.Rate = immediate.Rate{Calls: o.Rate.Calls, Per: o.Rate.Per}
	pace.Retry.GiveUpAfter = o.GiveUp
	s = &replayService{calls: calls{client}, ids: map[[2]string]string{}}
	s.Lane = immediate.New(pace, s, replayObserver{o.Log}, o.Rand)
	running, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Run(running) // it has no error of its own
	}()
	return s, func() {
		cancel()
		<-ended
	}
}

// Call makes one attempt; see calls.Call.
func (s *replayService) Call(ctx context.Context, w *schemas.Write, retried bool) error {
	if w.Table.Custom || w.Op != schemas.Upsert {
		return s.calls.Call(ctx, w, retried)
	}
	ref, err := s.client.UpsertProfile(ctx, w.Table.Name, profileBody(w))
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ids[[2]string{w.Table.Name, w.Key}] = ref.ID()
	}
	return err
}

// ProfileID is the id that the service answered to an upsert of w's profile. It
// is told once.
func (s *replayService) ProfileID(w *schemas.Write) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := [2]string{w.Table.Name, w.Key}
	defer delete(s.ids, of)
	return s.ids[of]
}

// replayObserver tells when the service cannot be reached.
type replayObserver struct{ log *slog.Logger }

func (replayObserver) Called(immediate.Attempt) {}

func (o replayObserver) BreakerTurned(to immediate.BreakerState, cause error) {
	if to == immediate.Open {
		o.log.Warn("the service does not answer; calls pause and one probes it from time to time", "cause", cause)
	}
}
