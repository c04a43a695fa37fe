package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/audit"
	"github.com/feedsink/feedsink/connector/ops"
)

// allRecords is the word for --from that has all records judged.
const allRecords = "begin"

func newAudit() *cobra.Command {
	var from, dir string
	cmd := &cobra.Command{
		Use:   "audit -c FILE",
		Short: "Did each record below the commits end exactly once? By receipts, dead letters and the ledger alone",
		Long: "audit compares four things, in all topics of the mappings and in both lanes: what the groups have committed, with the\n" +
			"ledger in it; the receipts; the dead letters; and the offsets that the topics have. Each record that is confirmed must\n" +
			"have ended exactly once, with a receipt for each of its parts; what receipts and ledger tell of keys' order and of the\n" +
			"day's imports must hold. It shares no code with what it judges, runs beside the sink or without it, and changes nothing.\n" +
			"It names the first gap, what is missing and what to do.\n\n" +
			"A record that was confirmed before there were receipts has none. So these are judged: all records of a partition whose\n" +
			"lanes began when there were receipts already, and elsewhere those that were written after the first assignment that has\n" +
			"receipts. --from TIME judges those that were written since then instead, --from begin all.\n\n" +
			"It needs receipts.topic. Without receipts.keyFile receipts have no key, and the order is not judged. It reads the\n" +
			"receipts and every record of the topics once, and looks at no value. What memory has no room for is sorted in files\n" +
			"below --dir: some 200 bytes for each receipt.\n" +
			"It exits with 1 if there is a gap.",
		Example: "  feedsink audit -c feedsink.yaml\n" +
			"  feedsink audit -c feedsink.yaml --from 2026-11-21T10:00:00Z -o json",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			o := audit.Options{All: from == allRecords, Dir: dir}
			if !o.All {
				if o.From, err = parseTime(from, time.Now()); err != nil {
					return usagef("--from: %w, or %s", err, allRecords)
				}
			}
			return runAudit(cmd, o, from)
		},
	}
	configFlag(cmd)
	outputFlag(cmd)
	cmd.Flags().StringVar(&from, "from", "", "judge the records of this time on: begin, 2026-11-21, 2026-11-21T10:00:00Z, or an age such as 36h or 7d (default: since receipts began)")
	cmd.Flags().StringVar(&dir, "dir", "", "where to sort what memory has no room for (default: the system's directory for temporary files)")
	return cmd
}

func runAudit(cmd *cobra.Command, o audit.Options, asked string) error {
	cfg, err := load(cmd, forPlan)
	if err != nil {
		return err
	}
	if cfg.Receipts.Topic == "" {
		return usagef("receipts.topic: is not set, so that nothing says how records ended; set it, for example\n" +
			"  receipts: {topic: feedsink.receipts, keyFile: /run/secrets/receipts-key}\n" +
			"and restart the sink: what ends from then on has receipts, and can be judged")
	}
	if o.Tables, err = ops.AuditTables(cfg); err != nil {
		return asUsage(err)
	}
	bar := newReading(cmd)
	report, err := ops.Audit(cmd.Context(), cfg, o, bar.at)
	bar.end()
	if err != nil {
		return err
	}
	report.From = asked
	if err := printResult(cmd, report, ops.AuditText(report)); err != nil {
		return err
	}
	if report.First() != nil {
		return errors.New("there are gaps")
	}
	return nil
}
