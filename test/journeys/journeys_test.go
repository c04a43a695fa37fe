package journeys

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// commands are the words of a story. Arguments are written name=value; the
// lines below a command are its input.
var commands = map[string]func(*story, *datadriven.TestData) string{
	"world":    (*story).open,     // NAME=VALUE: what is different from the usual world (settings); comes first
	"produce":  (*story).produce,  // a record per line: TOPIC key=K FIELD=VALUE …, "tombstone" or raw=BYTES
	"run":      (*story).run,      // name=N: starts a sink and waits until it is ready
	"stop":     (*story).stop,     // name=N, begin: stops it as SIGTERM does, or only tells it to
	"settle":   (*story).settle,   // waits until both groups have committed everything
	"wait":     (*story).wait,     // for what is named: see waits
	"fault":    (*story).fault,    // op, key, count, delay, apply, answer=STATUS|reset|hang|as-is: what the service does wrong from now on
	"mend":     (*story).mend,     // ends all faults
	"hold":     (*story).hold,     // executions stay IN_PROGRESS
	"finish":   (*story).finish,   // they go on
	"fail":     (*story).fail,     // table, n, reason: the table's next n executions end FAILED
	"commit":   (*story).commit,   // lane, topic, offset: sets the offset of partition 0, as another tool does
	"release":  (*story).release,  // name=N, mapping: lets a halted mapping go on, as an operator does
	"letters":  (*story).letters,  // hold | post: the broker takes no dead letters, and takes them again
	"tokens":   (*story).tokens,   // end | revoke | allow
	"file":     (*story).file,     // name=NAME: writes its lines beside the configuration of the commands
	"change":   (*story).change,   // - OLD and + NEW: changes the configuration, of commands and of sinks that are run, or reload it, from then on
	"feedsink": (*story).feedsink, // name=N: runs the commands of its lines; N is the sink that they ask
	"show":     (*story).show,     // what is named: see shows
}

func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Parallel()
		s := &story{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.step, s.at = t, d.Pos
			command, known := commands[d.Cmd]
			if !known {
				d.Fatalf(t, "no such command: %s", d.Cmd)
			}
			if s.world == nil && d.Cmd != "world" {
				s.world = newWorld(s, defaults())
			}
			return command(s, d)
		})
	})
}

// story is one file while it is told.
type story struct {
	*world
	t    *testing.T // of the file
	step *testing.T // of the command
	at   string     // file and line of the command
}

func (s *story) fatalf(format string, args ...any) {
	s.step.Helper()
	s.step.Fatalf("%s: %s", s.at, fmt.Sprintf(format, args...))
}

func (s *story) check(err error) {
	s.step.Helper()
	if err != nil {
		s.fatalf("%v", err)
	}
}

// text is an argument's value, otherwise if it is not given.
func text(d *datadriven.TestData, name, otherwise string) string {
	if arg, ok := d.Arg(name); ok && len(arg.Vals) > 0 {
		return strings.Join(arg.Vals, ",")
	}
	return otherwise
}

func (s *story) number(d *datadriven.TestData, name string, otherwise int) int {
	n := otherwise
	if value := text(d, name, ""); value != "" {
		if _, err := fmt.Sscan(value, &n); err != nil {
			s.fatalf("%s=%s: %v", name, value, err)
		}
	}
	return n
}

func (s *story) duration(d *datadriven.TestData, name string, otherwise time.Duration) time.Duration {
	value := text(d, name, "")
	if value == "" {
		return otherwise
	}
	v, err := time.ParseDuration(value)
	s.check(err)
	return v
}

// subject is the first word behind the command, such as `show rows`.
func (s *story) subject(d *datadriven.TestData) string {
	if len(d.CmdArgs) == 0 {
		s.fatalf("%s: what?", d.Cmd)
	}
	return d.CmdArgs[0].Key
}
