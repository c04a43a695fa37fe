package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() { os.Exit(run()) }

// run does what the command line says and returns the exit code.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 3 && os.Args[1] == roleArgument {
		if err := play(ctx, os.Args[2]); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[2], err)
			return 1
		}
		return 0
	}
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	if err := measureAll(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		return 1
	}
	return 0
}

// options are the command line.
type options struct {
	quick   bool   // one short repetition of everything
	only    string // part of the lines' and scenarios' names
	format  string // text | json
	profile string // directory of the sink's profiles, "" for none
	save    bool   // into RESULTS.md

	growth  bool // instead of the lines
	compare bool // likewise
	soak    bool // likewise
	length  time.Duration
}

func (o options) wants(name string) bool { return strings.Contains(name, o.only) }

// parse reads the command line. What is wrong with it, and help, goes to usage.
func parse(args []string, usage io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.BoolVar(&o.quick, "quick", false, "one short repetition of each line, a minute in all")
	flags.StringVar(&o.only, "only", "", "only the lines and scenarios whose name contains this")
	flags.StringVar(&o.format, "o", "text", "text or json")
	flags.StringVar(&o.profile, "profile", "", "directory for CPU and allocation profiles of the sink, two for each run")
	flags.BoolVar(&o.save, "write", false, "also put the results into "+resultsFile)
	flags.BoolVar(&o.growth, "growth", false, "instead: CPU and memory at backlogs of 1, 10 and 50 million records, ten minutes")
	flags.BoolVar(&o.compare, "compare", false, "instead: the same jobs by loops as a team would write them, and by another sink")
	flags.BoolVar(&o.soak, "soak", false, "instead: continuous load on both lanes, judged flat or not")
	flags.DurationVar(&o.length, "for", 45*time.Minute, "how long -soak lasts, from 3m")
	if err := flags.Parse(args); err != nil {
		return o, err // which Parse has told
	}
	if err = o.check(flags.Args()); err != nil {
		_, _ = fmt.Fprintln(usage, err) // nobody is left to tell
	}
	return o, err
}

func (o options) check(rest []string) error {
	modes := 0
	for _, asked := range []bool{o.growth, o.compare, o.soak} {
		if asked {
			modes++
		}
	}
	someLine := slices.ContainsFunc(lines(o.quick), func(l line) bool { return o.wants(l.name) })
	known := someLine || slices.ContainsFunc(scenarios(), func(s scenario) bool { return o.wants(s.name) })
	switch {
	case len(rest) > 0:
		return fmt.Errorf("bench: takes no arguments, has %q", rest)
	case o.format != "text" && o.format != "json":
		return fmt.Errorf("bench: -o: must be text or json, is %q", o.format)
	case modes > 1 || modes == 1 && (o.only != "" || o.quick && !o.growth):
		return errors.New("bench: -growth, -compare and -soak each go alone; only -growth has a -quick")
	case !known:
		return fmt.Errorf("bench: -only: no line or scenario has %q in its name", o.only)
	case o.save && (o.quick || o.only != "" && someLine):
		return errors.New("bench: -write: what is written is whole: without -quick, and with -only for scenarios alone")
	case o.length < 3*time.Minute:
		return fmt.Errorf("bench: -for: must be at least 3m, is %v", o.length)
	}
	return nil
}

// measureAll measures what was asked for and prints what came out.
func measureAll(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "feedsink-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	f, err := openField(ctx, dir, o.profile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	report := report{Machine: machine(), Commit: commit(ctx), Quick: o.quick}
	before := readTicks()
	switch {
	case o.growth:
		err = report.scenario(ctx, f, scenario{name: "growth", run: growingBacklogs}, o.quick)
	case o.compare:
		if err = report.scenario(ctx, f, scenario{name: "comparison", run: compare}, false); err == nil {
			err = report.scenario(ctx, f, scenario{name: "comparison of files", run: compareFiles}, false)
		}
	case o.soak:
		err = report.scenario(ctx, f, scenario{name: "soak", run: func(ctx context.Context, f *field, _ bool) ([]finding, error) {
			return soak(ctx, f, o.length)
		}}, false)
	default:
		err = report.everything(ctx, f, o)
	}
	if err != nil {
		return err
	}
	report.Stolen = readTicks().stolenSince(before)
	if o.save {
		if err := report.save(resultsFile); err != nil {
			return err
		}
	}
	return report.write(os.Stdout, o.format)
}

// everything measures the lines, then the scenarios, one after the other.
func (r *report) everything(ctx context.Context, f *field, o options) error {
	beforeLines := readTicks()
	for _, l := range lines(o.quick) {
		if !o.wants(l.name) {
			continue
		}
		began, before := time.Now(), readTicks()
		measured, err := f.measure(ctx, l, repetitions(o.quick))
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		r.Lines = append(r.Lines, measured)
		tell(l.name, began, readTicks().stolenSince(before))
	}
	r.LinesStolen = readTicks().stolenSince(beforeLines)
	for _, s := range scenarios() {
		if !o.wants(s.name) || o.quick && !s.quick {
			continue
		}
		if err := r.scenario(ctx, f, s, o.quick); err != nil {
			return err
		}
	}
	return nil
}

func (r *report) scenario(ctx context.Context, f *field, s scenario, quick bool) error {
	began, before := time.Now(), readTicks()
	found, err := s.run(ctx, f, quick)
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	stolen := readTicks().stolenSince(before)
	r.Scenarios = append(r.Scenarios, outcome{s.name, found, s.repeated, stolen})
	tell(s.name, began, stolen)
	return nil
}

// tell says on the standard error what is done.
func tell(name string, began time.Time, stolen *float64) {
	fmt.Fprintf(os.Stderr, "%-45s %.0f s%s\n", name, time.Since(began).Seconds(), hostTook(stolen))
}
