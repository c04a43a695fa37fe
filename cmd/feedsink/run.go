package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/logs"
	"github.com/feedsink/feedsink/schemas"
)

func newRun() *cobra.Command {
	var file, lane string
	var flags logFlags
	cmd := &cobra.Command{
		Use:   "run -c FILE",
		Short: "Run the sink until it is told to stop (SIGTERM, SIGINT or SIGHUP)",
		RunE: func(cmd *cobra.Command, _ []string) error {
			lanes, err := parseLanes(lane)
			if err != nil {
				return err
			}
			cfg, log, err := flags.with(file, os.Stderr)
			if err != nil {
				return err
			}
			defer log.Close()
			sink, err := connector.New(cfg, connector.Options{Lanes: lanes, Log: log.Logger, Levels: log, Version: version, Wall: wall})
			if err != nil {
				return err
			}
			return sink.Run(cmd.Context())
		},
	}
	configFlag(cmd, &file)
	cmd.Flags().StringVar(&lane, "lane", "all", "what to run: immediate, batch or all")
	flags.register(cmd)
	return cmd
}

// wall is the sink's Wall; see movedclock.go.
var wall func() time.Time

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

// logFlags choose how much is logged, and in which form, whatever the
// configuration says.
type logFlags struct{ level, format string }

func (l *logFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.level, "log-level", "", "debug, info, warn or error (default: the configuration's)")
	cmd.Flags().StringVar(&l.format, "log-format", "", "text or json (default: the configuration's)")
}

// open returns the log for a command; it must be closed.
func (l *logFlags) open(to io.Writer, cfg config.Log) (*logs.Log, error) {
	log, err := logs.New(to, logs.Config{Level: cmp.Or(l.level, cfg.Level), Format: cmp.Or(l.format, cfg.Format)})
	if err != nil {
		return nil, &usageError{fmt.Errorf("--log-%w", err)}
	}
	return log, nil
}

// with reads the configuration and opens the log that it asks for.
func (l *logFlags) with(file string, to io.Writer) (*config.Config, *logs.Log, error) {
	cfg, err := loadConfig(file)
	if err != nil {
		return nil, nil, err
	}
	log, err := l.open(to, cfg.Log)
	return cfg, log, err
}
