package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// resultsFile is where -write puts what was measured, from the repository's root.
const resultsFile = "test/bench/RESULTS.md"

const resultsHead = `# What was measured

Written by ` + "`go run ./test/bench -write`" + `, each part by a run of its own (see the package comment for what a line, a floor and
a scenario is). Absolute figures are of one machine on one day; the ratios to the floor in the same run are what counts.

`

// save replaces the parts of the file that were measured and keeps the others.
func (r *report) save(path string) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parts := sections(string(old))
	origin := func(repeated bool, stolen *float64) string {
		return fmt.Sprintf("\n%s, %s.\n\n", time.Now().UTC().Format(time.DateOnly), r.origin(repeated, stolen))
	}
	if len(r.Lines) > 0 {
		parts = parts.with("Beside the floor", markdown(r.lineRows())+origin(true, r.LinesStolen))
	}
	for _, o := range r.Scenarios {
		rows := [][]string{{"what", "measured", "goal"}}
		for _, f := range o.Findings {
			rows = append(rows, []string{f.What, f.Got, f.verdict()})
		}
		parts = parts.with(strings.ToUpper(o.Name[:1])+o.Name[1:], markdown(rows)+origin(o.Repeated, o.Stolen))
	}
	return os.WriteFile(path, []byte(resultsHead+parts.String()), 0o644) //nolint:gosec // a part of the source
}

// section is a heading of the file with what stands below it.
type section struct{ title, text string }

type document []section

// sections reads the file's own headings; what stands before the first is the
// head, which is written anew.
func sections(text string) (d document) {
	for _, part := range strings.Split("\n"+text, "\n## ")[1:] {
		title, rest, _ := strings.Cut(part, "\n")
		d = append(d, section{title, strings.TrimSpace(rest) + "\n\n"})
	}
	return d
}

// with replaces a section, or adds it at the end.
func (d document) with(title, text string) document {
	for i := range d {
		if d[i].title == title {
			d[i].text = text
			return d
		}
	}
	return append(d, section{title, text})
}

func (d document) String() string {
	var all strings.Builder
	for _, s := range d {
		all.WriteString("## " + s.title + "\n\n" + strings.TrimSpace(s.text) + "\n\n")
	}
	return strings.TrimSuffix(all.String(), "\n")
}

func markdown(rows [][]string) string {
	var table strings.Builder
	for i, row := range rows {
		table.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			table.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return table.String()
}
