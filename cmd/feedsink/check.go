package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/online"
	"github.com/feedsink/feedsink/connector/words"
)

func newCheck() *cobra.Command {
	var ask bool
	var records int64
	cmd := &cobra.Command{
		Use:   "check -c FILE",
		Short: "Check a configuration: everything that can be known before running",
		Long: "check reads the configuration and reports every mistake with its line, and as a warning what can work but is\n" +
			"likely not meant. With --online it also asks brokers, schema registry and service whether they are there and have what\n" +
			"the configuration names, which rights the login has, what would become of the last records, and which paths of a\n" +
			"mapping none of them has. It takes 10 seconds at most, writes nothing, joins no group and commits nothing. Each check\n" +
			"is OK, WARN (a sink runs all the same), FAIL, or NOT CHECKED where it cannot be asked. With FAIL\n" +
			"the exit code is 1, with a mistake in the configuration 2.",
		Example: "  feedsink check -c feedsink.yaml\n" +
			"  feedsink check -c feedsink.yaml --online --records 1000\n" +
			"  feedsink check -c feedsink.yaml --online -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := readConfig(cmd)
			if err != nil {
				return err
			}
			cfg, err := file.Config(os.LookupEnv)
			problems, wrong := errors.AsType[*config.Problems](err)
			if err != nil && (!wrong || !wantsJSON(cmd)) {
				return asUsage(err)
			}
			if records < 0 {
				return usagef("--records must not be below 0")
			}
			report := online.Report{File: file.Name, Configuration: []config.Problem{}}
			if wrong {
				report.Configuration = problems.List
			} else if report.Warnings = file.Warnings(os.LookupEnv); ask {
				report.Online = online.Run(cmd.Context(), cfg, records)
				if err := cmd.Context().Err(); err != nil { // what was broken off has not failed
					return err
				}
			}
			if err := printResult(cmd, report, report.String()); err != nil {
				return err
			}
			switch {
			case wrong:
				return usagef("%s: %s", file.Name, words.Counted(len(report.Configuration), "mistake"))
			case report.Failed() > 0:
				return fmt.Errorf("%s of %d failed", words.Counted(report.Failed(), "check"), len(report.Online))
			}
			return nil
		},
	}
	configFlag(cmd)
	outputFlag(cmd)
	cmd.Flags().BoolVar(&ask, "online", false, "also ask brokers, schema registry and service")
	cmd.Flags().Int64Var(&records, "records", 200, "with --online: how many of the last records of each topic to look at; 0: none")
	return cmd
}
