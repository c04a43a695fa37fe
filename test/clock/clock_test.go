package clock_test

import (
	"bufio"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/test/clock"
)

// near is how much later than asked for a program may read its clock.
const near = time.Minute

func open(t *testing.T) *clock.Clock {
	t.Helper()
	c, err := clock.Open(filepath.Join(t.TempDir(), "clock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestRunningProgramFollowsTheClockAndItsDurationsDoNot(t *testing.T) {
	c := open(t)
	overlay, err := clock.Overlay(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "watch")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", binary, "./testdata/watch").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	ask := watch(t, exec.Command(binary), c.Env())
	for _, step := range []time.Duration{0, 13 * time.Hour, 36 * time.Hour} {
		if err := c.Advance(step); err != nil {
			t.Fatal(err)
		}
		want := c.Now()
		at, took := ask()
		if late := at.Sub(want); late < 0 || late > near {
			t.Errorf("after moving by %v: the program's clock shows %v, want %v", step, at, want)
		}
		if took < 0 || took > near {
			t.Errorf("after moving by %v: the program measured %v since it was asked before, want next to nothing", step, took)
		}
	}
	at, _ := watch(t, exec.Command(binary))()
	if ahead := time.Until(at); ahead > near {
		t.Errorf("without %s: the program's clock is %v ahead, want the machine's", clock.Variable, ahead)
	}
}

// watch starts the program; ask has it look at its clock.
func watch(t *testing.T, cmd *exec.Cmd, env ...string) (ask func() (at time.Time, took time.Duration)) {
	t.Helper()
	cmd.Env = env
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // which ends it
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	lines := bufio.NewReader(out)
	return func() (at time.Time, took time.Duration) {
		t.Helper()
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Fatal(err)
		}
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		moment, duration, _ := strings.Cut(strings.TrimSpace(line), " ")
		if at, err = time.Parse(time.RFC3339Nano, moment); err != nil {
			t.Fatal(err)
		}
		if took, err = time.ParseDuration(duration); err != nil {
			t.Fatal(err)
		}
		return at, took
	}
}

func TestMachineTellsWhenAProgramSaidSomething(t *testing.T) {
	c := open(t)
	early := c.Now()
	if err := c.Advance(24 * time.Hour); err != nil {
		t.Fatal(err)
	}
	late := c.Now()
	for name, told := range map[string]time.Time{"before the move": early, "after it": late} {
		if off := time.Since(c.Machine(told)); off < 0 || off > near {
			t.Errorf("told %s: got %v ago, want just now", name, off)
		}
	}
}
