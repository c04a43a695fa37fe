package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// findings are what the judge counted.
type findings struct {
	lost, reordered, repeated, slotsOver, both, strays int
	cut                                                int // no broken promise
}

func (f *findings) add(g findings) {
	f.lost += g.lost
	f.reordered += g.reordered
	f.repeated += g.repeated
	f.slotsOver += g.slotsOver
	f.both += g.both
	f.strays += g.strays
	f.cut += g.cut
}

func (f findings) clean() bool { return f.lost+f.reordered+f.repeated+f.slotsOver+f.both+f.strays == 0 }

func (f findings) String() string {
	return fmt.Sprintf("lost %d, reordered %d, imports repeated %d (and %d cut), slots over %d, both %d, strays %d",
		f.lost, f.reordered, f.repeated, f.cut, f.slotsOver, f.both, f.strays)
}

// line is one fault of the report.
type line struct {
	fault   string
	times   int
	events  int
	slowest time.Duration // to catch up
	found   findings
}

type report []line

func (r report) clean() bool {
	for _, l := range r {
		if !l.found.clean() {
			return false
		}
	}
	return true
}

// write prints the table.
func (r report) write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "fault\ttimes\tevents\tlost\treordered\timports repeated\tslots over\tboth\tstrays\tcut\tcaught up in\t")
	for _, l := range r {
		f := l.found
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f s\t\n",
			l.fault, l.times, l.events, f.lost, f.reordered, f.repeated, f.slotsOver, f.both, f.strays, f.cut, l.slowest.Seconds())
	}
	return t.Flush()
}
