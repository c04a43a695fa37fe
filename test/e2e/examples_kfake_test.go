//go:build !kafka && !image

package e2e_test

import (
	"crypto/tls"
	"net/http/httptest"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/test/certs"
)

// wayOf is to a broker that lets nobody in but who comes as the example says, with
// the secrets that every example has; the example then stays as it is. A file
// without certificates of its own is for brokers that a test cannot have.
func wayOf(t *testing.T, k *config.Kafka, authority *certs.Authority) (s access, asItIs bool) {
	t.Helper()
	if k.TLS.CAFile == "" {
		return usual(t), false
	}
	server := &tls.Config{Certificates: []tls.Certificate{authority.Issue(t, "broker", "127.0.0.1").TLS(t)}, ClientCAs: authority.Pool, MinVersion: tls.VersionTLS12}
	if k.TLS.CertFile != "" {
		server.ClientAuth = tls.RequireAndVerifyClientCert
	}
	own := kgo.DialTLSConfig(&tls.Config{Certificates: []tls.Certificate{authority.Issue(t, "test").TLS(t)}, RootCAs: authority.Pool, MinVersion: tls.VersionTLS12})
	switch k.SASL.Mechanism {
	case "SCRAM-SHA-512":
		login := kgo.SASL(scram.Auth{User: k.SASL.Username, Pass: apiKey}.AsSha512Mechanism())
		return embedded(t, access{own: []kgo.Opt{own, login}}, kfake.TLS(server), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", k.SASL.Username, apiKey)), true
	case "OAUTHBEARER":
		cluster, given := bearer(t, kfake.TLS(server))
		tokens := httptest.NewUnstartedServer(tokenServer(k.SASL.OAuth.ClientID, apiKey, given))
		tokens.TLS = &tls.Config{Certificates: []tls.Certificate{authority.Issue(t, "tokens", "127.0.0.1").TLS(t)}, MinVersion: tls.VersionTLS12}
		tokens.StartTLS()
		t.Cleanup(tokens.Close)
		k.SASL.OAuth.TokenURL = tokens.URL
		return access{brokers: cluster.ListenAddrs(), own: []kgo.Opt{own, kgo.SeedBrokers(cluster.ListenAddrs()...)}}, true
	}
	t.Fatalf("no broker for kafka.sasl.mechanism: %s", k.SASL.Mechanism)
	return access{}, false
}
