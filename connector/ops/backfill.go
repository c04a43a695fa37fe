package ops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// BackfillOptions are what a backfill is asked to do.
type BackfillOptions struct {
	replay.BackfillConfig               // Mapping and Keys follow from the configuration
	Name                  string        // of the mapping
	Rate                  config.Rate   // of calls; none: a part of service.rate
	By                    string        // replay.ByCalls, replay.ByFile or replay.ByAuto
	Sink                  *admin.Client // of the running sink that has the table; nil: none was named
	Reserve               bool          // by file also the imports that are kept back for further tries
	DryRun, AsCalls       bool
	AssumeNewest          bool          // also keys of which former routes may have applied newer records
	GiveUp                time.Duration // how long it waits while no call is answered
	Tell                  func(replay.BackfillReport)
	Log                   *slog.Logger
}

// A backfill's calls, where nothing is said: a tenth of service.rate, or so many where the
// service has none.
const backfillShare = 10

var backfillRate = config.Rate{Calls: 10, Per: time.Second}

// backfillRound is how long the calls of a round take at the rate: so long Ctrl-C waits.
const backfillRound = 2 * time.Second

// ErrRate says that a backfill was asked to make more calls than the service takes.
var ErrRate = errors.New("must be at most service.rate")

// backfillCalls is how many calls a backfill makes that is asked for so many.
func backfillCalls(asked, of config.Rate) (config.Rate, error) {
	switch {
	case asked.Calls == 0 && of.Calls == 0:
		return backfillRate, nil
	case asked.Calls == 0:
		return config.Rate{Calls: of.Calls, Per: of.Per * backfillShare}, nil
	case of.Calls > 0 && float64(asked.Calls)/asked.Per.Seconds() > float64(of.Calls)/of.Per.Seconds():
		return config.Rate{}, fmt.Errorf("--rate: %w, %d calls per %s", ErrRate, of.Calls, of.Per)
	}
	return asked, nil
}

// Backfill sends the newest states of a mapping's keys again, beside the running sink. When
// ctx ends it finishes the calls that it has begun with.
func Backfill(ctx context.Context, cfg *config.Config, o BackfillOptions) (replay.BackfillReport, error) {
	run, client, done, err := newReplay(ctx, cfg, o.Log)
	if err != nil {
		return replay.BackfillReport{}, err
	}
	defer done()
	if o.Mapping, err = mappingOf(run.Router, o.Name); err != nil {
		return replay.BackfillReport{}, err
	}
	if o.Rate, err = backfillCalls(o.Rate, cfg.Service.Rate); err != nil {
		return replay.BackfillReport{}, err
	}
	o.Keys = int64(cfg.Memory.Pending)
	run.Config = aside(cfg, o.GiveUp)
	run.DryRun, run.AsCalls, run.AssumeNewest = o.DryRun, o.AsCalls, o.AssumeNewest
	by, why, err := decideBy(&o)
	if err != nil {
		return replay.BackfillReport{}, err
	}
	if err := run.Reader.Reach(ctx); err != nil {
		return replay.BackfillReport{}, err
	}
	grace := cfg.Service.Timeout + backfillRound
	if by == replay.ByFile {
		o.Asked, grace = o.Asked+" --by file", untilImported
	}
	working, stop := outlast(ctx, grace)
	defer stop(nil)
	held := notHeld
	if !o.DryRun {
		m := o.Mapping
		var beside []string // a replay ends letters that the backfill leaves out
		if cfg.DLQ.Topic != "" {
			beside = []string{replay.MarksPrefix(cfg.Kafka.Group)}
		}
		held, err = holdGroup(ctx, run.Reader, replay.BackfillGroup(cfg.Kafka.Group, m.Name), m.Config.Topics[0], "backfill", stop, beside...)
		if errors.Is(err, cluster.ErrHeld) {
			err = fmt.Errorf("another backfill of mapping %s, or a replay or discard of letters, is running; wait for its end, or interrupt it: %w", m.Name, err)
		}
		if err != nil {
			return replay.BackfillReport{}, err
		}
		defer held.release()
	}
	// Its calls end before another backfill may run, and with the hold.
	defer startCalls(working, cfg, run, client, o.Rate, backfillRound, held.still)()
	b := belowLive(cfg, run, o.BackfillConfig)
	b.Tell = o.Tell
	report, err := withFiles(ctx, working, cfg, &o, by, b, client)
	report.By, report.Why = by, why
	if o.DryRun && by == replay.ByFile {
		report.OfFiles()
	}
	report.Minutes = float64(report.Calls) * o.Rate.Per.Minutes() / float64(o.Rate.Calls)
	return report, caused(working, err)
}

// aside is what a command that reads a mapping's topics beside the sink goes by.
func aside(cfg *config.Config, giveUp time.Duration) replay.Config {
	return replay.Config{
		Topic: cfg.DLQ.Topic, Connector: cfg.Kafka.Group, GiveUp: giveUp,
		Round: roundDeadLetters, Late: lateCalls * cfg.Service.Timeout,
	}
}

// belowLive is a backfill that waits while live traffic does, and ends once a person has paused
// the table.
func belowLive(cfg *config.Config, run *replay.Replay, of replay.BackfillConfig) *replay.Backfill {
	t := &tableImports{options: &BackfillOptions{BackfillConfig: of}, cfg: cfg, reader: run.Reader, mappings: mappingsBeside(run.Router, of.Mapping)}
	return &replay.Backfill{BackfillConfig: of, Replay: run, Behind: func(ctx context.Context) (string, error) {
		l, err := t.look(ctx)
		if err != nil {
			return "", err
		}
		if why := l.byPerson(t, func(ack.Pause) bool { return false }); why != "" {
			return "", errors.New(why)
		}
		return behind(ctx, run.Reader, run.Router, &cfg.Kafka)
	}}
}

// untilImported is how long a backfill goes on at most that was interrupted during an import.
const untilImported = 24 * time.Hour

// outlast is a context that ends so long after ctx does, or at once by end.
func outlast(ctx context.Context, grace time.Duration) (working context.Context, end context.CancelCauseFunc) {
	working, end = context.WithCancelCause(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(grace, func() { end(context.Cause(ctx)) })
		context.AfterFunc(working, func() { timer.Stop() })
	})
	return working, end
}

// Live traffic has something waiting once more than so many of its records are that old.
const (
	behindRecords = 100
	behindFor     = 30 * time.Second
)

// behind says which records of the immediate lane have waited for long; "" if none have.
func behind(ctx context.Context, reader *cluster.Reader, r *router.Router, kafka *config.Kafka) (string, error) {
	topics := r.Topics(schemas.Immediate)
	if len(topics) == 0 {
		return "", nil
	}
	group := schemas.Immediate.Group(kafka.Group)
	commits, err := reader.Committed(ctx, group)
	if err != nil {
		return "", err
	}
	if len(commits) == 0 {
		return "", nil // no sink has run whose calls could wait
	}
	held, err := reader.Spans(ctx, topics...)
	if err != nil {
		return "", err
	}
	due, err := reader.After(ctx, time.Now().Add(-behindFor), topics...)
	if err != nil {
		return "", err
	}
	waiting := int64(0)
	for p, upTo := range due {
		c, committed := commits[p]
		if !committed && kafka.StartAt == "latest" {
			continue
		}
		if !committed { // a sink that was stopped before its first commit begins there
			c.Offset = held[p].From
		}
		waiting += unconfirmed(c, upTo)
	}
	if waiting <= behindRecords {
		return "", nil
	}
	return fmt.Sprintf("waiting for live traffic: group %s has %d records older than %v to confirm", group, waiting, behindFor), nil
}

// unconfirmed is how many records below upTo a lane has not confirmed, by its commit.
func unconfirmed(c cluster.Commit, upTo int64) int64 {
	n := max(upTo-c.Offset, 0)
	if ledger, err := ack.Decode(c.Metadata, c.Offset); err == nil { // a foreign one knows of nothing else that is confirmed
		for _, done := range ledger.Done {
			n -= max(min(done.To, upTo)-done.From, 0)
		}
	}
	return n
}
