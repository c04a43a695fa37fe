package main

import (
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/ops"
)

func newPlan() *cobra.Command {
	var sample ops.Sample
	var since string
	var show bool
	cmd := &cobra.Command{
		Use:   "plan -c FILE",
		Short: "Read a sample of the topics and show what would go out; send and commit nothing",
		Long: "plan reads the last records of the configured topics, outside of any consumer group, and shows what a sink would\n" +
			"make of them: calls, rows, files and imports, whether the day's imports and service.rate suffice if every day were\n" +
			"as the sample, which records would be dead letters, and why, and which paths no record has.\n" +
			"Neither ETLs nor the service's API key need be there yet. --show prints requests and lines of CSV: customers' data.\n\n" +
			"Calls that say what the last one of their key has said are counted: what `unchanged: skip` saves or, where it could be\n" +
			"set and that is a tenth of them at least, would save. A sink forgets keys that it has no room for, and at a restart: it saves less.\n\n" +
			"It also compares the lanes immediate, batch and auto for all of a mapping's records: calls, imports, slots and how\n" +
			"old rows get, and recommends one. For that it plays the sample once, minute by minute: it begins with nothing waiting,\n" +
			"ends when all rows have landed, an import takes two minutes and none fails, service.rate is spread evenly and divided\n" +
			"by weights among the mappings that make calls (without it no call waits), writes of a key within a second are one row\n" +
			"and no more rows wait than there are keys. Where partitions have more records than are read, it begins when all of\n" +
			"them were read. Read as long a span as you can: a snapshot in it decides.",
		Example: "  feedsink plan -c feedsink.yaml\n" +
			"  feedsink plan -c feedsink.yaml --since 24h --limit 1000000 -o json\n" +
			"  feedsink plan -c feedsink.yaml --limit 1000 --show",
		RunE: func(cmd *cobra.Command, _ []string) error {
			now := time.Now()
			var err error
			if sample.Since, err = parseTime(since, now); err != nil {
				return usagef("--since: %w", err)
			}
			if sample.Limit < 1 || sample.Since.After(now) {
				return usagef("--limit must be above 0, and --since not in the future")
			}
			file, err := readConfig(cmd)
			if err != nil {
				return err
			}
			cfg, err := forPlan(file, os.LookupEnv)
			if err != nil {
				return asUsage(err)
			}
			if show {
				sample.Show = 2
			}
			bar := newReading(cmd)
			sample.Progress = bar.at
			report, err := ops.Plan(cmd.Context(), cfg, sample)
			bar.end()
			if err != nil {
				return err
			}
			report.BeforeRun = beforeRun(file)
			return printResult(cmd, report, report.Text(file.Name))
		},
	}
	configFlag(cmd)
	outputFlag(cmd)
	cmd.Flags().Int64Var(&sample.Limit, "limit", 100_000, "how many records to read, the last ones of all partitions")
	cmd.Flags().StringVar(&since, "since", "", "only records of this time on: 2026-11-21, 2026-11-21T10:00:00Z, or an age such as 36h or 7d (default: whatever their age)")
	cmd.Flags().BoolVar(&show, "show", false, "also print some of the requests and lines of CSV")
	return cmd
}

// forPlan is a configuration whose secrets of the service, of the admin server and
// of receipts may be missing, too: neither server is asked, and no receipt is written. What
// is missing is part of the report.
func forPlan(file config.File, env func(string) (string, bool)) (*config.Config, error) {
	cfg, err := file.Unfinished(env)
	problems, ok := errors.AsType[*config.Problems](err)
	if !ok || slices.ContainsFunc(problems.List, func(p config.Problem) bool {
		return !strings.HasPrefix(p.Path, "service.") && !strings.HasPrefix(p.Path, "admin.") && p.Path != "receipts.keyFile"
	}) {
		return cfg, err
	}
	return file.ForSamples(env)
}

// beforeRun is what a sink would refuse to start with, apart from ETLs that have
// still to be created.
func beforeRun(file config.File) []config.Problem {
	_, err := file.Config(os.LookupEnv)
	problems, ok := errors.AsType[*config.Problems](err)
	if !ok {
		return nil
	}
	return slices.DeleteFunc(problems.List, func(p config.Problem) bool {
		return strings.HasSuffix(p.Path, ".etl") && p.Message == "missing"
	})
}
