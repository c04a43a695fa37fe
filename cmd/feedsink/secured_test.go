package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/security"
	"github.com/feedsink/feedsink/test/certs"
)

// guarded is a sink of which only the admin server is there.
type guarded struct{}

func (guarded) Unready() []string { return nil }

func (guarded) Status() any { return nil }

// level is the log's, as it was last set.
type level struct{ now string }

func (l *level) Level() string { return l.now }

func (l *level) SetLevel(to string) error {
	l.now = to
	return nil
}

// Where the sink's own files are, -c is enough: the certificate need not name the
// address that is listened on.
func TestCommandsReachASinkThatIsSecured(t *testing.T) {
	d := newHost(t)
	authority := certs.NewAuthority(t, "company")
	pair := authority.Issue(t, "feedsink", "localhost")
	for name, content := range map[string][]byte{"ca.crt": authority.PEM, "tls.crt": pair.Cert, "tls.key": pair.Key, "token": []byte("the-token")} {
		certs.Write(t, filepath.Join(d.dir, name), content)
	}
	certificate, err := security.NewTLSServer(security.TLSFiles{CertFile: "tls.crt", KeyFile: "tls.key"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	log, l, host := slog.New(slog.DiscardHandler), &level{"info"}, &imports{}
	access := admin.Access{Token: func() (string, error) { return "the-token", nil }, ProtectReads: true, Certificate: certificate}
	server, err := admin.Listen("127.0.0.1:0", access, guarded{}, prometheus.NewRegistry(), log, admin.Imports(host), admin.LogLevel(l, log))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	d.change("admin: {", fmt.Sprintf("admin: {listen: %q, tokenFile: ./token, protectReads: true, tls: {certFile: ./tls.crt, keyFile: ./tls.key}, ", server.Address()))
	d.change("upsert: {mode", `upsert: {etl: "1", mode`)
	d.write("customers.csv", "customerNumber\nC1\n")
	there := "--server https://" + server.Address()
	_, port, _ := net.SplitHostPort(server.Address())
	named := "--server https://localhost:" + port // which the certificate names
	for _, c := range []struct {
		line string
		code int
		want string
	}{
		{"imports list -c feedsink.yaml", exitFine, "consents is halted"},
		{"imports show -c feedsink.yaml --mapping customers", exitFine, "execution   1004"},
		{"imports release -c feedsink.yaml --mapping consents", exitFine, "consents is released"},
		{"log-level -c feedsink.yaml debug", exitFine, "debug"},
		{"imports files -c feedsink.yaml --mapping quiet", exitFailed, "mapping quiet: no execution is known"},
		{"import --mapping customers customers.csv " + there, exitFine, "FINISHED"},
		{"imports list " + there + " --token-file token --ca-file ca.crt", exitFailed, "is not called so in its certificate"},
		{"imports list " + named + " --token-file token", exitFailed, "--ca-file names"},
		{"imports list " + named + " --token-file token --ca-file ca.crt", exitFine, "consents is halted"},
		{"imports list " + named + " --ca-file ca.crt", exitFailed, "the token is missing or wrong"},
		{"imports list " + there + " --ca-file token", exitUsage, "holds no certificate"},
		{"imports list -c feedsink.yaml --ca-file ca.crt", exitFailed, "is not called so in its certificate"},
	} {
		code, out, failed := d.run(c.line)
		if said := out + failed; code != c.code || !strings.Contains(said, c.want) || strings.Contains(said, "the-token") {
			t.Errorf("%s: got code %d, %q, want %d, %q", c.line, code, said, c.code, c.want)
		}
	}
	if !host.released || l.now != "debug" || len(host.taken) != 1 {
		t.Errorf("got released %t, level %s, taken %q, want all three changed", host.released, l.now, host.taken)
	}
	other := authority.Issue(t, "other", "127.0.0.1")
	d.write("tls.key", string(other.Key))
	d.write("tls.crt", string(other.Cert)) // the server shows it from now on
	if code, _, failed := d.run("imports list -c feedsink.yaml"); code != exitFine {
		t.Errorf("renewed: got code %d, %q, want the new certificate known", code, failed)
	}
	d.write("mine.key", string(pair.Key))
	d.write("mine.crt", string(pair.Cert))
	d.change("tls: {certFile: ./tls.crt, keyFile: ./tls.key}", "tls: {certFile: ./mine.crt, keyFile: ./mine.key}")
	if code, _, failed := d.run("imports list -c feedsink.yaml"); code != exitFailed || !strings.Contains(failed, "with another key") {
		t.Errorf("another sink at that address: got code %d, %q, want that it is not known", code, failed)
	}
}
