package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/ops"
)

func newCheck() *cobra.Command {
	var file, output string
	var online bool
	cmd := &cobra.Command{
		Use:   "check -c FILE",
		Short: "Check a configuration: everything that can be known before running",
		Long: "check reads the configuration and reports every mistake with its line. With --online it also asks the\n" +
			"brokers for the topics and the service for a token. It sends and commits nothing.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(file)
			problems, wrong := errors.AsType[*config.Problems](err)
			if err != nil && (!wrong || output != "json") {
				return err
			}
			report := ops.Report{File: file}
			if wrong {
				report.Configuration = problems.List
			} else if online {
				report.Online = ops.CheckOnline(cmd.Context(), cfg)
			}
			if err := printResult(cmd.OutOrStdout(), output, report, report.String); err != nil {
				return err
			}
			switch {
			case wrong:
				return &usageError{fmt.Errorf("%s: %d mistakes", file, len(report.Configuration))}
			case report.Failed():
				return errors.New("some checks failed")
			}
			return nil
		},
	}
	configFlag(cmd, &file)
	outputFlag(cmd, &output)
	cmd.Flags().BoolVar(&online, "online", false, "also ask the brokers and the service")
	return cmd
}
