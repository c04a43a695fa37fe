package ops

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/connector/retry"
	"github.com/feedsink/feedsink/connector/verify"
	"github.com/feedsink/feedsink/router"
)

// VerifyOptions are what a verification is asked to do.
type VerifyOptions struct {
	Name       string      // of the mapping
	Sample     int         // how many keys are compared, chosen by chance; 0: all
	Rate       config.Rate // of reads, and of a repair's calls; none: a part of service.rate
	Repair     bool        // send the newest states of the keys that differ again
	ShowValues bool
	GiveUp     time.Duration // how long it waits while the service does not answer
	Tell       func(replay.BackfillReport)
	Log        *slog.Logger
	Rand       *rand.Rand // nil: seeded from the system
}

// askedRepair is what the backfill of a repair was asked for, which tells it from others.
const askedRepair = "verify --repair"

// Verify tells whether the mapping's table says what its topics say, beside the running sink.
// It needs no sink, and no more rights than reading.
func Verify(ctx context.Context, cfg *config.Config, o VerifyOptions) (verify.Report, error) {
	o.Rand = cmp.Or(o.Rand, newRand())
	run, client, done, err := newReplay(ctx, cfg, o.Log)
	if err != nil {
		return verify.Report{}, err
	}
	defer done()
	m, err := mappingOf(run.Router, o.Name)
	if err != nil {
		return verify.Report{}, err
	}
	if o.Rate, err = backfillCalls(o.Rate, cfg.Service.Rate); err != nil {
		return verify.Report{}, err
	}
	if err := run.Reader.Reach(ctx); err != nil {
		return verify.Report{}, err
	}
	run.Config = aside(cfg, o.GiveUp)
	if !m.Table.Custom {
		known, err := knownOf(ctx, cfg, run, m, o.Log)
		if err != nil {
			return verify.Report{}, err
		}
		return verify.Report{Mapping: m.Name, Table: m.Label, Known: known, Differences: []verify.Difference{}, Writers: otherWriters(run.Router, m)}, nil
	}
	pace(run, o.Rate, backfillRound)
	span := replay.BackfillConfig{Asked: askedRepair, Mapping: m, Since: time.Unix(0, 0), Keys: int64(cfg.Memory.Pending)}
	v := &verify.Verify{
		Log: func() *replay.Backfill {
			looking := *run
			return belowLive(cfg, &looking, span)
		},
		Get: client.GetRecord, Rate: rate.Limit(float64(o.Rate.Calls) / o.Rate.Per.Seconds()), GiveUp: run.GiveUp,
		Backoff: retry.Backoff{Initial: cfg.Retry.Initial, Max: cfg.Retry.Max}, Random: rand.Float64,
		Seed: strconv.FormatUint(o.Rand.Uint64(), 36), Sample: o.Sample, ShowValues: o.ShowValues, Repair: o.Repair, Tell: o.Tell,
	}
	report, keys, err := v.Run(ctx)
	report.Writers = otherWriters(run.Router, m)
	if err != nil || !o.Repair || len(keys) == 0 {
		return report, err
	}
	span.Only = keys
	repair, err := Backfill(ctx, cfg, BackfillOptions{BackfillConfig: span, Name: o.Name, By: replay.ByCalls, Rate: o.Rate, GiveUp: o.GiveUp, Tell: o.Tell, Log: o.Log})
	if err == nil || !repair.Empty() {
		report.Repair = &repair
	}
	if err != nil {
		err = fmt.Errorf("repair: %w", err)
	}
	return report, err
}

// otherWriters are the mappings that write the table, too: what differs may be theirs.
func otherWriters(r *router.Router, m *router.Compiled) (names []string) {
	for _, other := range r.Mappings() {
		if other != m && other.Table == m.Table {
			names = append(names, other.Name)
		}
	}
	return names
}

// knownOf counts what of the mapping's records has not come to its table.
func knownOf(ctx context.Context, cfg *config.Config, run *replay.Replay, m *router.Compiled, log *slog.Logger) (*verify.Known, error) {
	known := &verify.Known{DeadLetters: map[string]int64{}, Unconfirmed: map[string]int64{}}
	spans, err := run.Reader.Spans(ctx, m.Config.Topics...)
	if err != nil {
		return known, err
	}
	for _, lane := range m.Lanes() {
		commits, err := run.Reader.Committed(ctx, lane.Group(cfg.Kafka.Group))
		if err != nil {
			return known, err
		}
		known.Unconfirmed[lane.String()] = 0
		for p, span := range spans {
			known.Unconfirmed[lane.String()] += unconfirmed(notBefore(commits[p], span), span.To)
		}
	}
	if cfg.DLQ.Topic == "" {
		return known, nil
	}
	_, err = deadLetters(ctx, cfg, log, func(int64, int64) {}, func(l *letter) error {
		if !l.state.Ended() && replay.OfMapping(run.Router, m, l.Received) {
			known.DeadLetters[l.Code]++
		}
		return nil
	})
	return known, err
}

// notBefore is the commit, or that of a lane that has read nothing yet.
func notBefore(c cluster.Commit, span cluster.Span) cluster.Commit {
	c.Offset = max(c.Offset, span.From)
	return c
}
