//go:build linux && !image

package e2e_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const listening = "0A" // in the state column of /proc/net/tcp

// sockets are the process's, by their inodes.
func (p *process) sockets(t *testing.T) map[string]bool {
	t.Helper()
	sockets := map[string]bool{}
	proc := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid))
	files, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		to, err := os.Readlink(filepath.Join(proc, "fd", f.Name()))
		if inode, ok := strings.CutPrefix(to, "socket:["); ok && err == nil {
			sockets[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return sockets
}

// listeners are the addresses that the process listens on, as its own open files
// and the kernel's tables tell.
func (p *process) listeners(t *testing.T) (found []string) {
	t.Helper()
	proc, sockets := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid)), p.sockets(t)
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6", "raw", "raw6"} {
		found = append(found, bound(t, filepath.Join(proc, "net", table), sockets)...)
	}
	slices.Sort(found)
	return found
}

// bound are the sockets of a table that take what strangers send: connections, or
// packets from anywhere.
func bound(t *testing.T, table string, mine map[string]bool) (found []string) {
	t.Helper()
	f, err := os.Open(table)
	if os.IsNotExist(err) {
		return nil // a kernel without IPv6
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Scan() // the heading
	for lines.Scan() {
		// sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode
		column := strings.Fields(lines.Text())
		if len(column) < 10 || !mine[column[9]] {
			continue
		}
		_, port, _ := strings.Cut(column[1], ":")
		_, peer, _ := strings.Cut(column[2], ":")
		name := strings.TrimSuffix(filepath.Base(table), "6")
		if name == "tcp" && column[3] == listening || name != "tcp" && peer == "0000" {
			n, err := strconv.ParseUint(port, 16, 16)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, fmt.Sprintf("%s/%d", name, n))
		}
	}
	return found
}

func TestRunningSinkListensOnItsAdminAddressAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	to, collector := newReceiver(t)
	sink := w.run(head + deadLetters + mappings + "tracing: {endpoint: \"" + collector + "\"}\n")
	_, port, err := net.SplitHostPort(sink.admin(w))
	if err != nil {
		t.Fatal(err)
	}
	w.until("it has sockets of brokers too", func() bool { return len(sink.sockets(t)) >= 2 })
	want := []string{"tcp/" + port}
	if got := sink.listeners(t); !slices.Equal(got, want) {
		t.Errorf("at its start the sink listens on %v, want %v", got, want)
	}
	// Both lanes, an import, a dead letter and spans: everything that opens sockets.
	w.produce(traced(order("o1", "PAID", 1)), customer("C1", "basic", 1), event("orders", "bad", "{"))
	w.settled()
	w.until("spans have arrived", func() bool { return len(to.named("process "+w.topic("orders"))) > 0 })
	if got := sink.listeners(t); !slices.Equal(got, want) {
		t.Errorf("at work the sink listens on %v, want %v", got, want)
	}
}
