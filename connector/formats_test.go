package connector

import (
	"encoding/pem"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/decode"
	"github.com/feedsink/feedsink/connector/kafka"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/check"
)

// guarded is a registry behind TLS that wants a login, and the configuration
// that reaches it.
func guarded(t *testing.T) (*srfake.Registry, *config.Config) {
	t.Helper()
	registry := srfake.NewRegistry()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		registry.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	files := map[string][]byte{
		"ca.pem":   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		"password": []byte("s3cret\n"),
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return registry, &config.Config{
		SchemaRegistry: config.SchemaRegistry{
			URL: config.NewAddress(server.URL), Username: "me", PasswordFile: filepath.Join(dir, "password"),
			TLS: config.Certificates{CAFile: filepath.Join(dir, "ca.pem")},
		},
		Mappings: []router.Mapping{
			{Topics: []string{"plain"}, Format: "json"},
			{Topics: []string{"sales", "returns"}, Format: "avro"},
		},
	}
}

func TestCommandsWaitForSchemas(t *testing.T) {
	registry, cfg := guarded(t)
	registry.SeedSchema("sales-value", 1, 1, sr.Schema{Schema: `"int"`})
	registry.SeedSchema("sales-value", 2, 2, sr.Schema{Schema: `{"type":"record","name":"r","fields":[{"name":"id","type":"int"}]}`})
	cfg.Mappings = []router.Mapping{{
		Name: "sales", Topics: []string{"sales"}, Format: "avro", KafkaKey: "avro", CustomTable: "sales", Key: "businessKey",
		Fields: []router.Field{{From: "id", To: "businessKey"}}, Routes: []router.Route{{Lane: "immediate"}},
	}}
	r, problems := check.Compile(cfg.Mappings)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	decode, stop, err := decode.NewDecoder(t.Context(), cfg, r, rand.New(rand.NewPCG(1, 1)), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for _, c := range []struct {
		topic, key, value string
		want              string // of value and key, or the error
	}{
		{"sales", "", "\x00\x00\x00\x00\x01\x0e", "7 null"},
		{"sales", "\x00\x00\x00\x00\x01\x02", "\x00\x00\x00\x00\x01\x0e", "7 1"},
		{"sales", "\x00\x00\x00\x00\x02\x02", "\x00\x00\x00\x00\x02\x0e", `{"id":7} {"id":1}`},
		{"sales", "", "\x00\x00\x00\x00\x09\x0e", "avro: offset 0: schema 9: the registry does not know it"},
		{"sales", "\x00\x00\x00\x00\x09\x0e", "\x00\x00\x00\x00\x01\x0e", "kafka key: avro: offset 0: schema 9: the registry does not know it"},
		{"a topic that nobody reads", "", `{"a":1}`, `{"a":1} null`},
	} {
		decoded, err := decode(&kafka.Record{Topic: c.topic, Key: []byte(c.key), Value: []byte(c.value)})
		var got string
		if err != nil {
			got = err.Error()
		} else {
			got = string(decoded.Value.AppendJSON(nil)) + " " + string(decoded.KeyValue.AppendJSON(nil))
		}
		if got != c.want {
			t.Errorf("%q: got %s, want %s", c.value, got, c.want)
		}
	}
}
