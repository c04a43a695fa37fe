package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/dev"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/observe"
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
	show := &show{out: newScreen(out), world: world, sink: sink, generator: dev.NewGenerator(seed), started: time.Now()}
	playErr := show.play(running, events)
	stop()
	if err := errors.Join(<-ended, playErr); err != nil {
		return err
	}
	return show.summary(out, events > 0)
}

// runService plays the service alone until ctx ends. Its reports are lines of
// its log.
func runService(cmd *cobra.Command, listen string) (err error) {
	var contents *dev.Contents
	file := configFile(cmd)
	if file != "" {
		cfg, err := config.LoadForSamples(file, os.LookupEnv)
		if err != nil {
			return asUsage(err)
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
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	key := s.APIKey
	if contents != nil && contents.APIKey != "" {
		key += ", or the one that " + file + " names"
	}
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), serviceText(s, key)); err != nil {
		return err
	}
	<-cmd.Context().Done()
	return nil
}

func serviceText(s *dev.Service, key string) string {
	lines := [][]string{
		{"service", s.URL + "  (base and token address)"}, {"page", s.URL + "/_sandbox/"}, {"entity", s.Entity}, {"API key", key},
	}
	name := "tables"
	for _, t := range s.Tables {
		lines = append(lines, []string{name, tableText(t)})
		name = ""
	}
	name = "ETLs"
	for _, e := range s.ETLs {
		lines = append(lines, []string{name, etlText(e)})
		name = ""
	}
	lines = append(lines, []string{"remote location", "crm  " + s.Folder}, []string{"transfer box", s.Entity + "  " + s.Dropped})
	return columns(lines) + "\n\nCtrl-C ends it; nothing is kept."
}

func tableText(t sandbox.Table) string {
	kind := "profiles by " + strings.Join(t.Keys, ", ")
	if t.Custom {
		kind = "records by businessKey"
	}
	if t.SlotsPerDay > 0 {
		kind += ", " + counted(t.SlotsPerDay, "import") + " a day"
	}
	if t.Link.Table != "" {
		kind += ", deleted with their " + t.Link.Table
	}
	return t.Name + "  " + kind
}

func etlText(e sandbox.ETL) string {
	var loads []string
	for _, l := range e.Loads {
		loads = append(loads, l.Table+" "+string(l.Mode))
	}
	text := e.ID + "  " + strings.Join(loads, " and ")
	if len(loads) > 1 {
		text += ", from one ZIP"
	}
	if e.Fetch.Remote != "" {
		text += ", from a file pushed or at the remote location " + e.Fetch.Remote
	}
	return text
}

// show produces the sample events and tells how the sink gets on with them.
type show struct {
	out       *screen
	world     *dev.Playground
	sink      *connector.Sink
	generator *dev.Generator
	started   time.Time
	took      time.Duration
	progress  dev.Progress
}

const (
	chunk      = 500 // events produced at once
	trickle    = 20  // events per step when there is no end
	step       = 250 * time.Millisecond
	stuckAfter = 2 * time.Minute // without any progress
)

// play produces events, all at once if their number is known, and returns when
// all are confirmed, or at the interrupt if there is no end.
func (s *show) play(ctx context.Context, events int) error {
	tick := time.NewTicker(step)
	defer tick.Stop()
	moved, before := time.Now(), int64(-1)
	for made := 0; ; {
		n := trickle
		if events > 0 {
			n = min(chunk, events-made)
		}
		if n > 0 {
			if err := s.produce(ctx, n); err != nil && ctx.Err() == nil {
				return err
			}
			made += n
		}
		if events == 0 || made == events {
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
		if ctx.Err() != nil {
			s.out.end()
			if events > 0 {
				return fmt.Errorf("%w before every event was confirmed", context.Canceled)
			}
			return nil
		}
		var err error
		if s.progress, err = s.world.Progress(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		s.took = time.Since(s.started)
		s.out.line(s.line())
		if events > 0 && made == events && s.progress.Done() {
			s.out.end()
			return nil
		}
		if s.progress.Confirmed != before {
			moved, before = time.Now(), s.progress.Confirmed
		}
		if events > 0 && time.Since(moved) > stuckAfter {
			s.out.end()
			return fmt.Errorf("nothing was confirmed for %v, and %d of %s before", stuckAfter, s.progress.Confirmed, counted(s.progress.Produced, "event"))
		}
	}
}

func (s *show) produce(ctx context.Context, n int) error {
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = s.generator.Next()
	}
	return s.world.Produce(ctx, records...)
}

func (s *show) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%5.1fs  %d of %s confirmed", s.took.Seconds(), s.progress.Confirmed, counted(s.progress.Produced, "event"))
	st, ok := s.sink.Status().(observe.Status)
	if !ok {
		return b.String()
	}
	for _, l := range st.Lanes {
		if l.Calls != nil {
			fmt.Fprintf(&b, " | calls: %d answered, %d in flight", s.calls(), l.Calls.InFlight)
		}
	}
	for _, m := range st.Mappings {
		if m.Batch != nil {
			fmt.Fprintf(&b, " | %s: %s in the open file", m.Name, counted(m.Batch.Rows, "row"))
			if m.Batch.Import != nil {
				fmt.Fprintf(&b, ", import %s", m.Batch.Import.Step)
			}
		}
	}
	if s.progress.Dead > 0 {
		fmt.Fprintf(&b, " | %s", counted(s.progress.Dead, "dead letter"))
	}
	return b.String()
}

// calls are the single writes the service answered, operations 1 to 7.
func (s *show) calls() (n int64) {
	for op := 1; op <= 7; op++ {
		n += s.world.Service.CallCount(op)
	}
	return n
}

// summary tells what happened and, if everything should be there, compares
// every table. An error means that something is not as it was sent.
func (s *show) summary(out io.Writer, compare bool) error {
	var rows, imports int64
	for _, e := range s.world.Service.Executions() {
		imports++
		rows += e.Results.Read
	}
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	p("")
	p("%s in %.1f s", counted(s.progress.Produced, "event"), s.took.Seconds())
	p("  immediate lane   %s", counted(s.calls(), "call"))
	p("  batch lane       %s in %s", counted(rows, "row"), counted(imports, "import"))
	if !compare {
		p("  dead letters     %d", s.progress.Dead)
		return nil
	}
	var wrong []string
	verdict := fmt.Sprintf("as expected: %s broken on purpose", counted(s.generator.Model.Dead, "event is", "events are"))
	if s.progress.Dead != int64(s.generator.Model.Dead) {
		verdict = fmt.Sprintf("WRONG: %s broken on purpose", counted(s.generator.Model.Dead, "event is", "events are"))
		wrong = append(wrong, "dead letters")
	}
	p("  dead letters     %d, %s", s.progress.Dead, verdict)
	for _, c := range s.generator.Model.Compare(s.world.Service) {
		if len(c.Differences) == 0 {
			p("  table %-10s %s, each equal to what was sent", c.Table, counted(c.Rows, "row"))
			continue
		}
		wrong = append(wrong, "table "+c.Table)
		p("  table %-10s %s, %s", c.Table, counted(c.Rows, "row"), counted(len(c.Differences), "DIFFERENCE", "DIFFERENCES"))
		for _, d := range c.Differences[:min(10, len(c.Differences))] {
			p("    %s", d)
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("not as it was sent: %s", strings.Join(wrong, ", "))
	}
	p("Every event is confirmed, and every table is equal to what was sent.")
	return nil
}
