package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/samples"
	"github.com/feedsink/feedsink/connector/words"
)

func newTest() *cobra.Command {
	var update bool
	cmd := &cobra.Command{
		Use:   "test -c FILE SAMPLES.yaml",
		Short: "Compare what a configuration makes of sample events with what a file expects",
		Long: "test reads sample events from a file, sends what the configuration makes of them to a service inside this process,\n" +
			"and compares rows, the keys that came by files, and dead letters with what the file expects. It needs no Kafka, no\n" +
			"service and no secrets; ETLs need not be there yet. deploy/examples/samples has files to begin with. It exits with 1\n" +
			"if something differs.\n\n" +
			"--update writes what came about into the file, as what is expected from now on: review it. Events and comments stay,\n" +
			"apart from comments among what is rewritten.",
		Example: "  feedsink test -c feedsink.yaml samples.yaml\n" +
			"  feedsink test -c feedsink.yaml samples.yaml --update",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := load(cmd, config.File.ForSamples)
			if err != nil {
				return err
			}
			file := args[0]
			text, err := os.ReadFile(file)
			if err != nil {
				return asUsage(err)
			}
			s, err := samples.Read(text)
			if err != nil {
				return usagef("%s: %w", file, err)
			}
			tested, err := ops.Test(cmd.Context(), cfg, s)
			if _, ok := errors.AsType[*ops.SampleError](err); ok {
				return usagef("%s: %w", file, err)
			}
			if err != nil {
				return err
			}
			if update && len(tested.Differences) > 0 {
				if text, err = samples.Update(text, tested.Got); err != nil {
					return usagef("%s: %w", file, err)
				}
				if err := os.WriteFile(file, text, 0o600); err != nil { // which keeps the mode of a file that is there
					return err
				}
			}
			if err := printResult(cmd, tested, tested.Text(file, update)); err != nil {
				return err
			}
			if !update && len(tested.Differences) > 0 {
				return fmt.Errorf("%s: %s", file, words.Counted(len(tested.Differences), "difference"))
			}
			return nil
		},
	}
	configFlag(cmd)
	outputFlag(cmd)
	cmd.Flags().BoolVar(&update, "update", false, "write what came about into the file instead of failing")
	return cmd
}
