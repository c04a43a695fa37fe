package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/dev"
	"github.com/feedsink/feedsink/connector/ops"
)

func newDev() *cobra.Command {
	var events int
	var seed uint64
	var verbose, serviceOnly bool
	var listen string
	cmd := &cobra.Command{
		Use:   "dev [--service-only [-c FILE]]",
		Short: "Try it: embedded broker and service, sample events, the sink on top",
		Long: "dev starts a Kafka broker and the service inside this process, produces sample events and runs the\n" +
			"sink between them. With --events it stops by itself after that many, and compares every table with\n" +
			"what was sent. Nothing outside of this process is touched; its files are removed at the end.\n\n" +
			"With --service-only it is the service alone, for a sink or a script of yours, with a page that shows its\n" +
			"tables, executions and calls. With -c FILE it has the entity, tables, ETLs and imports per day of that\n" +
			"configuration, and takes its API key; the types that the file names are checked, any other field is taken.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if events < 0 {
				return usagef("--events: must not be negative, is %d", events)
			}
			if serviceOnly {
				for _, other := range []string{"events", "seed", "verbose"} {
					if cmd.Flags().Changed(other) {
						return usagef("--%s: makes no sense with --service-only", other)
					}
				}
				return runService(cmd, listen)
			}
			for _, other := range []string{"listen", "config"} {
				if cmd.Flags().Changed(other) {
					return usagef("--%s: makes no sense without --service-only", other)
				}
			}
			return runDev(cmd.Context(), cmd.OutOrStdout(), events, seed, verbose)
		},
	}
	cmd.Flags().IntVar(&events, "events", 0, "stop after this many events; 0: go on until interrupted")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "which sample events")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show the sink's log")
	cmd.Flags().BoolVar(&serviceOnly, "service-only", false, "the service alone, until interrupted")
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8090", "address of the service, with --service-only")
	cmd.Flags().StringP("config", "c", "", "with --service-only: tables, ETLs and imports per day of this configuration")
	return cmd
}

func runDev(ctx context.Context, out io.Writer, events int, seed uint64, verbose bool) (err error) {
	dir, err := os.MkdirTemp("", "feedsink-dev-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	world, err := dev.Start(ctx, dir)
	if err != nil {
		return err
	}
	defer world.Close()
	path, env, err := world.Configuration()
	if err != nil {
		return err
	}
	cfg, err := config.Load(path, env)
	if err != nil {
		return err
	}
	level := slog.LevelError
	if verbose {
		level = slog.LevelInfo
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	sink, err := connector.New(cfg, connector.Options{ //nolint:contextcheck // it has one from Run on
		Load: func() (*config.Config, error) { return config.Load(path, env) },
		Log:  log, Version: version, Commit: revision(), CommitEvery: 200 * time.Millisecond, FirstPoll: 300 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "broker   %s\nservice  %s\nstatus   http://%s/\nconfig   %s\n\n", world.Brokers[0], world.URL, sink.AdminAddress(), path)

	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- sink.Run(running)
		stop() // a sink that ends early ends the show
	}()
	screen := newScreen(out)
	show := &dev.Show{World: world, Generator: dev.NewGenerator(seed), Status: sink.Status, Tell: screen.line, End: screen.end}
	playErr := show.Play(running, events)
	stop()
	if err := errors.Join(<-ended, playErr); err != nil {
		return err
	}
	var summary strings.Builder
	wrong := show.Summary(&summary, events > 0)
	_, err = io.WriteString(out, summary.String()) // who cannot read the verdict must not take it for a good one
	return errors.Join(wrong, err)
}

// runService plays the service alone until ctx ends. Its reports are lines of
// its log.
func runService(cmd *cobra.Command, listen string) (err error) {
	var contents *dev.Contents
	file := configFile(cmd)
	if file != "" {
		cfg, err := load(cmd, config.File.ForSamples)
		if err != nil {
			return err
		}
		if contents, err = ops.Service(cfg); err != nil {
			return asUsage(err)
		}
	}
	dir, err := os.MkdirTemp("", "feedsink-dev-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := dev.StartService(dir, listen, slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)), contents)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: choose another address with --listen", err)
	}
	if _, ok := errors.AsType[*net.AddrError](err); ok {
		return usagef("--listen: must be HOST:PORT, is %q", listen)
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return usagef("--listen: %w; write HOST:PORT of this machine", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	key := s.APIKey
	if contents != nil && contents.APIKey != "" {
		key += ", or the one that " + file + " names"
	}
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), s.Text(key)); err != nil {
		return err
	}
	<-cmd.Context().Done()
	return nil
}
