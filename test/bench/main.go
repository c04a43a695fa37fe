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
	var do func()
	name := "bench"
	if len(os.Args) == 4 && os.Args[1] == roleArgument {
		name, do = os.Args[2], func() { try(play(ctx, os.Args[2], os.Args[3])) }
	} else {
		o, err := parse(os.Args[1:], os.Stderr)
		switch {
		case errors.Is(err, flag.ErrHelp):
			return 0
		case err != nil:
			return 2
		}
		do = func() { measure(ctx, o) }
	}
	if err := guard(do); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

// failure is an error that ends the bench.
type failure struct{ error }

// try ends the bench with an error, as t.Fatal ends a test: there is no figure without
// what failed. guard stands around everything and returns it. It is for the one
// goroutine that measures, and for what a role does before it is up.
func try(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must is a value that there is, or the end of the bench.
func must[T any](v T, err error) T {
	try(err)
	return v
}

// guard returns the error that do ended with.
func guard(do func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			f, expected := r.(failure)
			if !expected {
				panic(r)
			}
			err = f.error
		}
	}()
	do()
	return nil
}

// options are the command line.
type options struct {
	quick   bool   // one short repetition of everything
	only    string // part of the lines' and scenarios' names
	format  string // text | json
	profile string // directory of the sink's profiles; empty: none
	save    bool   // into RESULTS.md

	growth, compare, soak bool // instead of the lines
	length                time.Duration
}

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
	flags.BoolVar(&o.compare, "compare", false, "instead: the immediate lane beside loops as a team would write them")
	flags.BoolVar(&o.soak, "soak", false, "instead: continuous load on both lanes, judged flat or not")
	flags.DurationVar(&o.length, "for", 45*time.Minute, "how long -soak lasts, from 3m")
	if err := flags.Parse(args); err != nil {
		return o, err // which Parse has printed
	}
	alone := o.only == "" && (!o.quick || o.growth)
	switch {
	case flags.NArg() > 0 || o.format != "text" && o.format != "json":
		err = errors.New("bench: takes no arguments, and -o text or json")
	case o.growth && (o.compare || o.soak) || o.compare && o.soak || (o.growth || o.compare || o.soak) && !alone:
		err = errors.New("bench: -growth, -compare and -soak each go alone; only -growth has a -quick")
	case len(o.lines()) == 0 && len(o.scenarios()) == 0:
		err = fmt.Errorf("bench: -only: no line or scenario has %q in its name", o.only)
	case o.save && (o.quick || o.only != "" && len(o.lines()) > 0):
		err = errors.New("bench: -write: what is written is whole: without -quick, and with -only for scenarios alone")
	case o.length < 3*time.Minute:
		err = fmt.Errorf("bench: -for: must be at least 3m, is %v", o.length)
	}
	if err != nil {
		_, _ = fmt.Fprintln(usage, err) // there is no other place to say so
	}
	return o, err
}

// lines are those that are asked for.
func (o options) lines() []line {
	switch {
	case o.compare:
		return comparison()
	case o.growth || o.soak:
		return nil
	}
	return slices.DeleteFunc(lines(o.quick), func(l line) bool { return !strings.Contains(l.name, o.only) })
}

// scenarios are those that are asked for.
func (o options) scenarios() []scenario {
	switch {
	case o.growth:
		return []scenario{{"growth", growth}}
	case o.soak:
		return []scenario{{"soak", soak}}
	case o.compare:
		return nil
	}
	all := []scenario{{"hot keys", hotKeys}, {"latency", latency}, {"shares", shares}, {"receipts", receipts}, {"why", why}, {"planning", planning}}
	if !o.quick {
		all = append(all, scenario{"slow-down", slowDown}) // two minutes
	}
	return slices.DeleteFunc(all, func(s scenario) bool { return !strings.Contains(s.name, o.only) })
}
