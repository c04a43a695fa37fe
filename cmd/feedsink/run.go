package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/schemas"
)

func newRun() *cobra.Command {
	var file, lane string
	var logs logFlags
	cmd := &cobra.Command{
		Use:   "run -c FILE",
		Short: "Run the sink until it is told to stop (SIGTERM)",
		RunE: func(cmd *cobra.Command, _ []string) error {
			lanes, err := parseLanes(lane)
			if err != nil {
				return err
			}
			log, err := logs.logger(os.Stderr)
			if err != nil {
				return err
			}
			cfg, err := loadConfig(file)
			if err != nil {
				return err
			}
			sink, err := connector.New(cfg, connector.Options{Lanes: lanes, Log: log, Version: version})
			if err != nil {
				return err
			}
			return sink.Run(cmd.Context())
		},
	}
	configFlag(cmd, &file)
	cmd.Flags().StringVar(&lane, "lane", "all", "what to run: immediate, batch or all")
	logs.register(cmd)
	return cmd
}

func configFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVarP(file, "config", "c", "feedsink.yaml", "configuration file")
}

func loadConfig(file string) (*config.Config, error) {
	cfg, err := config.Load(file, os.LookupEnv)
	if err != nil {
		return nil, &usageError{err}
	}
	return cfg, nil
}

func parseLanes(word string) ([]schemas.Lane, error) {
	switch word {
	case "all":
		return []schemas.Lane{schemas.Immediate, schemas.Batch}, nil
	case "immediate":
		return []schemas.Lane{schemas.Immediate}, nil
	case "batch":
		return []schemas.Lane{schemas.Batch}, nil
	}
	return nil, &usageError{fmt.Errorf("--lane: must be immediate, batch or all, is %q", word)}
}

// logFlags choose how much is logged, and in which form.
type logFlags struct{ level, format string }

func (l *logFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.level, "log-level", "info", "debug, info, warn or error")
	cmd.Flags().StringVar(&l.format, "log-format", "text", "text or json")
}

func (l *logFlags) logger(to io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		return nil, &usageError{fmt.Errorf("--log-level: must be debug, info, warn or error, is %q", l.level)}
	}
	opts := &slog.HandlerOptions{Level: level}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(to, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(to, opts)), nil
	}
	return nil, &usageError{fmt.Errorf("--log-format: must be text or json, is %q", l.format)}
}
