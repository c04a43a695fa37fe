// Package waits names what a lane may wait for, and logs when it begins to and when it
// does no more.
//
// It knows causes and waits. It knows nothing of how they are found.
package waits

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/schemas"
)

// What a lane waits for, beside what cluster.Condition has.
const (
	Throttled    = "throttled"    // the service wants no calls for some time
	Unauthorized = "unauthorized" // 401 or 403
	Breaker      = "breaker"
	Rate         = "rate"    // the member's part of service.rate is less than a call a minute
	Retried      = "retried" // keys of a table fail over and over, and others of it may go on
	Service      = "service" // it does not answer a request for a token or an import's, or with an error that may pass
	Disk         = "disk"    // the spool cannot be written
	SpoolFull    = "spool_full"
	Slot         = "slot"
	Parents      = "parents"
	OtherLane    = "other_lane"
	LedgerFull   = "ledger_full" // the metadata of a partition's offset commit has no room
	Schemas      = "schemas"     // the registry has not answered, and records need a schema
	DeadMember   = "dead_member" // another member does not answer: its partitions are read by no member until its session ends
)

// Causes are all of them, by lane.
var Causes = map[schemas.Lane][]string{
	schemas.Immediate: {cluster.NoTopic, cluster.Refused, cluster.Unreachable, cluster.NoPlace, DeadMember, OtherLane, LedgerFull, Schemas, Throttled, Rate, Unauthorized, Service, Breaker, Retried},
	schemas.Batch:     {cluster.NoTopic, cluster.Refused, cluster.Unreachable, cluster.NoPlace, DeadMember, OtherLane, LedgerFull, Schemas, Throttled, Rate, Unauthorized, Service, Breaker, Retried, Disk, SpoolFull, Slot, Parents},
}

// LacksRoom is why records wait, or files of these tables, whose partition's ledger has no
// room; "": it has.
func LacksRoom(tables []string, full bool) string {
	what := "none is taken"
	switch {
	case len(tables) > 0:
		what = "the next import of " + strings.Join(tables, ", ") + " must not begin"
	case !full:
		return ""
	}
	return what + " while the ledger, the metadata of the offset commit, is full of confirmed offsets, imports on their way and used slots. Room comes " +
		"as imports are confirmed, and slots that were used two days ago are forgotten. All tables of a topic share it: fewer of them, or a lower imports.slotsPerDay, take less"
}

const (
	// LookEvery is how often it is looked what the lanes wait for, to log it.
	LookEvery = 2 * time.Second
	// overAfter is for how long it is not waited for what counts as over: between two
	// tries there may be a short time in which it is not known to go on.
	overAfter = 10 * time.Second
)

// seen is when a wait began, and when it was looked at last.
type seen struct{ begun, last time.Time }

// Log logs what the lanes begin to wait for, and once they do no more, until ctx ends. It
// looks that often. What the breaker does is not logged: its turns are.
func Log(ctx context.Context, log *slog.Logger, every time.Duration, look func() []observe.Wait) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	known := map[observe.Wait]seen{}
	for {
		now := time.Now()
		for _, w := range look() {
			of := observe.Wait{Cause: w.Cause, Lane: w.Lane, Mapping: w.Mapping, Topic: w.Topic, Table: w.Table, Member: w.Member}
			if of.Cause == Breaker {
				continue
			}
			at, ok := known[of]
			if !ok {
				at.begun = now
				begins(ctx, log, w, now)
			}
			at.last = now
			known[of] = at
		}
		for of, at := range known {
			if now.Sub(at.last) >= max(overAfter, every) {
				delete(known, of)
				log.Info("waiting no more", append(attributes(of), "after", at.last.Sub(at.begun).Round(time.Second))...)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func begins(ctx context.Context, log *slog.Logger, w observe.Wait, now time.Time) {
	what := append(attributes(w), "why", w.Why)
	if !w.Until.IsZero() {
		what = append(what, "until", w.Until)
	}
	log.Log(ctx, level(w.Cause), "waiting", append(what, "since", now)...) // since keeps it from being counted as a repetition
}

// attributes are the log's, of a wait.
func attributes(w observe.Wait) (attrs []any) {
	for _, a := range []struct{ name, value string }{{"cause", w.Cause}, {"lane", w.Lane}, {"mapping", w.Mapping}, {"topic", w.Topic}, {"table", w.Table}, {"member", w.Member}} {
		if a.value != "" {
			attrs = append(attrs, a.name, a.value)
		}
	}
	return attrs
}

// level is a warning unless waiting for that is how it is meant to be.
func level(cause string) slog.Level {
	switch cause {
	case Slot, Parents, OtherLane:
		return slog.LevelInfo
	}
	return slog.LevelWarn
}
