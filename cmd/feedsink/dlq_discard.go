package main

import (
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/replay"
)

func newDLQDiscard() *cobra.Command {
	var filter filterFlags
	var logs logFlags
	var d replay.Discard
	cmd := &cobra.Command{
		Use:   "discard -c FILE --reason TEXT",
		Short: "End dead letters without sending them",
		Long: "discard notes of dead letters that they have ended, and why. They stay in the topic: replay leaves them, and\n" +
			"`dlq list --all` shows them with the reason. Letters that a replay which did not end may have sent are left,\n" +
			"since an older value may be in the table: replay them, or give --tried. As what replay notes, the reason is kept in\n" +
			"Kafka for as long as the brokers keep the offsets of a group without members (offsets.retention.minutes).",
		Example: "  feedsink dlq discard -c feedsink.yaml --mapping customers --code value --reason 'test data' --dry-run\n" +
			"  feedsink dlq discard -c feedsink.yaml --topic crm.customers --partition 3 --offset 4711 --reason 'produced again as 4720'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if d.Filter, err = filter.filter(time.Now()); err != nil {
				return err
			}
			if err := replay.CheckReason(d.Reason); err != nil {
				return usagef("--reason: %w", err)
			}
			if slices.Contains(reasonCodes, d.Reason) {
				return usagef("--reason: is why the letters are discarded; --code %s chooses those with this reason", d.Reason)
			}
			cfg, log, err := logs.with(cmd, config.File.Config)
			if err != nil {
				return err
			}
			defer log.Close()
			report, err := ops.Discard(cmd.Context(), cfg, log.Logger, d)
			if errors.Is(err, ops.ErrNoDeadLetters) {
				return asUsage(err)
			}
			if err != nil {
				return err
			}
			return printResult(cmd, report, report.Text())
		},
	}
	configFlag(cmd)
	outputFlag(cmd)
	filter.register(cmd, "code")
	logs.registerQuiet(cmd)
	flags := cmd.Flags()
	flags.StringVar(&d.Reason, "reason", "", "why, for those who look at the letters later")
	flags.BoolVar(&d.Tried, "tried", false, "also letters that a replay which did not end may have sent")
	flags.BoolVar(&d.DryRun, "dry-run", false, "only count what would be discarded")
	return cmd
}
