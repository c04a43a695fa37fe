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

// feedsink runs the command lines of its input as a user types them, one after
// the other, in a directory that has feedsink.yaml.
func (s *story) feedsink(d *datadriven.TestData) string {
	binary, err := build()
	s.check(err)
	dir := filepath.Join(s.spool, "commands")
	s.check(os.MkdirAll(dir, 0o700))
	env := s.env(filepath.Join(s.spool, "none"))
	text := os.Expand(configuration, func(name string) string {
		name, otherwise, _ := strings.Cut(name, ":-")
		if value, ok := env(name); ok {
			return value
		}
		return otherwise
	})
	if sink := s.sinks[name(d)]; sink != nil {
		text = strings.Replace(text, `"127.0.0.1:0"`, sink.AdminAddress(), 1)
	}
	s.check(os.WriteFile(filepath.Join(dir, "feedsink.yaml"), []byte(text), 0o600))
	var out strings.Builder
	for line := range strings.Lines(d.Input) {
		cmd := exec.CommandContext(s.t.Context(), binary, words(line)...)
		cmd.Dir = dir
		printed, err := cmd.CombinedOutput()
		out.WriteString(commonly(string(printed)))
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			fmt.Fprintf(&out, "exit code %d\n", exit.ExitCode())
			err = nil
		}
		s.check(err)
	}
	return out.String()
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

// commonly leaves out what differs from run to run. Times in UTC keep their
// width, so that columns stay where they are.
func commonly(text string) string {
	return masked(instant.ReplaceAllString(text, "YYYY-MM-DDThh:mm:ssZ"))
}
