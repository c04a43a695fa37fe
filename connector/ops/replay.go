package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/calls"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/decode"
	"github.com/feedsink/feedsink/connector/flood"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/writes"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/check"
	"github.com/feedsink/feedsink/schemas"
)

// ErrNoDeadLetters says that the configuration names no dead-letter topic.
var ErrNoDeadLetters = errors.New("dlq.topic: is not configured, so there are no dead letters")

// ReplayOptions are what a replay is asked to do. Topic, Connector, Late and Round follow
// from the configuration.
type ReplayOptions struct {
	replay.Config
	Rate config.Rate // of calls; none: the service's as configured
	Log  *slog.Logger
	// Wait returns after so long, or with the context's error; nil: by the clock.
	Wait func(context.Context, time.Duration) error
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
	run, client, done, err := newReplay(ctx, cfg, o.Log)
	if err != nil {
		return replay.Report{}, err
	}
	defer done()
	if run.Post, err = build.NewDeadLetters(cfg, build.KafkaConnection(cfg.Kafka, o.Log), o.Log); err != nil {
		return replay.Report{}, err
	}
	defer run.Post.Close()
	o.Topic, o.Connector, o.Round, o.Late = cfg.DLQ.Topic, cfg.Kafka.Group, roundDeadLetters, lateCalls*cfg.Service.Timeout
	run.Config = o.Config
	if o.Wait != nil {
		run.Wait = o.Wait
	}
	if err := run.Reader.Reach(ctx); err != nil {
		return replay.Report{}, err
	}
	ctx, held, err := hold(ctx, !o.DryRun, run.Reader, cfg, backfillsOf(cfg, run.Router, o.Filter.Mappings)...)
	if err != nil {
		return replay.Report{}, err
	}
	defer held.release()
	// Its calls end before another replay may run, and with the hold.
	defer startCalls(ctx, cfg, run, client, cmp.Or(o.Rate, cfg.Service.Rate), roundTime, held.still)()
	report, err := run.Run(ctx)
	return report, caused(ctx, err)
}

// newReplay is what sends old records again, but for what is to be sent and by whom.
func newReplay(ctx context.Context, cfg *config.Config, log *slog.Logger) (run *replay.Replay, client *service.Client, done func(), err error) {
	rt, err := first(check.Compile(cfg.Mappings))
	if err != nil {
		return nil, nil, nil, err
	}
	rows, err := rowsOf(rt)
	if err != nil {
		return nil, nil, nil, err
	}
	reader, err := cluster.NewReader(build.KafkaConnection(cfg.Kafka, log))
	if err != nil {
		return nil, nil, nil, err
	}
	client, err = build.NewService(cfg.Service)
	if err != nil {
		reader.Close()
		return nil, nil, nil, err
	}
	decode, stopDecoding, err := decode.NewDecoder(ctx, cfg, rt, newRand(), log)
	if err != nil {
		client.Close()
		reader.Close()
		return nil, nil, nil, err
	}
	run = &replay.Replay{
		Reader: reader, Router: rt, Rows: rows, Decode: decode,
		Rejected: writes.RejectReason, Refused: writes.RefusalReason, Wait: retry.Sleep, Log: log,
	}
	return run, client, func() {
		stopDecoding()
		client.Close()
		reader.Close()
	}, nil
}

// newRand is chance for what begins once.
func newRand() *rand.Rand { return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) }

// rowsOf are the rows of all mappings that have files.
func rowsOf(r *router.Router) (map[*router.Compiled]*spool.Rows, error) {
	all := map[*router.Compiled]*spool.Rows{}
	for _, m := range r.Mappings() {
		if !m.Uses(schemas.Batch) {
			continue
		}
		rows, err := build.BatchMapping(m).Rows()
		if err != nil {
			return nil, fmt.Errorf("mapping %s: %w", m.Name, err)
		}
		all[m] = rows
	}
	return all, nil
}

// pace makes rounds of as many calls as the rate allows in such a time, and gives up no
// sooner than it has.
func pace(run *replay.Replay, rate config.Rate, round time.Duration) {
	if rate.Calls > 0 {
		each := rate.Per / time.Duration(rate.Calls)
		run.Round = min(roundDeadLetters, max(1, int(round/each)))
		run.GiveUp = max(run.GiveUp, 3*each)
	}
}

// Discard ends dead letters without sending them. Topic, Connector, Reader and Log of d
// follow from the configuration.
func Discard(ctx context.Context, cfg *config.Config, log *slog.Logger, d replay.Discard) (replay.DiscardReport, error) {
	if cfg.DLQ.Topic == "" {
		return replay.DiscardReport{}, ErrNoDeadLetters
	}
	reader, err := cluster.OpenReader(ctx, build.KafkaConnection(cfg.Kafka, log))
	if err != nil {
		return replay.DiscardReport{}, err
	}
	defer reader.Close()
	d.Topic, d.Connector, d.Reader, d.Log = cfg.DLQ.Topic, cfg.Kafka.Group, reader, log
	ctx, held, err := hold(ctx, !d.DryRun, reader, cfg)
	if err != nil {
		return replay.DiscardReport{}, err
	}
	defer held.release()
	report, err := d.Run(ctx)
	return report, caused(ctx, err)
}

// caused is the error with what ended the context.
func caused(ctx context.Context, err error) error {
	if err != nil && context.Cause(ctx) != nil {
		return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	return err
}

// hold keeps other replays and discards away, if something is to be changed. The result ends if
// that fails for a while: then two could send the same dead letters, and forget each other's marks.
// The groups beside are those of backfills that must not run meanwhile.
func hold(ctx context.Context, changes bool, reader *cluster.Reader, cfg *config.Config, beside ...string) (holding context.Context, held heldGroup, err error) {
	if !changes {
		return ctx, notHeld, nil
	}
	holding, cancel := context.WithCancelCause(ctx)
	held, err = holdGroup(ctx, reader, replay.MarksPrefix(cfg.Kafka.Group), cfg.DLQ.Topic, "replay or discard", cancel, beside...)
	if err != nil {
		cancel(nil)
		if errors.Is(err, cluster.ErrHeld) {
			what := "another replay or discard of this connector"
			if len(beside) > 0 {
				what += ", or a backfill of a mapping of the letters,"
			}
			err = fmt.Errorf("%s is running; wait for its end, or interrupt it: %w", what, err)
		}
		return nil, held, err
	}
	leave := held.release
	held.release = func() {
		cancel(nil)
		leave()
	}
	return holding, held, nil
}

// heldGroup is a group that a command is the only one of.
type heldGroup struct {
	release func()
	// still is asked before each call. Once another command may be the group's it says no, and ends this one.
	still func() bool
}

// notHeld is of commands that change nothing.
var notHeld = heldGroup{release: func() {}, still: func() bool { return true }}

// backfillsOf are the groups of the backfills that may send rows which letters of the mappings are
// about, those of all mappings if there are none: a backfill knows the letters that were open when it began.
func backfillsOf(cfg *config.Config, r *router.Router, mappings []string) (groups []string) {
	meant := func(m *router.Compiled) bool { return slices.Contains(mappings, m.Name) }
	for _, m := range r.Mappings() {
		sameTable := func(other *router.Compiled) bool { return meant(other) && other.Table == m.Table }
		if len(mappings) == 0 || slices.ContainsFunc(r.Mappings(), sameTable) {
			groups = append(groups, replay.BackfillGroup(cfg.Kafka.Group, m.Name))
		}
	}
	return groups
}

// holdGroup has this command be the only one of a group; what names what such commands do. lost
// is told if that fails for a while.
func holdGroup(ctx context.Context, reader *cluster.Reader, group, topic, what string, lost context.CancelCauseFunc, beside ...string) (heldGroup, error) {
	held, leave, err := reader.Hold(ctx, group, topic, replaySession, newRand(), beside...)
	if err != nil {
		return heldGroup{}, err
	}
	end := func() {
		lost(fmt.Errorf("the brokers lost sight of this command, so that another %s may run: a call that was under way may have put an older value over what it sends, which verify tells; run again to go on", what))
	}
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-held.Lost:
			end()
		case <-over:
		}
	})
	return heldGroup{release: func() {
		close(over)
		watching.Wait()
		leave()
	}, still: func() bool {
		holds := held.Holds()
		if !holds {
			end()
		}
		return holds
	}}, nil
}

// replayService makes a replay's calls: a lane of its own, which remembers the
// ids of the profiles that it upserted.
type replayService struct {
	*calls.Lane
	writes.Operations
	still  func() bool
	mu     sync.Mutex
	ids    map[replay.Row]string
	unsure map[replay.Row]bool // an attempt came to no answer
}

// startCalls has the replay make its calls at that rate, in rounds of about so long, until it
// would flood the dead-letter topic. No call begins once still says no, which ends ctx. stop returns once they have ended.
func startCalls(ctx context.Context, cfg *config.Config, run *replay.Replay, client *service.Client, rate config.Rate, round time.Duration, still func() bool) (stop func()) {
	lane := build.Pace(cfg)
	lane.Rate = calls.Rate{Calls: rate.Calls, Per: rate.Per}
	lane.Retry.GiveUpAfter = run.GiveUp
	s := &replayService{still: still, ids: map[replay.Row]string{}, unsure: map[replay.Row]bool{}}
	s.Operations = writes.Operations{Client: client, Spend: func() { s.Lane.Spend() }}
	s.Lane = calls.New(lane, s, ReplayObserver{run.Log, run.Router.Mappings()}, newRand())
	run.Service = s
	pace(run, rate, round)
	stopFloods(run, cfg.DLQ)
	running, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Run(running) // it has no error of its own
	}()
	return func() {
		cancel()
		<-ended
	}
}

// Call makes one attempt; see calls.Call.
func (s *replayService) Call(ctx context.Context, w *schemas.Write, try calls.Try) error {
	if !s.still() {
		return context.Canceled
	}
	if try.Retried {
		s.mu.Lock()
		s.unsure[replay.RowOf(w)] = true
		s.mu.Unlock()
	}
	if w.Table.Custom || w.Op != schemas.Upsert {
		return s.Operations.Call(ctx, w, writes.Create{Unsure: try.Retried})
	}
	ref, err := s.Client.UpsertProfile(ctx, w.Table.Name, (*writes.ProfileBody)(w))
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ids[replay.RowOf(w)] = ref.ID()
	}
	return err
}

// ProfileID is the id that the service answered to an upsert of w's profile. It
// is told once.
func (s *replayService) ProfileID(w *schemas.Write) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := replay.RowOf(w)
	defer delete(s.ids, of)
	return s.ids[of]
}

// Unsure reports whether an attempt at w's row came to no answer before the last
// one. It is told once.
func (s *replayService) Unsure(w *schemas.Write) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := replay.RowOf(w)
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

// stageResults are the last results of a replay at one stage, of one mapping or topic.
type stageResults struct {
	seen    int64
	refused flood.Refusals
}

// stopFloods has a replay stop where the sink would halt. A round is no more dead letters
// than the window, so that no more are tried before it shows.
func stopFloods(run *replay.Replay, cfg config.DLQ) {
	l := flood.NewLimits(cfg)
	if l.Alike == 0 {
		return
	}
	type results struct {
		of    string
		stage deadletter.Stage
	}
	windows := map[results]*stageResults{}
	run.Round = int(min(int64(run.Round), l.Window))
	run.Flood = func(of string, stage deadletter.Stage, why *deadletter.Reason) string {
		at := results{of, stage}
		w := windows[at]
		if w == nil {
			w = &stageResults{refused: flood.Refusals{}}
			windows[at] = w
		}
		w.seen++
		if why == nil || why.Code == writes.CodeConflict { // which is no mistake of the mapping
			return ""
		}
		what := flood.RefusalOf(*why)
		return l.Flood(what, w.seen, w.refused.Add(what, w.seen, l))
	}
}
