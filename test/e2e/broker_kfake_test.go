//go:build !kafka

package e2e_test

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/feedsink/feedsink/test/certs"
)

const password = "the-password-that-must-not-show"

func startBroker() (stop func(), err error) { return func() {}, nil }

// usual is a broker for the test alone, without TLS or login.
func usual(t *testing.T) access { return embedded(t, access{}) }

// embedded starts a broker, and completes the way in with its address.
func embedded(t *testing.T, s access, opts ...kfake.Opt) access {
	t.Helper()
	cluster, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	s.brokers = cluster.ListenAddrs()
	s.own = append(s.own, kgo.SeedBrokers(s.brokers...))
	return s
}

// securities are what the embedded broker speaks, and OAUTHBEARER, which the
// test speaks for it.
func securities(t *testing.T) []access {
	files := secrets{t.TempDir()}
	authority := certs.NewAuthority(t, "authority")
	files.bear(t, authority)
	files.write(t, "me.password", []byte(password+"\n"))
	server := &tls.Config{
		Certificates: []tls.Certificate{authority.Issue(t, "broker", "127.0.0.1").TLS(t)},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool, MinVersion: tls.VersionTLS12,
	}
	client := &tls.Config{
		Certificates: []tls.Certificate{authority.Issue(t, "test").TLS(t)}, RootCAs: authority.Pool, MinVersion: tls.VersionTLS12,
	}
	login := scram.Auth{User: "me", Pass: password}
	return []access{
		embedded(t, access{name: "mTLS", keys: files.bearing(), own: []kgo.Opt{kgo.DialTLSConfig(client)}}, kfake.TLS(server)),
		embedded(t, access{
			name: "PLAIN", keys: files.known("PLAIN", "me"), flags: "--sasl PLAIN --username me --password-file " + files.file("me.password"),
			own: []kgo.Opt{kgo.SASL(plain.Auth{User: "me", Pass: password}.AsMechanism())},
		}, kfake.EnableSASL(), kfake.Superuser("PLAIN", "me", password)),
		embedded(t, access{
			name: "SCRAM-SHA-512 over mTLS", keys: files.bearing() + ", " + files.known("SCRAM-SHA-512", "me"),
			flags: "--tls --ca-file " + files.file("ca.pem") + " --cert-file " + files.file("cert.pem") + " --key-file " + files.file("key.pem") +
				" --sasl SCRAM-SHA-512 --username me --password-file " + files.file("me.password"),
			own: []kgo.Opt{kgo.DialTLSConfig(client), kgo.SASL(login.AsSha512Mechanism())},
		}, kfake.TLS(server), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "me", password)),
		bearing(t, files),
	}
}

// bearing is OAUTHBEARER with a token server that gives a new token each time.
func bearing(t *testing.T, files secrets) access {
	t.Helper()
	cluster, given := bearer(t)
	server := httptest.NewServer(tokenServer("me", password, given))
	t.Cleanup(server.Close)
	return access{
		name: "OAUTHBEARER", brokers: cluster.ListenAddrs(), own: []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)},
		keys: "sasl: {mechanism: OAUTHBEARER, oauth: {tokenURL: '" + server.URL + "', clientId: me, clientSecretFile: " +
			files.file("me.password") + ", extensions: [logicalCluster=lkc-1]}}",
		flags: "--sasl OAUTHBEARER --token-url " + server.URL + " --client-id me --client-secret-file " + files.file("me.password") +
			" --extension logicalCluster=lkc-1",
	}
}

// tokenServer gives one client a token, and counts how often.
func tokenServer(client, secret string, given *atomic.Int32) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, shown, _ := r.BasicAuth(); user != client || shown != secret {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		given.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "the-token", "token_type": "Bearer", "expires_in": 60})
	})
}

// bearer is a broker that takes the token of tokenServer, and what counts those
// that are given. The embedded broker does not know the mechanism, so the test
// answers for it; it does not ask those who show nothing, as the test's own clients.
func bearer(t *testing.T, opts ...kfake.Opt) (cluster *kfake.Cluster, given *atomic.Int32) {
	t.Helper()
	var shown atomic.Int32
	given = &atomic.Int32{}
	cluster, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	t.Cleanup(func() {
		if given.Load() == 0 || shown.Load() < given.Load() {
			t.Errorf("tokens: %d were given and %d shown, want each to serve more than one connection", given.Load(), shown.Load())
		}
	})
	cluster.ControlKey(int16(kmsg.SASLHandshake), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		response, _ := r.ResponseKind().(*kmsg.SASLHandshakeResponse)
		if handshake, _ := r.(*kmsg.SASLHandshakeRequest); handshake.Mechanism != "OAUTHBEARER" {
			response.ErrorCode = kerr.UnsupportedSaslMechanism.Code
		}
		return response, nil, true
	})
	cluster.ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		response, _ := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		said, _ := r.(*kmsg.SASLAuthenticateRequest)
		if !strings.Contains(string(said.SASLAuthBytes), "\x01auth=Bearer the-token\x01logicalCluster=lkc-1\x01") {
			response.ErrorCode = kerr.SaslAuthenticationFailed.Code
		}
		shown.Add(1)
		return response, nil, true
	})
	return cluster, given
}
