package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector"
	"github.com/feedsink/feedsink/connector/setup"
)

func newInit() *cobra.Command {
	var at setup.Place
	var out string
	var limit int64
	cmd := &cobra.Command{
		Use:   "init --brokers HOST:PORT --topic TOPIC",
		Short: "Look at a topic and write a commented configuration to begin with",
		Long: "init reads the topic's last records, outside of any consumer group, and writes a configuration for it: canonical\n" +
			"events and Debezium's are recognised, of everything else fields, types and key are guessed. The lines with DECIDE\n" +
			"are for you. It holds names, and no values, of the records.",
		Example: "  feedsink init --brokers kafka:9092 --topic crm.customers --out feedsink.yaml\n" +
			"  feedsink init --brokers kafka:9092 --topic crm.customers --registry http://registry:8081\n" +
			"  feedsink init --brokers kafka:9092 --topic shop.orders --custom-table orders",
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case len(at.Brokers) == 0:
				return &usageError{errors.New("--brokers: name at least one broker, host:port")}
			case at.Topic == "":
				return &usageError{errors.New("--topic: name the topic")}
			case at.ProfileTable != "" && at.CustomTable != "":
				return &usageError{errors.New("--profile-table, --custom-table: a topic is mapped to one table")}
			case limit < 1:
				return &usageError{errors.New("--limit: must be above 0")}
			}
			text, err := connector.Guess(cmd.Context(), at, limit)
			if err != nil {
				return err
			}
			if out == "" {
				_, err := fmt.Fprint(cmd.OutOrStdout(), text)
				return err
			}
			return writeNew(out, text)
		},
	}
	cmd.Flags().StringSliceVar(&at.Brokers, "brokers", nil, "brokers to ask, host:port")
	cmd.Flags().StringVar(&at.Topic, "topic", "", "topic to look at")
	cmd.Flags().StringVar(&at.Registry, "registry", "", "address of the schema registry, if values are written through one")
	cmd.Flags().StringVar(&at.ProfileTable, "profile-table", "", "name of the profile table that it feeds")
	cmd.Flags().StringVar(&at.CustomTable, "custom-table", "", "name of the custom table that it feeds")
	cmd.Flags().StringVar(&out, "out", "", "file to write, which must not be there yet (default: standard output)")
	cmd.Flags().Int64Var(&limit, "limit", 1000, "how many records to look at, the last ones")
	return cmd
}

// writeNew never writes over what somebody decided.
func writeNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
