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
	only    string // part of the lines' names
	format  string // text | json
	profile string // directory of the sink's profiles, "" for none
}

func (o options) wants(l line) bool { return strings.Contains(l.name, o.only) }

func (o options) repetitions() int {
	if o.quick {
		return 1
	}
	return 3
}

// parse reads the command line. What is wrong with it, and help, goes to usage.
func parse(args []string, usage io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.BoolVar(&o.quick, "quick", false, "one short repetition of each line, about two minutes")
	flags.StringVar(&o.only, "only", "", "only the lines whose name contains this")
	flags.StringVar(&o.format, "o", "text", "text or json")
	flags.StringVar(&o.profile, "profile", "", "directory for CPU and allocation profiles of the sink, two for each run")
	if err := flags.Parse(args); err != nil {
		return o, err // which Parse has told
	}
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("bench: takes no arguments, has %q", flags.Args())
	case o.format != "text" && o.format != "json":
		err = fmt.Errorf("bench: -o: must be text or json, is %q", o.format)
	case !slices.ContainsFunc(lines(o.quick), o.wants):
		err = fmt.Errorf("bench: -only: no line has %q in its name", o.only)
	}
	if err != nil {
		_, _ = fmt.Fprintln(usage, err) // nobody is left to tell
	}
	return o, err
}

// measureAll measures the lines one after the other and prints what came out.
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
	report := report{Machine: machine(), Quick: o.quick}
	for _, l := range lines(o.quick) {
		if !o.wants(l) {
			continue
		}
		began := time.Now()
		r, err := f.measure(ctx, l, o.repetitions())
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		report.Lines = append(report.Lines, r)
		fmt.Fprintf(os.Stderr, "%-45s %.0f s\n", l.name, time.Since(began).Seconds())
	}
	return report.write(os.Stdout, o.format)
}
