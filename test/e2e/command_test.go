package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// sixMistakes has one mistake on each of the lines 2, 3, 7, 8, 16 and 17.
const sixMistakes = `kafka:
  brokers: [localhost]
  sesionTimeout: 30s
service:
  baseURL: http://localhost:8090
  authURL: http://localhost:8090
  timeout: soon
  entity: ${NOWHERE_TO_BE_FOUND}
  apiKey: the-key-that-must-not-show
mappings:
  - name: customers
    topics: [crm.customers]
    profileTable: customers
    key: customerNumber
    routes:
      - {when: 'segments.tier ==', lane: immediate}
      - {lane: imediate}
`

func TestWrongConfigurationListsEveryMistakeAndExits2(t *testing.T) {
	t.Parallel()
	file := filepath.Join(shared(t, t.TempDir()), "feedsink.yaml")
	if err := os.WriteFile(file, []byte(sixMistakes), 0o600); err != nil {
		t.Fatal(err)
	}
	shared(t, file)
	for _, command := range [][]string{{"check", "-c", file}, {"run", "-c", file}} {
		out, code := execute(t, command...)
		if code != 2 {
			t.Errorf("%s: got exit code %d, want 2", command[0], code)
		}
		var lines []string
		for _, found := range regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(file)+`:(\d+):`).FindAllStringSubmatch(out, -1) {
			lines = append(lines, found[1])
		}
		if got, want := strings.Join(lines, " "), "2 3 7 8 16 17"; got != want {
			t.Errorf("%s: lines of the mistakes: got %s, want %s in\n%s", command[0], got, want, out)
		}
		if strings.Contains(out, apiKey) {
			t.Errorf("%s: the output holds the API key", command[0])
		}
	}
}

func TestBadUsageExits2(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"nonsense"}, {"run", "--nonsense"}, {"run", "--lane", "fast"}, {"check", "extra"}, {"check", "-c", "/nowhere"}, {"dev", "--events", "-1"}} {
		if out, code := execute(t, args...); code != 2 || out == "" {
			t.Errorf("%v: got exit code %d with %q, want 2 and a reason", args, code, out)
		}
	}
}

// execute runs the binary to its end.
func execute(t *testing.T, args ...string) (output string, code int) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(out), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out), 0
}

// process is `feedsink run` as a process of its own.
type process struct {
	cmd  *exec.Cmd
	out  *logBuffer
	wait func() error
}

func (w *world) run(yaml string) *process {
	w.t.Helper()
	return w.runAs(yaml, nil)
}

// runAs is run with environment variables of its own, and flags.
func (w *world) runAs(yaml string, own map[string]string, flags ...string) *process {
	w.t.Helper()
	file := w.write(yaml)
	flags = append([]string{"run", "-c", shared(w.t, file), "--log-level", "debug"}, flags...)
	p := &process{cmd: exec.CommandContext(context.Background(), binary, flags...), out: &logBuffer{}}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	for _, name := range environment {
		value, _ := w.env(name)
		p.cmd.Env = append(p.cmd.Env, name+"="+value)
	}
	for name, value := range own {
		p.cmd.Env = append(p.cmd.Env, name+"="+value) // the last one counts
	}
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	p.wait = sync.OnceValue(p.cmd.Wait)
	w.t.Cleanup(func() {
		_ = p.signal(syscall.SIGKILL) // it may have ended
		_ = p.wait()
		if w.t.Failed() {
			w.t.Logf("output of run:\n%s", p.out)
		}
	})
	return p
}

// write writes the configuration of run and execute.
func (w *world) write(yaml string) (file string) {
	w.t.Helper()
	file = filepath.Join(w.dir, "feedsink.yaml")
	if err := os.WriteFile(file, []byte(w.through.in(yaml)), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return file
}

// execute runs a command to its end with the configuration of run, or that was written.
func (w *world) execute(words string) (output string, code int) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), binary, append(strings.Fields(words), "-c", filepath.Join(w.dir, "feedsink.yaml"))...)
	for _, name := range environment {
		value, _ := w.env(name)
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(out), exit.ExitCode()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return string(out), 0
}

// environment are the variables of the configurations.
var environment = []string{"BROKERS", "PREFIX", "SERVICE", "API_KEY", "DIR"}

// terminate stops the process as Kubernetes does.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	if err := p.signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.wait(); err != nil {
		t.Errorf("run after SIGTERM: %v", err)
	}
}

var adminAddress = regexp.MustCompile(`admin=(\S+)`)

// admin is the address the process says its admin server has.
func (p *process) admin(w *world) string {
	w.t.Helper()
	var found []string
	w.until("the sink says where its admin server is", func() bool {
		found = adminAddress.FindStringSubmatch(p.out.String())
		return found != nil
	})
	return found[1]
}

func TestKeyShowsNowhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	sink := w.run(head + deadLetters + mappings)
	address := sink.admin(w)
	w.until("the sink is ready", func() bool { return get(t, address, "/readyz") == "ok\n" })
	w.produce(order("o1", "PAID", 1))
	w.until("the order arrives", func() bool { return w.service.Len("orders") == 1 })
	// A key that is refused is where one is most easily printed.
	w.service.RevokeKey(apiKey)
	w.produce(order("o2", "PAID", 2))
	w.until("/readyz fails", func() bool { return get(t, address, "/readyz") != "ok\n" })
	pages := map[string][]byte{}
	for _, path := range []string{"/status", "/metrics", "/readyz", "/livez"} {
		pages[path] = []byte(get(t, address, path))
	}
	w.service.AllowKey(apiKey)
	w.until("the order arrives with the key allowed again", func() bool { return w.service.Len("orders") == 2 })
	sink.terminate(t)
	pages["the output"] = []byte(sink.out.String())
	for name, page := range pages {
		if bytes.Contains(page, []byte(apiKey)) {
			t.Errorf("%s holds the API key", name)
		}
		if len(page) == 0 {
			t.Errorf("%s is empty", name)
		}
	}
	if got := w.dead(); len(got) != 0 {
		t.Errorf("dead letters: got %d, want none: a refused key pauses, it never rejects", len(got))
	}
}
