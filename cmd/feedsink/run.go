package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector"
	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/logs"
	"github.com/feedsink/feedsink/connector/reload"
	"github.com/feedsink/feedsink/schemas"
)

func newRun() *cobra.Command {
	var lane string
	var watch bool
	var flags logFlags
	cmd := &cobra.Command{
		Use:   "run -c FILE",
		Short: "Run the sink until it is told to stop (SIGTERM or SIGINT)",
		Long: "run carries records from Kafka to the service until SIGTERM or SIGINT: then it finishes the calls in flight, commits\n" +
			"and leaves the consumer groups.\n\n" +
			"SIGHUP has it read the configuration file again, as feedsink reload does, and with --watch it does so by itself a few\n" +
			"seconds after the file has changed: a ConfigMap, too. What became of it is in the log, at /status and in the metric\n" +
			"feedsink_config_last_reload_successful.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			lanes, err := parseLanes(lane)
			if err != nil {
				return err
			}
			path := configFile(cmd)
			if path == "-" {
				return usagef("--config: run reads its file again when it reloads, which standard input cannot be; name a file")
			}
			hangups := hangUps()
			watched := reload.NewWatch(path)
			file, cfg, err := flags.read(path)
			if err != nil {
				return err
			}
			log, err := flags.open(os.Stderr, cfg.Log)
			if err != nil {
				return err
			}
			defer log.Close()
			told := &toldWarnings{log: log.Logger}
			told.tell(file)
			load := func() (*config.Config, error) {
				file, cfg, err := flags.read(path)
				if err == nil {
					told.tell(file)
				}
				return cfg, err
			}
			sink, err := connector.New(cfg, connector.Options{Lanes: lanes, Log: log.Logger, Levels: log, Load: load, Version: version, Commit: revision(), Wall: wall})
			if errors.Is(err, connector.ErrNoLane) {
				return usagef("--lane %s: no mapping of %s uses this lane; add a route to it, or run the other lane alone", lane, path)
			}
			if err != nil {
				return err
			}
			return runReloading(cmd.Context(), sink, hangups, watch, watched)
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "reload the configuration file by itself when it changes")
	configFlag(cmd)
	cmd.Flag("config").Usage = "configuration file"
	cmd.Flags().StringVar(&lane, "lane", "all", "what to run: immediate, batch or all")
	flags.register(cmd)
	return cmd
}

// toldWarnings logs what check warns of, since a sink may be started, or reload, without a
// check before it.
type toldWarnings struct {
	log  *slog.Logger
	told map[config.Problem]bool // without their places, which lines above them move
}

// tell logs the file's warnings that it did not have when it was read last.
func (w *toldWarnings) tell(file config.File) {
	now := map[config.Problem]bool{}
	for _, found := range file.Warnings(os.LookupEnv) {
		key := found
		key.Line, key.Column = 0, 0
		if !w.told[key] {
			w.log.Warn("the configuration can work, but says what is likely not meant", "warning", found.In(file.Name))
		}
		now[key] = true
	}
	w.told = now
}

// hangUps takes SIGHUP over from what ends other commands. It reloads, whether or not the
// process was started to ignore it.
func hangUps() <-chan os.Signal {
	signal.Reset(syscall.SIGHUP)
	came := make(chan os.Signal, 1)
	signal.Notify(came, syscall.SIGHUP)
	return came
}

// runReloading runs the sink, and has it reload after a SIGHUP and, if that is asked for,
// when the file has changed.
func runReloading(ctx context.Context, sink *connector.Sink, hangups <-chan os.Signal, watch bool, file *reload.Watch) error {
	beside, stop := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer stop()
	again := func(ctx context.Context) { _, _ = sink.Reload(ctx) } // the log tells of its result
	helpers.Go(func() {
		for {
			select {
			case <-beside.Done():
				return
			case <-hangups:
				again(beside)
			}
		}
	})
	if watch {
		helpers.Go(func() { file.Run(beside, again) })
	}
	return sink.Run(ctx)
}

// wall is the sink's Wall; see movedclock.go.
var wall func() time.Time

func parseLanes(word string) ([]schemas.Lane, error) {
	lanes, known := map[string][]schemas.Lane{
		"all": {schemas.Immediate, schemas.Batch}, "immediate": {schemas.Immediate}, "batch": {schemas.Batch},
	}[word]
	if !known {
		return nil, usagef("--lane: must be immediate, batch or all, is %q", word)
	}
	return lanes, nil
}

// logFlags choose how much is logged, and in which form, whatever the
// configuration says.
type logFlags struct{ level, format string }

func (l *logFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.level, "log-level", "", "debug, info, warn or error (default: the configuration's)")
	cmd.Flags().StringVar(&l.format, "log-format", "", "text or json (default: the configuration's)")
}

// registerQuiet is for commands of which progress and report say the rest.
func (l *logFlags) registerQuiet(cmd *cobra.Command) {
	l.register(cmd)
	flag := cmd.Flags().Lookup("log-level")
	flag.Usage, _, _ = strings.Cut(flag.Usage, " (")
	l.level, flag.DefValue = "warn", "warn"
}

// quiet is for commands without flags for the log.
var quiet = logFlags{level: "warn"}

// over puts the flags over the configuration.
func (l *logFlags) over(cfg *config.Log) {
	cfg.Level, cfg.Format = cmp.Or(l.level, cfg.Level), cmp.Or(l.format, cfg.Format)
}

// open returns the log for a command; it must be closed.
func (l *logFlags) open(to io.Writer, cfg config.Log) (*logs.Log, error) {
	l.over(&cfg)
	log, err := logs.New(to, logs.Config{Level: cfg.Level, Format: cfg.Format})
	if err != nil {
		return nil, usagef("--log-%w", err)
	}
	return log, nil
}

// read reads the configuration file at path.
func (l *logFlags) read(path string) (config.File, *config.Config, error) {
	file, err := config.Read(path)
	if err != nil {
		return file, nil, asUsage(err)
	}
	cfg, err := file.Config(os.LookupEnv)
	if err != nil {
		return file, nil, asUsage(err)
	}
	l.over(&cfg.Log)
	return file, cfg, nil
}

// with reads what a command needs of its configuration and opens the log that it asks for.
func (l *logFlags) with(cmd *cobra.Command, as needed) (*config.Config, *logs.Log, error) {
	cfg, err := load(cmd, as)
	if err != nil {
		return nil, nil, err
	}
	log, err := l.open(cmd.ErrOrStderr(), cfg.Log)
	return cfg, log, err
}

func newLogLevel() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log-level [debug|info|warn|error]",
		Short: "Show a running sink's log level, or change it",
		Long: "log-level asks one running sink how much it logs, or has it log more or less from now on, until it is\n" +
			"changed again or the process ends; then the configuration says again.",
		Example: "  feedsink log-level -c feedsink.yaml debug\n" +
			"  kubectl exec POD -- /feedsink log-level -c /etc/feedsink/feedsink.yaml debug",
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: logLevels,
	}
	cmd.PreRunE = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 && !slices.Contains(logLevels, strings.ToLower(args[0])) {
			return usagef("log-level: must be debug, info, warn or error, is %q", args[0])
		}
		return nil
	}
	askSink(cmd, func(ctx context.Context, c *admin.Client, args []string) (any, string, error) {
		var is admin.LogLevelAnswer
		err := c.LogLevel(ctx, &is)
		if err == nil && len(args) > 0 {
			err = c.SetLogLevel(ctx, args[0], &is)
		}
		return is, is.Level, err
	})
	return cmd
}
