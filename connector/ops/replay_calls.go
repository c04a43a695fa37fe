package ops

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// replayService makes a replay's calls: a lane of its own, which remembers the
// ids of the profiles that it upserted.
type replayService struct {
	*calls.Lane
	writes.Operations
	mu     sync.Mutex
	ids    map[rowID]string // by table and key
	unsure map[rowID]bool   // an attempt came to no answer
}

// rowID names a row of a table.
type rowID struct {
	table schemas.Table
	key   string
}

// startReplayService starts the lane; stop returns once its calls have ended.
func startReplayService(ctx context.Context, cfg *config.Config, mappings []*router.Compiled, client *service.Client, o *ReplayOptions) (s *replayService, stop func()) {
	if o.Rate.Calls == 0 {
		o.Rate = cfg.Service.Rate
	}
	pace := build.Pace(cfg)
	pace.Rate = calls.Rate{Calls: o.Rate.Calls, Per: o.Rate.Per}
	pace.Retry.GiveUpAfter = o.GiveUp
	s = &replayService{Operations: writes.Operations{Client: client}, ids: map[rowID]string{}, unsure: map[rowID]bool{}}
	s.Lane = calls.New(pace, s, ReplayObserver{o.Log, mappings}, rand.New(rand.NewPCG(o.Rand.Uint64(), o.Rand.Uint64())))
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
	if retried {
		s.mu.Lock()
		s.unsure[rowID{w.Table, w.Key}] = true
		s.mu.Unlock()
	}
	if w.Table.Custom || w.Op != schemas.Upsert {
		return s.Operations.Call(ctx, w, retried)
	}
	ref, err := s.Client.UpsertProfile(ctx, w.Table.Name, (*writes.ProfileBody)(w))
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ids[rowID{w.Table, w.Key}] = ref.ID()
	}
	return err
}

// ProfileID is the id that the service answered to an upsert of w's profile. It
// is told once.
func (s *replayService) ProfileID(w *schemas.Write) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := rowID{w.Table, w.Key}
	defer delete(s.ids, of)
	return s.ids[of]
}

// Unsure reports whether an attempt at w's row came to no answer before the last
// one. It is told once.
func (s *replayService) Unsure(w *schemas.Write) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := rowID{w.Table, w.Key}
	defer delete(s.unsure, of)
	return s.unsure[of]
}

// ReplayObserver tells when the service cannot be reached.
type ReplayObserver struct {
	log      *slog.Logger
	mappings []*router.Compiled
}

// Called implements calls.Observer.
func (ReplayObserver) Called(calls.Attempt) {}

// NotRepeated is not called: a replay repeats nothing.
func (ReplayObserver) NotRepeated(string) {}

// BreakerTurned implements calls.Observer.
func (o ReplayObserver) BreakerTurned(of schemas.Table, to calls.BreakerState, cause error) {
	if to == calls.Open {
		o.log.Warn("calls for the table fail; they pause, and one is tried from time to time", "table", router.LabelOf(o.mappings, of), "cause", cause)
	}
}
