package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/why"
)

func newWhy() *cobra.Command {
	var o ops.WhyOptions
	var businessKey, record, since, server string
	cmd := &cobra.Command{
		Use:   "why -c FILE --mapping NAME (KEY... | --profile-id ID | --record PLACE)",
		Short: "Tell of each record of a key where it is: confirmed, waiting for what, superseded, or a dead letter",
		Long: "why finds the records of a key in a mapping's topics, and tells of each what it would do, by which route and lane,\n" +
			"and where it is. KEY is what the table knows the row by: the value of the unique key, or the business key. It works\n" +
			"beside the running sink and without it, and changes nothing. What is not certain it calls unknown, and says why.\n" +
			"With receipts.topic it tells how and when each record ended, and by which execution. Values: with --show-value only.\n\n" +
			why.Meanings.Columns() +
			"\n\nIt exits with 1 if a key has no record.",
		Example: "  feedsink why -c feedsink.yaml --mapping orders 4c1f0c1e\n" +
			"  feedsink why -c feedsink.yaml --mapping customers --since 7d --show-value C000123\n" +
			"  feedsink why -c feedsink.yaml --mapping orders --record 'shop.orders[2]@1017' -o json",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.Keys = args; businessKey != "" {
				o.Keys = append(o.Keys, businessKey)
			}
			asked := min(len(o.Keys), 1) + min(len(o.ProfileID), 1) + min(len(record), 1)
			place, ok := why.ParsePlace(record)
			if o.Record = &place; record == "" {
				o.Record = nil
			}
			switch {
			case record != "" && !ok:
				return usagef("--record: must be TOPIC[PARTITION]@OFFSET, such as shop.orders[2]@1017, is %q", record)
			case asked != 1:
				return usagef("say which row: by its KEY, --profile-id or --record, and by one of them")
			case slices.Contains(o.Keys, ""):
				return usagef("KEY: must not be empty")
			}
			if o.Since, err = parseTime(since, time.Now()); err != nil {
				return usagef("--since: %w", err)
			}
			return runWhy(cmd, o, server)
		},
	}
	configFlag(cmd)
	outputFlag(cmd)
	mappingFlag(cmd, &o.Name)
	flags := cmd.Flags()
	flags.StringVar(&businessKey, "business-key", "", "of a custom table's record: the same as KEY")
	flags.StringVar(&o.ProfileID, "profile-id", "", "the service's id of the profile, where records have it")
	flags.StringVar(&record, "record", "", "one of the row's records, as TOPIC[PARTITION]@OFFSET: that of a dead letter on the page, for example")
	flags.StringVar(&since, "since", "", "only records of this time on: 2026-11-21, 2026-11-21T10:00:00Z, or an age such as 36h or 7d (default: all)")
	flags.StringVar(&o.RecordKey, "record-key", "", "read only the partition to which Kafka's own producers send records with this key; give it if all records of the row have it")
	flags.BoolVar(&o.Values, "show-value", false, "also values, and what the service said about them: customers' data")
	flags.StringVar(&server, "server", "", "the admin server of the sink that is asked what its lanes wait for (default: the configuration's)")
	return cmd
}

// errNoRecord says that a key has no record, as the report does.
var errNoRecord = errors.New("no record was found")

func runWhy(cmd *cobra.Command, o ops.WhyOptions, server string) error {
	cfg, log, err := quiet.with(cmd, forPlan)
	if err != nil {
		return err
	}
	defer log.Close()
	bar := newReading(cmd)
	defer bar.end()
	o.Log, o.Progress = log.Logger, bar.at
	o.Running = func(ctx context.Context) (ops.Running, error) { return askRunning(ctx, server, cfg.Admin) }
	report, err := ops.Why(cmd.Context(), cfg, o)
	bar.end()
	switch {
	case errors.Is(err, ops.ErrNoMapping):
		return asUsage(err)
	case err != nil:
		return err
	}
	if err := printResult(cmd, report, report.Text()); err != nil {
		return err
	}
	if slices.ContainsFunc(report.Keys, func(k why.Key) bool { return len(k.Records) == 0 }) {
		return fmt.Errorf("%w of some key", errNoRecord)
	}
	return nil
}

// runningTimeout is how long a sink is waited for: why does without it.
const runningTimeout = 3 * time.Second

// askRunning asks the sink what its lanes wait for.
func askRunning(ctx context.Context, server string, cfg config.Admin) (running ops.Running, err error) {
	_, client, err := sinkOf(server, cfg, "")
	if err != nil {
		return running, err
	}
	ctx, cancel := context.WithTimeout(ctx, runningTimeout)
	defer cancel()
	return running, client.Status(ctx, &running)
}
