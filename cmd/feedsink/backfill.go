package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/connector/words"
)

func newBackfill() *cobra.Command {
	var since, until, rate, server string
	var logs logFlags
	o := ops.BackfillOptions{}
	cmd := &cobra.Command{
		Use:   "backfill -c FILE --mapping NAME --since TIME",
		Short: "Send the newest state of every key of a span again, below live traffic, never an older value over a newer one",
		Long: "backfill reads what the sink has confirmed of a mapping's topics in a span of time, and sends the newest state of each\n" +
			"key again while the sink goes on running: after a table has lost rows, or was filled wrongly. It waits while the\n" +
			"immediate lane has a backlog. Its progress is kept in Kafka: interrupt it and run the same again to go on. Look with\n" +
			"--dry-run first: it sends nothing, and counts both the calls and the files.\n\n" +
			"--by calls leaves keys to the sink that records replaced which it has still to confirm, and live traffic goes on meanwhile. --by file sends\n" +
			"one import for each kind of row (upsert, patch, delete, …), each one of the table's day, besides imports.reserve. While\n" +
			"such an import is loaded, the mappings that write the table are paused: no call and no file of them begins, records\n" +
			"wait. It needs the running sink, which pauses them and counts the import. An interrupt waits for the import's end.\n" +
			"--by auto goes by file where the mapping makes no calls of its own, and by calls elsewhere.\n\n" +
			"It exits with 1 if some key's newest state was refused, can't be sent that way, or came to no answer. The latter are named by\n" +
			"their records, and running the same again takes them up.",
		Example: "  feedsink backfill -c feedsink.yaml --mapping orders --since 7d --dry-run\n" +
			"  feedsink backfill -c feedsink.yaml --mapping orders --since 2026-11-21T10:00:00Z --until 36h --rate 60/m\n" +
			"  feedsink backfill -c feedsink.yaml --mapping customers --since 30d --by file --server http://feedsink-batch:8080",
		RunE: func(cmd *cobra.Command, _ []string) error {
			now := time.Now()
			var err error
			if since == "" {
				return usagef("--since: say from when on, such as 2026-11-21T10:00:00Z, 36h or 7d")
			}
			if o.Since, err = parseTime(since, now); err != nil {
				return usagef("--since: %w", err)
			}
			if o.Until, err = parseTime(until, now); err != nil {
				return usagef("--until: %w", err)
			}
			if o.Since.After(now) || !o.Until.IsZero() && !o.Until.After(o.Since) {
				return usagef("--since: must be in the past and before --until")
			}
			if o.Rate, err = parseRate(rate); err != nil {
				return err
			}
			if o.GiveUp <= 0 {
				return usagef("--give-up: must be above 0")
			}
			if o.Asked = "--since " + since; until != "" {
				o.Asked += " --until " + until
			}
			if !slices.Contains(backfillWays, o.By) {
				return usagef("--by: must be %s, is %q", strings.Join(backfillWays, ", "), o.By)
			}
			return runBackfill(cmd, &logs, o, server)
		},
	}
	configFlag(cmd)
	mappingFlag(cmd, &o.Name)
	outputFlag(cmd)
	logs.registerQuiet(cmd)
	cmd.Flags().StringVar(&since, "since", "", "from records of this time on: 2026-11-21, 2026-11-21T10:00:00Z, or an age such as 36h or 7d")
	cmd.Flags().StringVar(&until, "until", "", "only records from before this time (default: all that the sink has confirmed)")
	cmd.Flags().StringVar(&rate, "rate", "", "the most calls to make, such as 20/m, at most service.rate (default: a tenth of service.rate; 10/s without one)")
	cmd.Flags().StringVar(&server, "server", "", "by file: admin server of the running sink that has the table (default: the one on this machine)")
	backfillFlags(cmd, &o)
	return cmd
}

// backfillFlags adds the flags whose values are taken as they are.
func backfillFlags(cmd *cobra.Command, o *ops.BackfillOptions) {
	flags := cmd.Flags()
	flags.StringVar(&o.By, "by", replay.ByAuto, "calls, file (live traffic of the table waits while it is loaded) or auto")
	_ = cmd.RegisterFlagCompletionFunc("by", noFiles(backfillWays...)) // the flag is there
	flags.BoolVar(&o.Reserve, "reserve", false, "by file: also use the imports that are kept back for further tries (imports.reserve)")
	flags.BoolVar(&o.DryRun, "dry-run", false, "only count keys, calls and the minutes they take, rows and imports")
	flags.BoolVar(&o.Restart, "restart", false, "begin anew instead of going on where a run was interrupted")
	flags.BoolVar(&o.AsCalls, "as-calls", false, "also profiles that are written by imports: a call replaces the profile whole")
	flags.BoolVar(&o.AssumeNewest, "assume-newest", false, "by calls: also keys with a newer record that the mapping does not take, which its former routes may have applied")
	flags.DurationVar(&o.GiveUp, "give-up", time.Minute, "stop when no call was answered for so long")
}

// backfillWays are the words that --by takes.
var backfillWays = []string{replay.ByCalls, replay.ByFile, replay.ByAuto}

func runBackfill(cmd *cobra.Command, logs *logFlags, o ops.BackfillOptions, server string) error {
	cfg, log, err := logs.with(cmd, config.File.Config)
	if err != nil {
		return err
	}
	defer log.Close()
	o.Log = log.Logger
	if server != "" || cfg.Admin.Listen != "" {
		if _, o.Sink, err = sinkOf(server, cfg.Admin, ""); err != nil {
			return err
		}
	}
	watch := newBackfillProgress(cmd.ErrOrStderr())
	o.Tell = watch.tell
	report, err := ops.Backfill(cmd.Context(), cfg, o)
	watch.end()
	switch {
	case errors.Is(err, replay.ErrNeedsCalls):
		return usagef("%w: --as-calls", err)
	case errors.Is(err, ops.ErrNoMapping), errors.Is(err, ops.ErrRate), errors.Is(err, ops.ErrByFile):
		return asUsage(err)
	case errors.Is(err, replay.ErrNothing), errors.Is(err, replay.ErrUnfinished):
		return err
	}
	if errors.Is(err, context.Canceled) && !o.DryRun {
		err = fmt.Errorf("%w; run the same again to go on, %.1f %% of the keys are done", err, 100*report.Done)
	}
	switch err := printUnfinished(cmd, &report, &report.Error, err); {
	case err != nil:
		return err
	case !o.DryRun && words.Sum(report.Refused)+words.Sum(report.Left) > 0:
		return errors.New("the newest state of some keys was refused, or can't be sent that way")
	}
	return nil
}
