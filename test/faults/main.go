package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

func main() { os.Exit(run()) }

// run does what the command line says. Exit codes: 0 all promises held, 1 one
// did not or the suite could not run, 2 bad usage.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	if err != nil {
		return 2
	}
	clean, err := suite(ctx, o)
	if err != nil {
		fmt.Fprintf(os.Stderr, "faults: %v\n", err)
	}
	if err != nil || !clean {
		return 1
	}
	return 0
}

// options are the command line.
type options struct {
	quick bool   // each fault a few times
	only  string // matches parts of the faults' names
	seed  uint64 // of events, victims and moments
	rate  int    // events in a second
	logs  string // directory that keeps the members' logs, "" for none

	bothLanes bool // some rows are written through both lanes
}

// parse reads the command line. What is wrong with it, and help, goes to usage.
func parse(args []string, usage io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.BoolVar(&o.quick, "quick", false, "each fault a few times, instead of 50 kills and the rest to match")
	flags.StringVar(&o.only, "only", "", "only the faults whose name matches this regular expression")
	flags.Uint64Var(&o.seed, "seed", 0, "of events, victims and moments; 0: a new one, which is printed")
	flags.IntVar(&o.rate, "rate", 300, "events in a second")
	flags.BoolVar(&o.bothLanes, "both-lanes", true, "a third of the customers are written through both lanes")
	flags.StringVar(&o.logs, "logs", "", "directory to keep the members' logs in")
	if err := flags.Parse(args); err != nil {
		return o, err // which Parse has told
	}
	_, wrong := regexp.Compile(o.only)
	switch {
	case wrong != nil:
		err = fmt.Errorf("faults: -only: %w", wrong)
	case flags.NArg() > 0:
		err = fmt.Errorf("faults: takes no arguments, has %q", flags.Args())
	case o.rate < 1:
		err = fmt.Errorf("faults: -rate: must be positive, is %d", o.rate)
	}
	if err != nil {
		_, _ = fmt.Fprintln(usage, err) // nobody is left to tell
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano())
	}
	return o, err
}

// suite strikes with each fault and reports whether every promise held.
func suite(ctx context.Context, o options) (clean bool, err error) {
	began := time.Now()
	w, err := open(ctx, o)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, w.close(context.WithoutCancel(ctx))) }()
	fmt.Fprintf(os.Stderr, "seed %d; broker, service and %d members run after %.0f s\n", o.seed, len(w.members), time.Since(began).Seconds())
	j := newJudge(w)
	var report report
	for _, f := range plan() {
		if !regexp.MustCompile(o.only).MatchString(f.name) {
			continue
		}
		endure := w.endure
		if f.strike == nil {
			endure = w.changeRoutes
		}
		line, err := endure(ctx, f, o, j)
		report = append(report, line)
		if err != nil {
			_ = report.write(os.Stdout) // so far; why it ends here says more
			return false, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return report.clean(), report.write(os.Stdout)
}
