package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/prometheus/procfs"
)

// finding is one figure of a scenario beside what it is to be.
type finding struct {
	What string `json:"what"`
	Got  string `json:"got"`
	Goal string `json:"goal,omitempty"` // empty for a figure that has none
	Met  bool   `json:"met"`
}

// check is a finding with a goal.
func check(met bool, what, goal, got string, args ...any) finding {
	return finding{What: what, Got: fmt.Sprintf(got, args...), Goal: goal, Met: met}
}

// note is a finding without.
func note(what, got string, args ...any) finding { return check(true, what, "", got, args...) }

// verdict is the goal, with a mark if it is missed.
func verdict(goal string, met bool) string {
	if met {
		return goal
	}
	return goal + " (missed)"
}

// scenario is what is no job done twice.
type scenario struct {
	name string
	run  func(ctx context.Context, b *bench, o options) []finding
}

// report is everything that was measured.
type report struct {
	Machine string `json:"machine"`
	Commit  string `json:"commit"`
	Quick   bool   `json:"quick"`
	Parts   []part `json:"parts"`
}

// part is the lines, or a scenario.
type part struct {
	Name     string    `json:"name"`
	Lines    []result  `json:"lines,omitempty"`
	Findings []finding `json:"findings,omitempty"`
	Stolen   float64   `json:"stolen"` // by the host meanwhile, as a share of the processors
}

// measure measures what was asked for and prints what came out.
func measure(ctx context.Context, o options) {
	dir := must(os.MkdirTemp("", "feedsink-bench-"))
	if o.profile != "" {
		try(os.MkdirAll(o.profile, 0o750))
	}
	r := &report{Machine: machine(), Commit: commit(ctx), Quick: o.quick}
	b := open(dir, o.profile)
	err := guard(func() { r.measure(ctx, b, o) })
	try(errors.Join(err, b.close(0), os.RemoveAll(dir)))
	if o.save {
		try(r.save(resultsFile))
	}
	try(r.write(os.Stdout, o.format))
}

// measure measures one after the other, and says on the standard error what is done.
func (r *report) measure(ctx context.Context, b *bench, o options) {
	measured := func(name string, do func()) float64 {
		began, before := time.Now(), readProcessors()
		if err := guard(do); err != nil {
			try(fmt.Errorf("%s: %w", name, err))
		}
		stolen := readProcessors().stolenSince(before)
		fmt.Fprintf(os.Stderr, "%-45s %.0f s, host took %.0f %%\n", name, time.Since(began).Seconds(), 100*stolen)
		return stolen
	}
	p := part{Name: "beside the floor"}
	if o.compare {
		p.Name = "comparison"
	}
	before := readProcessors()
	for _, l := range o.lines() {
		measured(l.name, func() { p.Lines = append(p.Lines, b.measure(ctx, l, repetitions(o.quick))) })
	}
	if p.Stolen = readProcessors().stolenSince(before); len(p.Lines) > 0 {
		r.Parts = append(r.Parts, p)
	}
	for _, s := range o.scenarios() {
		p := part{Name: s.name}
		p.Stolen = measured(s.name, func() { p.Findings = apart(b, func() []finding { return s.run(ctx, b, o) }) })
		r.Parts = append(r.Parts, p)
	}
}

// write prints the report as text, as RESULTS.md has it, or as JSON.
func (r *report) write(to io.Writer, format string) error {
	if format == "json" {
		out := json.NewEncoder(to)
		out.SetIndent("", "  ")
		return out.Encode(r)
	}
	for _, p := range r.Parts {
		if _, err := io.WriteString(to, r.text(p)); err != nil {
			return err
		}
	}
	return nil
}

// resultsFile is where -write puts what was measured, from the repository's root.
const resultsFile = "test/bench/RESULTS.md"

const resultsHead = `# What was measured

Written by ` + "`go run ./test/bench -write`" + `, each part by a run of its own (see the package comment for what a line, a floor and
a scenario is). Figures are medians of the repetitions that count, where there are several. Absolute figures are of one machine on
one day; the ratios to the floor in the same run are what counts.
`

// save replaces the parts of the file that were measured and keeps the others.
func (r *report) save(path string) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	texts := strings.Split("\n"+string(old), "\n## ")[1:] // what stands before is the head
	for _, p := range r.Parts {
		text := strings.TrimPrefix(r.text(p), "\n## ")
		title, _, _ := strings.Cut(text, "\n")
		i := slices.IndexFunc(texts, func(old string) bool { return strings.HasPrefix(old, title+"\n") })
		if i < 0 {
			i, texts = len(texts), append(texts, "")
		}
		texts[i] = text
	}
	all := strings.Join(append([]string{resultsHead}, texts...), "\n## ")
	return os.WriteFile(path, []byte(all), 0o644) //nolint:gosec // a part of the source
}

// text is a part as RESULTS.md has it, with where its figures come from.
func (r *report) text(p part) string {
	rows := [][]string{{"what", "measured", "goal"}}
	if len(p.Lines) > 0 {
		rows[0] = lineHead
	}
	for _, l := range p.Lines {
		rows = append(rows, l.row())
	}
	for _, f := range p.Findings {
		rows = append(rows, []string{f.What, f.Got, verdict(f.Goal, f.Met)})
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\n## %s\n\n", strings.ToUpper(p.Name[:1])+p.Name[1:])
	table := tabwriter.NewWriter(&text, 0, 0, 1, ' ', 0)
	for i, row := range rows {
		_, _ = fmt.Fprintf(table, "| %s\t|\n", strings.Join(row, "\t| ")) // kept until Flush
		if i == 0 {
			_, _ = fmt.Fprintf(table, "%s|\n", strings.Repeat("|---\t", len(row)))
		}
	}
	_ = table.Flush() // into memory
	fmt.Fprintf(&text, "\n%s, %s, host took %.0f %% of the processors; commit %s", time.Now().UTC().Format(time.DateOnly), r.Machine, 100*p.Stolen, r.Commit)
	if r.Quick {
		text.WriteString("; one short repetition: good to see that nothing broke, not to be quoted")
	}
	return text.String() + ".\n"
}

// machine says where the figures come from, as far as the system tells.
func machine() string {
	text := fmt.Sprintf("%d × CPU, %s %s/%s", runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return text
	}
	if all, err := proc.CPUInfo(); err == nil && len(all) > 0 {
		text = strings.Replace(text, "CPU", all[0].ModelName, 1)
	}
	if average, err := proc.LoadAvg(); err == nil {
		text += fmt.Sprintf(", load before %.2f", average.Load1)
	}
	return text
}

// commit is what was built, as far as the source's repository tells.
func commit(ctx context.Context) string {
	head, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(head))
	if changed, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--", ":!"+resultsFile).Output(); err != nil || len(changed) > 0 {
		name += ", changed since"
	}
	return name
}

// processors is the time of all processors in seconds since the system started; zero
// where the system does not tell.
type processors struct{ all, stolen float64 }

func readProcessors() processors {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return processors{}
	}
	stat, err := proc.Stat()
	if err != nil {
		return processors{}
	}
	c := stat.CPUTotal // what guests have used is in user and nice
	return processors{c.User + c.Nice + c.System + c.Idle + c.Iowait + c.IRQ + c.SoftIRQ + c.Steal, c.Steal}
}

// stolenSince is the share of the processors' time since before that the host gave
// to others while a process here wanted it; 0 where the system does not tell.
func (p processors) stolenSince(before processors) float64 {
	if p.all <= before.all {
		return 0
	}
	return (p.stolen - before.stolen) / (p.all - before.all)
}
