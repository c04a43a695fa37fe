//go:build !image

package e2e_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/feed"
	"github.com/feedsink/feedsink/test/sandbox"
)

// An import's end is known by the service's call, whatever that carries, long
// before the first poll.
func TestTheServicesCallEndsTheWaitForAnImport(t *testing.T) {
	for name, shape := range map[string]sandbox.WebhookShape{
		"ids": sandbox.WebhookIDs, "nested": sandbox.WebhookNested, "no body": sandbox.WebhookEmpty,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(s *sandbox.Config) { s.Shapes.Webhook = shape })
			w.firstPoll, w.patience = time.Minute, 30*time.Second
			file := filepath.Join(t.TempDir(), "secret")
			if err := os.WriteFile(file, []byte("the-secret-of-the-webhook"), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Parse("feedsink.yaml", []byte(head+deadLetters+mappings), w.env)
			if err != nil {
				t.Fatal(err)
			}
			cfg.Admin.Webhook.SecretFile = file
			sink := w.begin(cfg)
			w.until("the sink is ready", func() bool { return len(sink.Unready()) == 0 })
			client, err := connector.NewClient(cfg.Service)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			_, err = client.CreateWebhook(t.Context(), feed.Webhook{
				ElementID: "101", TargetURL: "http://" + sink.AdminAddress() + "/webhooks/executions",
				Headers: map[string]feed.Secret{cfg.Admin.Webhook.Header: feed.NewSecret("the-secret-of-the-webhook")},
			})
			if err != nil {
				t.Fatal(err)
			}
			w.produce(customer("C1", "basic", 1))
			w.settled()
			if w.service.Len("customers") != 1 {
				t.Errorf("got %d customers, want the imported one", w.service.Len("customers"))
			}
		})
	}
}
