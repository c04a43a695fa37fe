package connector

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/feedsink/feedsink/connector/observe"
	"github.com/feedsink/feedsink/connector/waits"
	"github.com/feedsink/feedsink/schemas"
)

// pod is where a member runs: it has an address of its own and can be cut off, as by a
// SIGKILL to all that runs there.
type pod struct {
	at string

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (m *pod) keep(c net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cut {
		_ = c.Close()
		return nil, fmt.Errorf("%s is cut off", m.at)
	}
	m.conns = append(m.conns, c)
	return c, nil
}

func (m *pod) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return m.keep((&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(m.at)}}).DialContext(ctx, network, address))
}

func (m *pod) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	return podListener{l, m}, err
}

type podListener struct {
	net.Listener
	on *pod
}

// Accept closes what comes to a pod that is cut off.
func (l podListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c, err := l.on.keep(c, nil); err == nil {
			return c, nil
		}
	}
}

func (m *pod) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cut = true
	for _, c := range m.conns {
		_ = c.Close()
	}
}

// log is written by a sink and read by a test.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) has(words ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			return true
		}
	}
	return false
}

// TestSessionOfAMemberThatWasKilledIsTold: the others tell which partitions no member reads, and
// until when, and stop telling it once the group has given them to another member.
func TestSessionOfAMemberThatWasKilledIsTold(t *testing.T) {
	t.Parallel()
	cluster, _, server := startBoth(t, kfake.SeedTopics(2, "crm", "shop"), kfake.SeedTopics(1, "dlq"))
	port, said := freePort(t), &log{}
	member := func(on *pod, out *log) (*Sink, func()) {
		opts := Options{Dial: on.dial, Listen: on.listen}
		if out != nil {
			opts.Log = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		}
		sink := assembled(t, opts, "BROKER="+cluster.ListenAddrs()[0], "SERVICE="+server.URL, "ADMIN="+net.JoinHostPort(on.at, port), "SESSION=15s")
		return sink, runUntil(t, sink)
	}
	first := &pod{at: "127.0.0.2"}
	killed, end := member(first, nil)
	t.Cleanup(end)
	until(t, "the first member has all partitions", func() bool {
		return partitionsOf(killed, schemas.Immediate) == 4 && partitionsOf(killed, schemas.Batch) == 2
	})
	survivor, end := member(&pod{at: "127.0.0.3"}, said)
	t.Cleanup(end)
	until(t, "both have partitions", func() bool {
		return partitionsOf(killed, schemas.Immediate) == 2 && partitionsOf(survivor, schemas.Immediate) == 2 && partitionsOf(killed, schemas.Batch) == 2
	})
	until(t, "the survivor has heard the other one in both groups, with what it has", func() bool {
		return said.has("another member of the group answers", "lane=immediate", "crm:[", "shop:[") && said.has("another member of the group answers", "lane=batch", "crm:[")
	})
	first.kill()
	at := time.Now()
	until(t, "it is told of both lanes: in the status, imports list and the metric", func() bool {
		told, families := dead(survivor), gathered(t, survivor)
		list, _ := importsAPI{survivor}.Imports().([]observe.MappingImports)
		return slices.ContainsFunc(told, func(w observe.Wait) bool { return w.Lane == "batch" && w.Topic == "crm" }) &&
			slices.ContainsFunc(told, func(w observe.Wait) bool { return w.Lane == "immediate" }) &&
			gauged(families, "feedsink_waiting", waits.DeadMember+" batch") == 1 && gauged(families, "feedsink_waiting", waits.DeadMember+" immediate") >= 1 &&
			len(list) == 1 && slices.ContainsFunc(list[0].Waits, func(w observe.Wait) bool { return w.Cause == waits.DeadMember })
	})
	t.Logf("told %v after the kill", time.Since(at).Round(100*time.Millisecond))
	for _, w := range dead(survivor) {
		if w.Member != killed.membership().Member || !strings.Contains(w.Why, "no member reads its partitions [") || w.Until.Before(at) || w.Until.After(at.Add(15*time.Second)) {
			t.Errorf("got %+v, want the member's name, its partitions, and 15 s after its last answer", w)
		}
	}
	until(t, "the log has it", func() bool { return said.has("level=WARN", "msg=waiting", "cause=dead_member", "topic=crm", "until=") })
	until(t, "the survivor has all partitions", func() bool {
		return partitionsOf(survivor, schemas.Immediate) == 4 && partitionsOf(survivor, schemas.Batch) == 2
	})
	until(t, "nothing is told any more", func() bool { return len(dead(survivor)) == 0 })
	until(t, "the log has its end", func() bool { return said.has(`msg="waiting no more"`, "cause=dead_member", "topic=crm") })
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func partitionsOf(s *Sink, lane schemas.Lane) int { return len(s.sources[lane].Partitions()) }

// dead are the waits for members that do not answer.
func dead(s *Sink) []observe.Wait {
	return slices.DeleteFunc(s.now().waits(), func(w observe.Wait) bool { return w.Cause != waits.DeadMember })
}
