package source_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/feedsink/feedsink/connector/source"
)

func ask(t *testing.T, c source.Connection) (map[string]source.Topic, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return source.Topics(ctx, c, []string{"a", "missing"})
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
			connection := source.Connection{Brokers: c.ListenAddrs(), SASL: &source.SASL{
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
	_, err := source.Connection{Brokers: []string{"localhost:1"}, SASL: &source.SASL{Mechanism: "GSSAPI"}}.Options()
	if err == nil || !strings.Contains(err.Error(), "kafka.sasl.mechanism") {
		t.Errorf("mechanism GSSAPI: got %v, want an error that names kafka.sasl.mechanism", err)
	}
}

// certificate writes a certificate for 127.0.0.1 that is its own authority.
func certificate(t *testing.T) (certFile, keyFile string, pair tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if pair, err = tls.LoadX509KeyPair(certFile, keyFile); err != nil {
		t.Fatal(err)
	}
	return certFile, keyFile, pair
}

func TestBothSidesOfTheConnectionShowTheirCertificates(t *testing.T) {
	t.Parallel()
	certFile, keyFile, pair := certificate(t)
	authorities := x509.NewCertPool()
	authorities.AddCert(pair.Leaf)
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "a"), kfake.TLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: authorities, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	topics, err := ask(t, source.Connection{Brokers: c.ListenAddrs(), TLS: &source.TLS{CAFile: certFile, CertFile: certFile, KeyFile: keyFile}})
	if err != nil || topics["a"].Partitions != 2 {
		t.Errorf("with authority and certificate: got %+v, %v, want 2 partitions", topics["a"], err)
	}
	if _, err := ask(t, source.Connection{Brokers: c.ListenAddrs(), TLS: &source.TLS{CertFile: certFile, KeyFile: keyFile}}); err == nil {
		t.Error("without the broker's authority: got no error")
	}
}

func TestFilesThatCannotWorkAreNamed(t *testing.T) {
	t.Parallel()
	certFile, keyFile, _ := certificate(t)
	for key, files := range map[string]source.TLS{
		"kafka.tls.caFile: open":       {CAFile: "missing.pem"},
		"kafka.tls.caFile: " + keyFile: {CAFile: keyFile},
		"kafka.tls.certFile":           {CertFile: certFile, KeyFile: certFile},
	} {
		_, err := source.Connection{Brokers: []string{"localhost:1"}, TLS: &files}.Options()
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%+v: got %v, want an error with %q", files, err, key)
		}
	}
}
