package journeys

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// build makes the binary that the stories' commands run, at the first of them.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "feedsink-journeys-")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "feedsink")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/feedsink/feedsink/cmd/feedsink").CombinedOutput(); err != nil {
		return dir, fmt.Errorf("build: %w\n%s", err, out)
	}
	return binary, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if binary, _ := build(); binary != "" {
		_ = os.RemoveAll(filepath.Dir(binary))
	}
	os.Exit(code)
}

// commandsDir is among the sinks' spools.
const commandsDir = "commands"

// desk is the directory in which commands are typed.
func (s *story) desk() string {
	dir := filepath.Join(s.spool, commandsDir)
	s.check(os.MkdirAll(dir, 0o700))
	return dir
}

// file writes a file next to feedsink.yaml.
func (s *story) file(d *datadriven.TestData) string {
	s.check(os.WriteFile(filepath.Join(s.desk(), text(d, "name", "")), []byte(d.Input+"\n"), 0o600))
	return ""
}

// change edits the configuration as a user does: each line with - goes, and the
// ones with + below it take its place.
func (s *story) change(d *datadriven.TestData) string {
	var from, above string
	text := *s.configuration.Load()
	for line := range strings.Lines(d.Input) {
		line = strings.TrimRight(line, "\n")
		if old, gone := strings.CutPrefix(line, "- "); gone {
			from, above = old, ""
			continue
		}
		to, is := strings.CutPrefix(line, "+ ")
		to = above + to
		if !is || from == "" || strings.Count(text, from) != 1 {
			s.fatalf("change: want - OLD, which the configuration has once, and + NEW, got %q and %q", from, line)
		}
		text = strings.Replace(text, from, to, 1)
		from, above = to, to+"\n"
	}
	s.configuration.Store(&text)
	return ""
}

// feedsink runs the command lines of its input as a user types them, one after
// the other, in a directory that has feedsink.yaml. $BROKERS and $ADMIN are
// addresses. With spool=NAME its spool is that of a sink.
func (s *story) feedsink(d *datadriven.TestData) string {
	binary, err := build()
	s.check(err)
	dir := s.desk()
	env := s.env(filepath.Join(s.spool, text(d, "spool", "none")))
	addresses := map[string]string{"BROKERS": s.brokers[0]}
	configuration := os.Expand(*s.configuration.Load(), func(name string) string {
		name, otherwise, _ := strings.Cut(name, ":-")
		if value, ok := env(name); ok {
			return value
		}
		return otherwise
	})
	if sink := s.sinks[name(d)]; sink != nil {
		configuration = strings.Replace(configuration, `"127.0.0.1:0"`, sink.AdminAddress(), 1)
		addresses["ADMIN"] = "http://" + sink.AdminAddress()
	}
	s.check(os.WriteFile(filepath.Join(dir, "feedsink.yaml"), []byte(configuration), 0o600))
	var out strings.Builder
	for line := range strings.Lines(d.Input) {
		for name, address := range addresses {
			line = strings.ReplaceAll(line, "$"+name, address)
		}
		cmd := exec.CommandContext(s.t.Context(), binary, words(line)...)
		cmd.Dir = dir
		printed, err := cmd.CombinedOutput()
		out.WriteString(commonly(s.here(string(printed))))
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			fmt.Fprintf(&out, "exit code %d\n", exit.ExitCode())
			err = nil
		}
		s.check(err)
	}
	return out.String()
}

// here leaves out where this machine has what, and its name.
func (s *story) here(text string) string {
	host, err := os.Hostname()
	s.check(err)
	return strings.NewReplacer(s.spool, "SPOOL", ", on "+host+"\n", ", on HOST\n", `"host": "`+host, `"host": "HOST`).Replace(text)
}

// words splits a command line; single quotes hold words together.
func words(line string) []string {
	var all []string
	var word strings.Builder
	quoted, begun := false, false
	for _, c := range strings.TrimSpace(line) {
		switch {
		case c == '\'':
			quoted, begun = !quoted, true
		case c == ' ' && !quoted:
			if begun {
				all = append(all, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	if begun {
		all = append(all, word.String())
	}
	return all
}

// instant is a point in time to the second or more precisely.
var instant = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)`)

var (
	address  = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	zone     = regexp.MustCompile(`Etc/GMT[+-]\d+`)
	tomorrow = regexp.MustCompile(`00:00 \S+ on \d{4}-\d\d-\d\d`)
	// free is what the machine's disk has left.
	free = regexp.MustCompile(`\d[\d.]* \w+ of its disk are free`)
	// progress is told now and then: how often depends on the machine.
	progress = regexp.MustCompile(`(?m)^\d+\.\d %: .*\n`)
)

// commonly leaves out what differs from run to run. Times in UTC keep their
// width, so that columns stay where they are.
func commonly(text string) string {
	text = free.ReplaceAllString(progress.ReplaceAllString(text, ""), "N GiB of its disk are free")
	text = zone.ReplaceAllString(address.ReplaceAllString(text, "127.0.0.1:PORT"), "ZONE")
	text = tomorrow.ReplaceAllString(text, "MIDNIGHT")
	return masked(instant.ReplaceAllString(text, "YYYY-MM-DDThh:mm:ssZ"))
}
