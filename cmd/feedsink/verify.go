package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/ops"
)

func newVerify() *cobra.Command {
	var rate, server string
	o := ops.VerifyOptions{}
	logs := logFlags{}
	cmd := &cobra.Command{
		Use:   "verify -c FILE --mapping NAME",
		Short: "Does the table say what the topic says? Compare table records with the newest state of each key",
		Long: "verify reads the newest state of each key from the mapping's topics, reads the table records, and says what differs:\n" +
			"how many keys, in which fields, and by which record they should be. It compares the columns that the records name. Left\n" +
			"out are keys with a record that the sink had not confirmed when verify began, or that came meanwhile, and what is a dead\n" +
			"letter. It runs beside the sink or without it, changes nothing, and waits while the immediate lane has a backlog.\n" +
			"--sample compares some keys, chosen by chance, and says what share of all differs at most. --repair sends the newest\n" +
			"states of the keys that differ again, as backfill does, never an older value over a newer one.\n" +
			"Profiles cannot be read: of them it says what is known, open dead letters and what is not confirmed.\n" +
			"It exits with 1 if something differs or could not be read; with --repair, if that was not all sent again.",
		Example: "  feedsink verify -c feedsink.yaml --mapping orders --sample 3000\n" +
			"  feedsink verify -c feedsink.yaml --mapping orders --rate 60/m --repair",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Rate, err = parseRate(rate); err != nil {
				return err
			}
			switch {
			case o.Sample < 0:
				return usagef("--sample: must not be negative, is %d", o.Sample)
			case o.Sample > 0 && o.Repair:
				return usagef("--repair: compares all keys, so that it goes without --sample")
			case o.GiveUp <= 0:
				return usagef("--give-up: must be above 0")
			}
			return runVerify(cmd, &logs, server, o)
		},
	}
	configFlag(cmd)
	mappingFlag(cmd, &o.Name)
	outputFlag(cmd)
	logs.registerQuiet(cmd)
	flags := cmd.Flags()
	flags.IntVar(&o.Sample, "sample", 0, "compare so many keys, chosen by chance; 0: all")
	flags.StringVar(&rate, "rate", "", "the most table records to read, such as 20/m, at most service.rate (default: a tenth of service.rate; 10/s without one)")
	flags.BoolVar(&o.Repair, "repair", false, "send the newest states of the keys that differ again")
	flags.BoolVar(&o.ShowValues, "show-value", false, "also keys and values: customers' data")
	flags.DurationVar(&o.GiveUp, "give-up", time.Minute, "stop when the service did not answer for so long")
	flags.StringVar(&server, "server", "", "of profiles: the admin server of a running sink, which is asked for today's imports")
	return cmd
}

func runVerify(cmd *cobra.Command, logs *logFlags, server string, o ops.VerifyOptions) error {
	cfg, log, err := logs.with(cmd, config.File.Config)
	if err != nil {
		return err
	}
	defer log.Close()
	o.Log = log.Logger
	watch := newBackfillProgress(cmd.ErrOrStderr())
	o.Tell = watch.verified
	report, err := ops.Verify(cmd.Context(), cfg, o)
	watch.end()
	if errors.Is(err, ops.ErrNoMapping) || errors.Is(err, ops.ErrRate) {
		return asUsage(err)
	}
	if err == nil && report.Known != nil && server != "" {
		_, sink, err := sinkOf(server, cfg.Admin, "")
		if err != nil {
			return err
		}
		var status observe.Status
		if err := sink.Status(cmd.Context(), &status); err != nil {
			return explained(err, server)
		}
		report.Known.Imports = importsOf(&status, report.Mapping)
	}
	if errors.Is(err, context.Canceled) && !report.Empty() {
		err = fmt.Errorf("%w; the keys that were compared until then are in the report", err)
	}
	switch err := printUnfinished(cmd, &report, &report.Error, err); {
	case err != nil:
		return err
	case report.Repaired():
		return nil
	case !report.Equal() && report.Known != nil:
		return errors.New("open dead letters of the mapping are not in the table")
	case !report.Equal():
		return errors.New("the table does not say what the topic says, as far as it is known")
	}
	return nil
}

func importsOf(s *observe.Status, mapping string) []observe.EndedImport {
	for _, m := range s.Mappings {
		if m.Name == mapping && m.Day != nil {
			return m.Day.Imports
		}
	}
	return []observe.EndedImport{}
}
