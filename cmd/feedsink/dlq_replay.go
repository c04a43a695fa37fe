package main

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/replay"
)

func newDLQReplay() *cobra.Command {
	var rate string
	var filter filterFlags
	var logs logFlags
	o := ops.ReplayOptions{}
	cmd := &cobra.Command{
		Use:   "replay -c FILE",
		Short: "Try dead letters again, never an older value over a newer one",
		Long: "replay sends what dead letters say to the service, by calls, while the sink goes on running. A letter whose\n" +
			"values were all replaced by newer records since is done without a call. What fails again becomes a new letter\n" +
			"that counts its attempts. Which letters are done is kept in Kafka: interrupt it and run it again as you like.\n" +
			"If nearly all letters of a mapping are refused alike (dlq.flood), it stops and leaves them as they are.\n" +
			"Letters of a mapping that was renamed since are left (no_mapping): replay them with a copy of the configuration in\n" +
			"which it has its former name, while the sink goes on with its own.\n" +
			"It exits with 1 if some letter was neither applied nor superseded.",
		Example: "  feedsink dlq replay -c feedsink.yaml --mapping customers --reason value --dry-run\n" +
			"  feedsink dlq replay -c feedsink.yaml --mapping customers --reason value --rate 20/s",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Filter, err = filter.filter(time.Now()); err != nil {
				return err
			}
			if o.Rate, err = parseRate(rate); err != nil {
				return err
			}
			if o.MaxAttempts < 1 || o.GiveUp <= 0 {
				return usagef("--max-attempts and --give-up: must be above 0")
			}
			cfg, log, err := logs.with(cmd, config.File.Config)
			if err != nil {
				return err
			}
			defer log.Close()
			o.Log = log.Logger
			end := showReplay(cmd, &o)
			report, err := ops.Replay(cmd.Context(), cfg, o)
			end()
			if errors.Is(err, ops.ErrNoDeadLetters) {
				return asUsage(err)
			}
			if err := printUnfinished(cmd, &report, &report.Error, err); err != nil {
				return err
			}
			if !o.DryRun && !report.Ended() {
				return errors.New("some letters were neither applied nor superseded")
			}
			return nil
		},
	}
	configFlag(cmd)
	outputFlag(cmd)
	filter.register(cmd, "reason")
	logs.registerQuiet(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&o.DryRun, "dry-run", false, "only find out what would become of each letter")
	flags.StringVar(&rate, "rate", "", "the most calls to make, such as 20/s or 600/m (default: service.rate)")
	flags.IntVar(&o.MaxAttempts, "max-attempts", ops.MaxAttempts, "leave dead letters that have failed again so many times")
	flags.DurationVar(&o.GiveUp, "give-up", time.Minute, "stop when no call was answered for so long")
	flags.BoolVar(&o.AsCalls, "as-calls", false, "also replay profiles that are written by imports: a call replaces the profile whole")
	flags.BoolVar(&o.AssumeNewest, "assume-newest", false, "also replay letters whose topic no longer tells whether something newer followed")
	return cmd
}

// parseRate reads N/s, N/m or N/h; "" is none.
func parseRate(text string) (rate config.Rate, err error) {
	if text == "" {
		return rate, nil
	}
	number, unit, _ := strings.Cut(text, "/")
	per, known := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	n, err := strconv.Atoi(number)
	if err != nil || !known || n < 1 || n > math.MaxInt32 {
		return rate, usagef("--rate: must be calls per second, minute or hour such as 20/s, is %q", text)
	}
	return config.Rate{Calls: n, Per: per}, nil
}

// showReplay shows how far a replay is, where it is watched, until end is called.
func showReplay(cmd *cobra.Command, o *ops.ReplayOptions) (end func()) {
	if !watched(cmd) {
		return func() {}
	}
	screen := newScreen(cmd.ErrOrStderr())
	o.Progress = func(r replay.Report) { screen.line(r.ProgressText()) }
	return screen.end
}
