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

	"github.com/feedsink/feedsink/connector/kafka"
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
			opts.Log = slog.New(slog.NewTextHandler(out, nil))
		}
		sink, err := assemble(t, opts, "BROKER="+cluster.ListenAddrs()[0], "SERVICE="+server.URL, "ADMIN="+net.JoinHostPort(on.at, port), "SESSION=15s")
		if err != nil {
			t.Fatal(err)
		}
		return sink, runUntil(t, sink)
	}
	first := &pod{at: "127.0.0.2"}
	killed, end := member(first, nil)
	t.Cleanup(end)
	until(t, "the first member has all partitions", func() bool { return partitionsOf(killed, schemas.Immediate) == 4 })
	survivor, end := member(&pod{at: "127.0.0.3"}, said)
	t.Cleanup(end)
	until(t, "both have partitions", func() bool {
		return partitionsOf(killed, schemas.Immediate) == 2 && partitionsOf(survivor, schemas.Immediate) == 2 && partitionsOf(killed, schemas.Batch) == 2
	})
	until(t, "the survivor has heard the other one in both groups, with what it has", func() bool {
		return heard(survivor, schemas.Immediate, 2) && heard(survivor, schemas.Batch, 2)
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

// heard reports whether the sink has heard of a member of the lane that has so many partitions.
func heard(s *Sink, lane schemas.Lane, partitions int) bool {
	s.others.mu.Lock()
	defer s.others.mu.Unlock()
	for _, m := range s.others.ids[lane] {
		n := 0
		for _, ids := range m.partitions {
			n += len(ids)
		}
		if n == partitions {
			return true
		}
	}
	return false
}

// dead are the waits for members that do not answer.
func dead(s *Sink) []observe.Wait {
	return slices.DeleteFunc(s.now().waits(), func(w observe.Wait) bool { return w.Cause != waits.DeadMember })
}

func TestWhoMayBeAliveIsNotToldDead(t *testing.T) {
	t.Parallel()
	const lane, session = schemas.Batch, 45 * time.Second
	has := map[string][]int32{"crm": {0, 3}}
	group := func(partitions map[string][]int32) []kafka.GroupMember {
		return []kafka.GroupMember{{ID: "own"}, {ID: "b-1", Partitions: partitions}}
	}
	answers, silence := map[string]string{"b-1": "feedsink-b", "own": "feedsink-a"}, map[string]string{}
	for name, c := range map[string]struct {
		group    []kafka.GroupMember // from the tenth second on
		answered map[string]string   // before it, and
		then     map[string]string   // from it on
		want     int                 // the second from which on it is told; 0: never
	}{
		"answers":                         {group(has), answers, answers, 0},
		"never answered":                  {group(has), silence, silence, 0},
		"has left":                        {group(has)[:1], answers, silence, 0},
		"has nothing":                     {group(map[string][]int32{}), answers, silence, 0},
		"came back with another id":       {[]kafka.GroupMember{{ID: "own"}, {ID: "b-2", Partitions: has}}, answers, map[string]string{"b-2": "feedsink-b"}, 0},
		"silent longer than its session":  {group(has), answers, silence, 14},
		"silent while the group is asked": {group(nil), answers, silence, 14},
		"begun anew, its former id stays": {append(group(has), kafka.GroupMember{ID: "b-2"}), answers, map[string]string{"b-2": "feedsink-b"}, 14},
	} {
		t.Run(name, func(t *testing.T) {
			o := &others{session: session, ids: map[schemas.Lane]map[string]other{}}
			start := time.Now()
			got := 0
			for second := range 60 {
				now := start.Add(time.Duration(second) * time.Second)
				switch {
				case second < 10:
					o.note(lane, group(has), "own", c.answered, now)
				default:
					o.note(lane, c.group, "own", c.then, now)
				}
				told := o.waits(lane, now)
				if len(told) > 0 && got == 0 {
					got = second
				}
				if (len(told) > 0) != (got > 0) || len(told) > 0 && (told[0].Member != "feedsink-b" || !strings.Contains(told[0].Why, "partitions [0 3] of topic crm") || !told[0].Until.Equal(start.Add(9*time.Second+session))) {
					t.Fatalf("got %+v, want what it had and its session's end, all the while", told)
				}
			}
			if got != c.want {
				t.Errorf("told from second %d on, want %d", got, c.want)
			}
			if told := o.waits(lane, start.Add(9*time.Second+session+sessionSlack)); len(told) > 0 {
				t.Errorf("after its session and more: got %+v, want nothing: the group has heard of it meanwhile", told)
			}
		})
	}
}
