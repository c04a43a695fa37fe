package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/config"
)

func configFlag(cmd *cobra.Command) {
	cmd.Flags().StringP("config", "c", "feedsink.yaml", "configuration file, - for standard input")
}

func configFile(cmd *cobra.Command) string { return cmd.Flag("config").Value.String() }

// readConfig reads the file that --config names. A command reads it once: a pipe has nothing
// left to be read again.
func readConfig(cmd *cobra.Command) (config.File, error) {
	if configFile(cmd) == "-" {
		data, err := readAll(cmd.Context(), cmd.InOrStdin())
		return config.File{Name: "standard input", Data: data}, err
	}
	file, err := config.Read(configFile(cmd))
	return file, asUsage(err)
}

// needed is what a command needs of a configuration: config.File.Config is all,
// config.File.Unfinished all but ETLs, forPlan does without the service, and
// config.File.ForSamples without the brokers, too.
type needed func(file config.File, env func(string) (string, bool)) (*config.Config, error)

func load(cmd *cobra.Command, as needed) (*config.Config, error) {
	file, err := readConfig(cmd)
	if err != nil {
		return nil, err
	}
	cfg, err := as(file, os.LookupEnv)
	return cfg, asUsage(err)
}

// readAll reads what may not end, such as a terminal, until it ends or ctx does.
func readAll(ctx context.Context, from io.Reader) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	read := make(chan result, 1)
	go func() {
		data, err := io.ReadAll(from)
		read <- result{data, err}
	}()
	select {
	case r := <-read:
		return r.data, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
