package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/pause"
)

func newPause() *cobra.Command {
	var mapping, until string
	var asked admin.PauseRequest
	cmd := &cobra.Command{
		Use:   "pause --mapping NAME",
		Short: "Pause a mapping: no call and no import of it begins",
		Long: "pause has a mapping begin no more calls and imports. What is under way ends: a call comes to its answer, an import to its\n" +
			"confirmation. Its records wait in Kafka, unconfirmed and in order, until feedsink resume or --until.\n\n" +
			"Ask any running sink that has a partition of the mapping's topics: the pause is kept in Kafka, in the ledgers of these\n" +
			"partitions. It holds for all members of both lanes within a few seconds, over restarts and rebalances. A second pause\n" +
			"changes reason and time.\n\n" +
			"Other mappings of the same topics go on until there is no more room for what waits: in memory, in the spool, or in the\n" +
			"offset commit. The files of a bundle wait all together, and so do mappings that name this one in after.",
		Example: "  feedsink pause --mapping customers --reason 'the table is rebuilt' --until 2h\n" +
			"  feedsink pause --mapping customers --lane batch",
	}
	askSink(cmd, func(ctx context.Context, c *admin.Client, _ []string) (any, string, error) {
		var paused observe.Paused
		err := c.Pause(ctx, mapping, asked, &paused)
		return paused, paused.Text(), err
	})
	mappingFlag(cmd, &mapping)
	laneFlag(cmd, &asked.Lane, func() (err error) {
		if err := pause.CheckReason(asked.Reason); err != nil {
			return usagef("--reason: %w", err)
		}
		if asked.Until, err = untilTime(until, time.Now()); err != nil {
			return usagef("--until: %w", err)
		}
		return nil
	})
	cmd.Flags().StringVar(&asked.Reason, "reason", "", "why, for those who see it paused; no customers' data: it is in logs")
	cmd.Flags().StringVar(&until, "until", "", "when it goes on by itself: 17:30 by this machine's clock, 2026-11-21T10:00:00Z, or after 2h")
	return cmd
}

func newResume() *cobra.Command {
	var mapping, lane string
	cmd := &cobra.Command{
		Use:   "resume --mapping NAME",
		Short: "Let a paused mapping go on",
		Long: "resume lets a mapping go on that feedsink pause has paused: its calls at once, its file when it is due. Ask any running\n" +
			"sink that has a partition of the mapping's topics; the others follow within a few seconds.",
		Example: "  feedsink resume --mapping customers",
	}
	askSink(cmd, func(ctx context.Context, c *admin.Client, _ []string) (any, string, error) {
		var paused observe.Paused
		err := c.Resume(ctx, mapping, lane, &paused)
		return paused, paused.Text(), err
	})
	mappingFlag(cmd, &mapping)
	laneFlag(cmd, &lane, func() error { return nil })
	return cmd
}

// laneFlag adds --lane, and what else is to be checked after the mapping.
func laneFlag(cmd *cobra.Command, lane *string, check func() error) {
	cmd.Flags().StringVar(lane, "lane", "", "immediate or batch (default: all lanes of the mapping)")
	_ = cmd.RegisterFlagCompletionFunc("lane", noFiles("immediate", "batch")) // the flag is there
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if err := before(cmd, args); err != nil {
			return err
		}
		if *lane != "" && *lane != "immediate" && *lane != "batch" {
			return usagef("--lane: must be immediate or batch, is %q", *lane)
		}
		return check()
	}
}

// untilTime reads a point in time, a time of day on this machine's clock, or a duration
// from now; "" is none. It is later than now, in whole seconds.
func untilTime(text string, now time.Time) (until time.Time, err error) {
	if text == "" {
		return until, nil
	}
	if after, err := time.ParseDuration(text); err == nil {
		until = now.Add(after)
	} else if clock, err := time.Parse("15:04", text); err == nil {
		y, m, d := now.Date()
		if until = time.Date(y, m, d, clock.Hour(), clock.Minute(), 0, 0, now.Location()); !until.After(now) {
			until = time.Date(y, m, d+1, clock.Hour(), clock.Minute(), 0, 0, now.Location())
		}
	} else if until, err = time.Parse(time.RFC3339, text); err != nil {
		return until, fmt.Errorf("must be a time such as 17:30 or 2026-11-21T10:00:00Z, or a duration such as 2h, is %q", text)
	}
	if !until.After(now) {
		return until, errors.New("must be in the future")
	}
	return until.Add(time.Second - 1).Truncate(time.Second), nil
}

func newImportsRoll() *cobra.Command {
	var mapping string
	var reserve bool
	cmd := &cobra.Command{
		Use:   "roll --mapping NAME",
		Short: "Send a mapping's open file now",
		Long: "roll sends the open file of a mapping, and of its bundle, without waiting for it to be full or old enough. It takes one of\n" +
			"the table's imports of the day, as they are spread over it; --reserve may take one now, and one of those that are kept\n" +
			"back for further tries (imports.reserve). If an import of the mapping is on its way, the file goes next.",
		Example: "  feedsink imports roll --mapping customers",
	}
	askSink(cmd, func(ctx context.Context, c *admin.Client, _ []string) (any, string, error) {
		var rolled observe.Rolled
		err := c.Roll(ctx, mapping, reserve, &rolled)
		return rolled, rolled.Text(), err
	})
	mappingFlag(cmd, &mapping)
	cmd.Flags().BoolVar(&reserve, "reserve", false, "take one of the imports now that are kept back, or spread over the day")
	return cmd
}
