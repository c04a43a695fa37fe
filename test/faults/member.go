package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// member is one `feedsink run`, started again as often as it ends.
type member struct {
	name   string
	binary string
	config string
	lane   string // that it runs
	env    []string
	door   *door
	cable  *cable
	limits []string // environment entries: the slots that it gives the tables
	diary  *diary
	log    io.WriteCloser

	cmd    *exec.Cmd // nil: it does not run
	reader *journal
	ended  chan struct{} // closed when it has ended
	result error         // read after ended
}

// start runs the member. It returns before the member is ready.
func (m *member) start(ctx context.Context) error {
	m.reader = &journal{member: m.name, diary: m.diary, copy: m.log}
	// Faults end it, not ctx; the world's close does in the end.
	m.cmd = exec.CommandContext(context.WithoutCancel(ctx), m.binary, "run", "-c", m.config, "--lane", m.lane, "--log-level", "debug", "--log-format", "json")
	m.cmd.Env, m.cmd.Stdout, m.cmd.Stderr = append(m.limits, m.env...), m.reader, m.reader
	if err := m.cmd.Start(); err != nil {
		return fmt.Errorf("start member %s: %w", m.name, err)
	}
	m.ended = make(chan struct{})
	go func() {
		defer close(m.ended)
		m.result = m.cmd.Wait()
	}()
	return nil
}

// kill ends it at once, as a lost machine would.
func (m *member) kill() {
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Kill() // it may have ended
	<-m.ended
	m.cmd = nil
}

// exitTimeout is how long a member may take to end in order.
const exitTimeout = 60 * time.Second

// terminate ends it as Kubernetes does.
func (m *member) terminate() error {
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("terminate member %s: %w", m.name, err)
	}
	select {
	case <-m.ended:
		m.cmd = nil
		if m.result != nil && m.reader.address() != "" { // the signal ends one that has not begun yet
			return fmt.Errorf("member %s, told to terminate: %w", m.name, m.result)
		}
		return nil
	case <-time.After(exitTimeout):
		return fmt.Errorf("member %s still runs %v after SIGTERM", m.name, exitTimeout)
	}
}

// ready asks the member's own probe.
func (m *member) ready(ctx context.Context) bool {
	_, err := m.get(ctx, "/readyz")
	return err == nil
}

// get reads a page of the admin server.
func (m *member) get(ctx context.Context, path string) (string, error) {
	if m.cmd == nil {
		return "", errors.New("the member does not run")
	}
	address := m.reader.address()
	if address == "" {
		return "", errors.New("the member has not said where its admin server is")
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, http.NoBody)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", path, answer.Status)
	}
	return string(body), err
}

// slotsLeft is how many imports the member's ledgers leave each table it owns.
func (m *member) slotsLeft(ctx context.Context) (map[string]int, error) {
	page, err := m.get(ctx, "/metrics")
	if err != nil {
		return nil, fmt.Errorf("member %s: %w", m.name, err)
	}
	left := map[string]int{}
	for l := range strings.Lines(page) {
		rest, ok := strings.CutPrefix(l, `feedsink_import_slots_remaining{table="`)
		table, number, ok2 := strings.Cut(rest, `"} `)
		if !ok || !ok2 {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil {
			return nil, fmt.Errorf("member %s: slots of table %s: %w", m.name, table, err)
		}
		left[table] = int(n)
	}
	return left, nil
}

// newLog is where a member's log goes: a file in dir, or nowhere.
func newLog(dir, member string) (io.WriteCloser, error) {
	if dir == "" {
		return nowhere{io.Discard}, nil
	}
	return os.Create(filepath.Join(dir, member+".log"))
}

type nowhere struct{ io.Writer }

func (nowhere) Close() error { return nil }
