//go:build debezium

package debezium_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// postgres is a server of the test's own, with an empty database and a log that
// can be decoded.
type postgres struct {
	t    *testing.T
	bin  string // folder of the server's programs
	dir  string // its data and its socket
	port string
	as   *syscall.SysProcAttr // the user it runs as: root may not
}

// startPostgres needs Debian's package postgresql, or initdb, postgres and psql
// on the path.
func startPostgres(t *testing.T) *postgres {
	t.Helper()
	dir, err := os.MkdirTemp("", "feedsink-postgres-") //nolint:usetesting // the test's own folder lies in one that is root's alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &postgres{t: t, bin: postgresPrograms(t), dir: dir, port: freePort(t)}
	if os.Getuid() == 0 {
		p.as = other(t, dir, "postgres")
	}
	data := filepath.Join(dir, "data")
	p.run(nil, "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
	server := exec.Command(
		filepath.Join(p.bin, "postgres"), "-D", data, "-k", dir, "-p", p.port, "-c", "listen_addresses=127.0.0.1",
		"-c", "wal_level=logical", "-c", "fsync=off", "-c", "max_replication_slots=32", "-c", "max_wal_senders=32", "-c", "log_min_messages=fatal",
	)
	log := &strings.Builder{}
	server.SysProcAttr, server.Stdout, server.Stderr = p.as, log, log
	if err := server.Start(); err != nil {
		t.Fatalf("postgres: %v", err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGQUIT) // at once: its data goes anyway
		_ = server.Wait()
		if t.Failed() {
			t.Logf("the log of PostgreSQL:\n%s", log)
		}
	})
	p.until("PostgreSQL answers", func() bool {
		return p.command(nil, "pg_isready", "-q", "-h", dir, "-p", p.port).Run() == nil
	})
	return p
}

// postgresPrograms finds the newest server: Debian keeps them off the path.
func postgresPrograms(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err != nil { // its fellows stand beside the program itself
			t.Fatal(err)
		}
		return filepath.Dir(path)
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		t.Fatal("no PostgreSQL server found: install Debian's package postgresql, or put initdb on the path")
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(newest)
}

func version(program string) int {
	n, _ := strconv.Atoi(strings.Split(program, "/")[4])
	return n
}

// other is how to run as that user, who is given the folder.
func other(t *testing.T, dir, name string) *syscall.SysProcAttr {
	t.Helper()
	account, err := user.Lookup(name)
	if err != nil {
		t.Fatalf("PostgreSQL does not run as root: %v", err)
	}
	uid, _ := strconv.Atoi(account.Uid)
	gid, _ := strconv.Atoi(account.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func (p *postgres) command(stdin []byte, program string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(p.bin, program), args...)
	c.Dir, c.SysProcAttr, c.Stdin = p.dir, p.as, strings.NewReader(string(stdin))
	return c
}

func (p *postgres) run(stdin []byte, program string, args ...string) string {
	p.t.Helper()
	c := p.command(stdin, program, args...)
	var errors strings.Builder
	c.Stderr = &errors
	out, err := c.Output()
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", program, err, errors.String())
	}
	return string(out)
}

// sql runs a script and returns what it prints, a line for each row.
func (p *postgres) sql(script string) []string {
	p.t.Helper()
	out := p.run([]byte(script), "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", p.dir, "-p", p.port, "-U", "postgres", "postgres")
	return strings.Split(strings.TrimSuffix(out, "\n"), "\n")
}

// script runs a file of testdata.
func (p *postgres) script(name string) {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		p.t.Fatal(err)
	}
	p.sql(string(text))
}

// until waits for a condition, looking again at short intervals.
func (p *postgres) until(what string, holds func() bool) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			p.t.Fatalf("waited %v in vain: %s", patience, what)
		case <-look.C:
		}
	}
}

// patience bounds the wait for whatever another process has to do.
const patience = 3 * time.Minute

// watched waits until n engines read the log.
func (p *postgres) watched(n int) {
	p.t.Helper()
	p.until(fmt.Sprintf("%d engines read the log", n), func() bool {
		return p.sql("SELECT count(*) FROM pg_replication_slots WHERE active")[0] == strconv.Itoa(n)
	})
}
