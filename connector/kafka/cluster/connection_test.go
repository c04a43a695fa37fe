package cluster_test

import (
	"context"
	"crypto/tls"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/security"
	"github.com/feedsink/feedsink/test/certs"
)

func ask(t *testing.T, c cluster.Connection) (map[string]cluster.Topic, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	found, err := c.Describe(ctx, []string{"a", "missing"}, nil)
	return found.Topics, err
}

func TestPasswordIsAskedForAtEachConnection(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "a"), kfake.EnableSASL(), kfake.Superuser(mechanism, "feedsink", "new"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var changed atomic.Bool
			connection := cluster.Connection{Brokers: c.ListenAddrs(), SASL: &cluster.SASL{
				Mechanism: mechanism, Username: "feedsink",
				Password: func() (string, error) {
					if changed.Load() {
						return "new", nil
					}
					return "old", nil
				},
			}}
			if _, err := ask(t, connection); err == nil {
				t.Error("with the old password: got no error")
			} else if strings.Contains(err.Error(), "old") {
				t.Errorf("refusal: got the password in %q", err)
			}
			changed.Store(true)
			topics, err := ask(t, connection)
			if err != nil {
				t.Fatalf("with the new password: %v", err)
			}
			if got := topics["a"]; got.Partitions != 3 || got.Err != nil {
				t.Errorf("topic a: got %+v, want 3 partitions", got)
			}
			if got := topics["missing"]; got.Err == nil {
				t.Error("topic that is missing: got no error")
			}
		})
	}
}

func TestUnknownMechanismNamesTheKey(t *testing.T) {
	t.Parallel()
	_, err := cluster.Connection{Brokers: []string{"localhost:1"}, SASL: &cluster.SASL{Mechanism: "GSSAPI"}}.Options()
	if err == nil || !strings.Contains(err.Error(), "kafka.sasl.mechanism") {
		t.Errorf("mechanism GSSAPI: got %v, want an error that names kafka.sasl.mechanism", err)
	}
}

// files are what a client has on disk.
func files(t *testing.T) security.TLSFiles {
	t.Helper()
	dir := t.TempDir()
	return security.TLSFiles{CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
}

// bear gives the client the authority, and a certificate of it.
func bear(t *testing.T, f security.TLSFiles, a *certs.Authority, name string) {
	t.Helper()
	pair := a.Issue(t, name)
	certs.Write(t, f.CAFile, a.PEM)
	certs.Write(t, f.CertFile, pair.Cert)
	certs.Write(t, f.KeyFile, pair.Key)
}

func TestBothSidesOfTheConnectionShowTheirCertificates(t *testing.T) {
	t.Parallel()
	var current atomic.Pointer[tls.Config]
	show := func(a *certs.Authority) {
		current.Store(&tls.Config{
			Certificates: []tls.Certificate{a.Issue(t, "broker", "127.0.0.1").TLS(t)}, ClientCAs: a.Pool,
			ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
		})
	}
	first, second := certs.NewAuthority(t, "first"), certs.NewAuthority(t, "second")
	show(first)
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "a"), kfake.TLS(&tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return current.Load(), nil },
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	own := files(t)
	bear(t, own, first, "feedsink")
	connection := cluster.Connection{Brokers: c.ListenAddrs(), TLS: &own}
	topics, err := ask(t, connection)
	if err != nil || topics["a"].Partitions != 2 {
		t.Errorf("with authority and certificate: got %+v, %v, want 2 partitions", topics["a"], err)
	}
	if _, err := ask(t, cluster.Connection{Brokers: c.ListenAddrs(), TLS: &security.TLSFiles{CertFile: own.CertFile, KeyFile: own.KeyFile}}); err == nil {
		t.Error("without the broker's authority: got no error")
	}
	opts, err := connection.Options()
	if err != nil {
		t.Fatal(err)
	}
	show(second)
	bear(t, own, second, "feedsink")
	client, err := kgo.NewClient(opts...) // from options of before
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Ping(t.Context()); err != nil {
		t.Errorf("with everything replaced: got %v, want a connection", err)
	}
}

func TestFilesThatCannotWorkAreNamed(t *testing.T) {
	t.Parallel()
	own := files(t)
	bear(t, own, certs.NewAuthority(t, "a"), "feedsink")
	for key, files := range map[string]security.TLSFiles{
		"kafka.tls.caFile: stat missing.pem": {CAFile: "missing.pem"},
		"kafka.tls.caFile: " + own.KeyFile:   {CAFile: own.KeyFile},
		"kafka.tls.certFile":                 {CertFile: own.CertFile, KeyFile: own.CertFile},
	} {
		_, err := cluster.Connection{Brokers: []string{"localhost:1"}, TLS: &files}.Options()
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%+v: got %v, want an error with %q", files, err, key)
		}
	}
}

func TestBrokerThatIsTooOldIsTold(t *testing.T) {
	t.Parallel()
	for version, old := range map[*kversion.Versions]bool{kversion.V0_10_2(): true, kversion.V0_11_0(): false, kversion.V3_9_0(): false} {
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "a"), kfake.MaxVersions(version))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		asked := cluster.Connection{Brokers: c.ListenAddrs()}
		found, err := asked.Describe(t.Context(), []string{"a"}, nil)
		if err != nil || len(found.Brokers) != 1 || errors.Is(found.Brokers[0].Err, cluster.ErrTooOld) != old {
			t.Errorf("%s: got %+v, %v, want too old: %t", version.VersionGuess(), found.Brokers, err, old)
		}
	}
}
