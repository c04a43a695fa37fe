package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/dev"
)

func newDev() *cobra.Command {
	var events int
	var seed uint64
	var verbose, serviceOnly bool
	var listen string
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Try it: embedded broker and service, sample events, the sink on top",
		Long: "dev starts a Kafka broker and the service inside this process, produces sample events and runs the\n" +
			"sink between them. With --events it stops by itself after that many, and compares every table with\n" +
			"what was sent. Nothing outside of this process is touched; its files are removed at the end.\n\n" +
			"With --service-only it is the service alone, for a sink or a script of yours, with a page that shows its\n" +
			"tables, executions and calls.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if events < 0 {
				return &usageError{fmt.Errorf("--events: must not be negative, is %d", events)}
			}
			if serviceOnly {
				for _, other := range []string{"events", "seed", "verbose"} {
					if cmd.Flags().Changed(other) {
						return &usageError{fmt.Errorf("--%s: makes no sense with --service-only", other)}
					}
				}
				return runService(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), listen)
			}
			if cmd.Flags().Changed("listen") {
				return &usageError{errors.New("--listen: makes no sense without --service-only")}
			}
			return runDev(cmd.Context(), cmd.OutOrStdout(), devOptions{events, seed, verbose})
		},
	}
	cmd.Flags().IntVar(&events, "events", 0, "stop after this many events; 0: go on until interrupted")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "which sample events")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show the sink's log")
	cmd.Flags().BoolVar(&serviceOnly, "service-only", false, "the service alone, until interrupted")
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8090", "address of the service, with --service-only")
	return cmd
}

type devOptions struct {
	events  int
	seed    uint64
	verbose bool
}

func runDev(ctx context.Context, out io.Writer, o devOptions) (err error) {
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
	if o.verbose {
		level = slog.LevelInfo
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	sink, err := connector.New(cfg, connector.Options{
		Log: log, Version: version, CommitEvery: 200 * time.Millisecond, FirstPoll: 300 * time.Millisecond,
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
	show := &show{out: newScreen(out), world: world, sink: sink, generator: dev.NewGenerator(o.seed), started: time.Now()}
	playErr := show.play(running, o.events)
	stop()
	if err := errors.Join(<-ended, playErr); err != nil {
		return err
	}
	return show.summary(out, o.events > 0)
}
