//go:build kafka

package e2e_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/test/certs"
	"github.com/feedsink/feedsink/test/kafka"
)

const password = "the-password-that-must-not-show"

// fatal is a testing.TB before there is a test.
type fatal struct{ testing.TB }

func (fatal) Helper() {}

func (fatal) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// guards secure the shared broker.
var guards *guarded

// guarded are the secured listeners of a broker, each behind a relay, and the
// sink's files for them.
type guarded struct {
	secrets
	mutual    secrets // of the listener for mTLS, whose certificates are renewed
	broker    *kafka.Broker
	authority *certs.Authority // whose certificates broker and sink show at first
	relays    map[string]*relay
	tokens    *httptest.Server
}

// The names of the listeners.
const (
	listenTLS   = "TLS"
	listenMTLS  = "MTLS"
	listenSCRAM = "SCRAM"
	listenPLAIN = "PLAIN"
	listenOAUTH = "OAUTH"
)

const (
	stores    = "/tmp/feedsink/"
	loginOf   = "org.apache.kafka.common.security."
	tokenLife = 20 * time.Second // so that sessions are renewed amid the tests; the client does it a fiftieth of that early
)

func newGuards(dir string) (*guarded, error) {
	g := &guarded{secrets: secrets{dir}, mutual: secrets{dir + "/mutual"}, authority: certs.NewAuthority(fatal{}, "first"), relays: map[string]*relay{}}
	for _, name := range []string{listenTLS, listenMTLS, listenSCRAM, listenPLAIN, listenOAUTH} {
		r, err := newRelay()
		if err != nil {
			return nil, err
		}
		g.relays[name] = r
	}
	g.bear(fatal{}, g.authority)
	g.mutual.bear(fatal{}, g.authority)
	g.write(fatal{}, "me.password", []byte(password+"\n"))
	g.tokens = httptest.NewServer(http.HandlerFunc(giveToken))
	return g, nil
}

// giveToken answers as a token server does, with a token that nobody has signed:
// the broker's own way to be tried out.
func giveToken(w http.ResponseWriter, r *http.Request) {
	if user, secret, _ := r.BasicAuth(); user != "me" || secret != password {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	now := time.Now()
	part := func(v any) string {
		text, _ := json.Marshal(v) // maps of text and numbers
		return base64.RawURLEncoding.EncodeToString(text)
	}
	token := part(map[string]any{"alg": "none"}) + "." +
		part(map[string]any{"sub": "me", "scope": "kafka", "iat": now.Unix(), "exp": now.Add(tokenLife).Unix()}) + "."
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": int(tokenLife.Seconds())})
}

// store is what the broker shows, in one file as it wants it.
func store(tb testing.TB, authority *certs.Authority) []byte {
	tb.Helper()
	pair := authority.Issue(tb, "broker", "127.0.0.1")
	return slices.Concat(pair.Key, pair.Cert)
}

func (g *guarded) files() map[string][]byte {
	return map[string][]byte{stores + "server1.pem": store(fatal{}, g.authority), stores + "ca1.pem": g.authority.PEM}
}

func (g *guarded) config() map[string]string {
	return map[string]string{"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER"}
}

// keyStore and trustStore are properties of a listener; round counts the files.
func keyStore(round string) map[string]string {
	return map[string]string{"ssl.keystore.type": "PEM", "ssl.keystore.location": stores + "server" + round + ".pem"}
}

func trustStore(round string) map[string]string {
	return map[string]string{"ssl.truststore.type": "PEM", "ssl.truststore.location": stores + "ca" + round + ".pem"}
}

func with(properties map[string]string, more ...string) map[string]string {
	for i := 0; i+1 < len(more); i += 2 {
		properties[more[i]] = more[i+1]
	}
	return properties
}

func (g *guarded) listeners() []kafka.Secured {
	mutual := keyStore("1")
	maps.Copy(mutual, trustStore("1"))
	all := []kafka.Secured{
		{Name: listenTLS, Protocol: "SSL", Config: keyStore("1")},
		{Name: listenMTLS, Protocol: "SSL", Config: with(mutual, "ssl.client.auth", "required")},
		{Name: listenSCRAM, Protocol: "SASL_SSL", Config: with(keyStore("1"), "sasl.enabled.mechanisms", "SCRAM-SHA-512",
			"scram-sha-512.sasl.jaas.config", loginOf+"scram.ScramLoginModule required;")},
		{Name: listenPLAIN, Protocol: "SASL_SSL", Config: with(keyStore("1"), "sasl.enabled.mechanisms", "PLAIN",
			"plain.sasl.jaas.config", loginOf+`plain.PlainLoginModule required user_me="`+password+`";`)},
		{Name: listenOAUTH, Protocol: "SASL_SSL", Config: with(keyStore("1"), "sasl.enabled.mechanisms", "OAUTHBEARER",
			"oauthbearer.sasl.jaas.config", loginOf+"oauthbearer.OAuthBearerLoginModule required;",
			"oauthbearer.connections.max.reauth.ms", "60000")}, // the token's end comes first
	}
	for i := range all {
		all[i].Front = g.relays[all[i].Name].address()
	}
	return all
}

// open leads the relays to the broker and makes the user of SCRAM.
func (g *guarded) open(b *kafka.Broker) {
	g.broker = b
	for _, r := range g.relays {
		r.lead(b.Behind(r.address()))
	}
	g.admit(fatal{}, "me", password)
}

func (g *guarded) close() {
	for _, r := range g.relays {
		r.close()
	}
	g.tokens.Close()
}

// admin asks through the plain listener.
func (g *guarded) admin(tb testing.TB, ask func(*kgo.Client) error) {
	tb.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(g.broker.Addr()))
	if err != nil {
		tb.Fatal(err)
	}
	defer client.Close()
	if err := ask(client); err != nil {
		tb.Fatal(err)
	}
}

// admit gives a user of SCRAM a password, in place of the one before.
func (g *guarded) admit(tb testing.TB, user, password string) {
	tb.Helper()
	g.admin(tb, func(client *kgo.Client) error {
		answers, err := kadm.NewClient(client).AlterUserSCRAMs(context.Background(), nil, []kadm.UpsertSCRAM{
			{User: user, Mechanism: kadm.ScramSha512, Iterations: 4096, Password: password},
		})
		if err == nil {
			err = answers.Error()
		}
		return err
	})
}

// renew gives a listener the files of a later round, of another authority.
func (g *guarded) renew(t *testing.T, listener, round string, authority *certs.Authority) {
	t.Helper()
	for path, content := range map[string][]byte{"server" + round + ".pem": store(t, authority), "ca" + round + ".pem": authority.PEM} {
		if err := g.broker.Put(t.Context(), stores+path, content); err != nil {
			t.Fatal(err)
		}
	}
	prefix := "listener.name." + strings.ToLower(listener) + "."
	set := func(properties map[string]string) {
		var configs []kadm.AlterConfig
		for property, value := range properties {
			configs = append(configs, kadm.AlterConfig{Op: kadm.SetConfig, Name: prefix + property, Value: &value})
		}
		g.admin(t, func(client *kgo.Client) error {
			answers, err := kadm.NewClient(client).AlterBrokerConfigs(t.Context(), configs, 1)
			if err != nil {
				return err
			}
			for _, a := range answers {
				if a.Err != nil {
					return fmt.Errorf("%w: %s", a.Err, a.ErrMessage)
				}
			}
			return nil
		})
	}
	set(trustStore(round)) // first: the broker tries its own certificate on it
	set(keyStore(round))
}

// securities are all listeners but the plain one.
func securities(*testing.T) []access {
	g := guards
	thorough := cmp.Or(os.Getenv(throughVariable), listenSCRAM) // the commands take seconds
	way := func(name, keys, flags string) access {
		return access{
			name: name, keys: keys, flags: "--tls --ca-file " + flags, brief: name != thorough,
			brokers: []string{g.relays[name].address()}, own: []kgo.Opt{kgo.SeedBrokers(g.broker.Addr())},
		}
	}
	ca, mutual := g.file("ca.pem"), g.mutual
	login := func(mechanism string) string {
		return ca + " --sasl " + mechanism + " --username me --password-file " + g.file("me.password")
	}
	return []access{
		way(listenTLS, g.trusting(), ca),
		way(listenMTLS, mutual.bearing(), mutual.file("ca.pem")+" --cert-file "+mutual.file("cert.pem")+" --key-file "+mutual.file("key.pem")),
		way(listenSCRAM, g.trusting()+", "+g.known("SCRAM-SHA-512", "me"), login("SCRAM-SHA-512")),
		way(listenPLAIN, g.trusting()+", "+g.known("PLAIN", "me"), login("PLAIN")),
		way(listenOAUTH, g.trusting()+", sasl: {mechanism: OAUTHBEARER, oauth: {tokenURL: '"+g.tokens.URL+"', clientId: me, clientSecretFile: "+
			g.file("me.password")+"}}", ca+" --sasl OAUTHBEARER --token-url "+g.tokens.URL+" --client-id me --client-secret-file "+g.file("me.password")),
	}
}
