//go:build !image

package e2e_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/security"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/schemas"
	"github.com/feedsink/feedsink/test/certs"
)

// webhookSecret is what the service shows with its calls.
const webhookSecret = "the-secret-of-the-webhook"

// awaited is a configuration whose sinks take the service's calls.
func (w *world) awaited() *config.Config {
	w.t.Helper()
	cfg := w.config(head + deadLetters + mappings)
	cfg.Admin.Webhook.SecretFile = filepath.Join(w.t.TempDir(), "secret")
	certs.Write(w.t, cfg.Admin.Webhook.SecretFile, []byte(webhookSecret))
	return cfg
}

// subscribe has the service call an admin server when an import has ended.
func (w *world) subscribe(cfg *config.Config, address string) {
	w.t.Helper()
	client, err := build.NewService(cfg.Service)
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	_, err = client.CreateWebhook(w.t.Context(), service.Webhook{
		ElementID: "101", TargetURL: address + "/webhooks/executions",
		Headers: map[string]service.Secret{cfg.Admin.Webhook.Header: service.NewSecret(webhookSecret)},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// endsByItsHint has an import end once the sink has its id: a call that is faster than the
// answer to the trigger tells nothing.
func (w *world) endsByItsHint() {
	w.t.Helper()
	w.service.Hold()
	w.produce(customer("C1", "basic", 1))
	w.until("the sink awaits the import", func() bool { return strings.Contains(w.logs.String(), "import triggered") })
	w.service.Release()
	w.settled()
	if got := w.service.Len("customers"); got != 1 {
		w.t.Errorf("got %d customers, want the imported one", got)
	}
}

// An import's end is known by the service's call, whatever that carries, long
// before the first poll.
func TestTheServicesCallEndsTheWaitForAnImport(t *testing.T) {
	t.Parallel()
	for name, shape := range map[string]string{
		"ids": "", "nested": "nested", "no body": "empty",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(s *sandbox.Config) { s.Shapes.Webhook = shape })
			w.firstPoll, w.patience = time.Minute, 30*time.Second
			cfg := w.awaited()
			sink := w.begin(cfg)
			w.until("the sink is ready", func() bool { return len(sink.Unready()) == 0 })
			w.subscribe(cfg, "http://"+sink.AdminAddress())
			w.endsByItsHint()
		})
	}
}

// The service's call arrives at a member that has no imports. Under TLS, and after a
// renewal, the one that waits for the import hears of it all the same.
func TestHintReachesTheMemberThatWaitsUnderTLS(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.firstPoll, w.patience = time.Minute, 30*time.Second
	cfg := w.awaited()
	cfg.Admin.TLS.CertFile, cfg.Admin.TLS.KeyFile = filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	renew := func(name string) {
		pair := certs.NewAuthority(t, name).Issue(t, name, "feedsink.example") // which is nobody's address
		certs.Write(t, cfg.Admin.TLS.KeyFile, pair.Key)
		certs.Write(t, cfg.Admin.TLS.CertFile, pair.Cert)
	}
	renew("first")
	w.lanes = []schemas.Lane{schemas.Batch}
	waiting := w.begin(cfg)
	called := *cfg
	called.Admin.Webhook.Members = waiting.AdminAddress()
	w.lanes = []schemas.Lane{schemas.Immediate}
	front := w.begin(&called)
	w.until("both members are ready", func() bool { return len(waiting.Unready())+len(front.Unready()) == 0 })

	renew("second")
	known, err := security.Pinned(cfg.Admin.TLS.CertFile)
	if err != nil {
		t.Fatal(err)
	}
	ingress := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "https", Host: front.AdminAddress()})
	ingress.Transport = &http.Transport{TLSClientConfig: known}
	exposed := httptest.NewServer(ingress)
	defer exposed.Close()
	w.subscribe(cfg, exposed.URL)
	w.endsByItsHint()
}
