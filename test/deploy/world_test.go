package deploy

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/schemas"
)

const worldConfig = `
kafka: {brokers: ["${BROKER}"], group: feedsink}
service:
  baseURL: ${SERVICE}
  authURL: ${SERVICE}
  entity: acme
  apiKey: ${KEY:-the-api-key}
  breaker:
    failures: ${FAILURES:-1000}
    openFor: 1s
retry: {initial: 10ms, max: 50ms}
dlq: {topic: "${DLQ}"}
receipts: {topic: receipts}
spool: {dir: "${DIR}", maxBytes: "${SPOOL:-1GiB}"}
admin: {listen: "127.0.0.1:0"}
mappings:
  - name: customers
    topics: [crm]
    profileTable: customers
    key: customerNumber
    routes: [{when: 'attributes.name == "now"', lane: immediate, within: "${WITHIN:-1m}", name: urgent}, {lane: batch}]
    imports:
      upsert: {etl: "101", mode: CREATE_OR_UPDATE}
      columns: [customerNumber, name]
      csv: {compression: NONE}
      roll: {rows: 100000, bytes: 16KiB, age: "${AGE:-20ms}"}
      slotsPerDay: ${SLOTS:-12}
      reserve: 0
      retryFailed: 5
  - name: orders
    topics: [shop]
    customTable: orders
    key: businessKey
    routes: [{lane: immediate}]
`

// world is a running sink with a broker and a service of its own.
type world struct {
	t      *testing.T
	api    *sandbox.Sandbox
	client *kgo.Client
	sink   *connector.Sink
}

// newWorld starts a sink whose configuration has these variables, beside a service
// whose imports take this long. Without lanes it runs both.
func newWorld(t *testing.T, imports time.Duration, variables map[string]string, lanes ...schemas.Lane) *world {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "crm", "shop", "dlq", "receipts"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	w := &world{t: t}
	w.api, err = sandbox.New(sandbox.Config{
		Entity: "acme", APIKeys: []string{"the-api-key"}, Dir: t.TempDir(), Processing: imports,
		Tables: []sandbox.Table{
			{Name: "customers", Keys: []string{"customerNumber"}, Fields: []sandbox.Field{{Name: "name"}}},
			{Name: "orders", Custom: true, Fields: []sandbox.Field{{Name: "status"}}},
		},
		ETLs: []sandbox.ETL{{ID: "101", Loads: []sandbox.Load{{Table: "customers", Mode: sandbox.CreateOrUpdate}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.api.Close() }) // its imports need not end
	server, err := w.api.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	env := map[string]string{"BROKER": cluster.ListenAddrs()[0], "SERVICE": server.URL(), "DIR": t.TempDir(), "DLQ": "dlq"}
	maps.Copy(env, variables)
	cfg, err := config.Parse("feedsink.yaml", []byte(worldConfig), func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	})
	if err != nil {
		t.Fatal(err)
	}
	w.sink, err = connector.New(cfg, connector.Options{
		Log: slog.New(slog.DiscardHandler), CommitEvery: 10 * time.Millisecond, FirstPoll: 10 * time.Millisecond, Lanes: lanes,
		Load: func() (*config.Config, error) {
			return config.Parse("feedsink.yaml", []byte("nonsense: 1"), func(string) (string, bool) { return "", false })
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.sink.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	if w.client, err = kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.Close)
	return w
}

func (w *world) produce(topic string, values ...string) {
	w.t.Helper()
	for _, v := range values {
		w.client.Produce(w.t.Context(), &kgo.Record{Topic: topic, Value: []byte(v)}, nil)
	}
	if err := w.client.Flush(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func customer(number, name string) string {
	return fmt.Sprintf(`{"op":"upsert","key":{"customerNumber":%q},"attributes":{"name":%q}}`, number, name)
}

func order(key string) string {
	return fmt.Sprintf(`{"op":"upsert","businessKey":%q,"properties":{"status":"PAID"}}`, key)
}

// scrape is what Prometheus would get from /metrics now.
func (w *world) scrape() (samples model.Vector) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+w.sink.AdminAddress()+"/metrics", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		w.t.Fatalf("/metrics: %s, %v", resp.Status, err)
	}
	for _, f := range families {
		some, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, f)
		if err != nil {
			w.t.Fatal(err)
		}
		samples = append(samples, some...)
	}
	return samples
}

// value is the sum of a metric's series that have these labels, in pairs.
func value(samples model.Vector, name string, labels ...string) (sum float64) {
	for _, s := range samples {
		matches := string(s.Metric[model.MetricNameLabel]) == name
		for i := 0; i < len(labels); i += 2 {
			matches = matches && string(s.Metric[model.LabelName(labels[i])]) == labels[i+1]
		}
		if matches {
			sum += float64(s.Value)
		}
	}
	return sum
}

// until scrapes until the condition holds, and returns that scrape.
func (w *world) until(what string, holds func(model.Vector) bool) model.Vector {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		samples := w.scrape()
		if holds(samples) {
			return samples
		}
		select {
		case <-ctx.Done():
			samples = slices.DeleteFunc(samples, func(s *model.Sample) bool {
				return !strings.HasPrefix(string(s.Metric[model.MetricNameLabel]), "feedsink_")
			})
			w.t.Fatalf("waited in vain: %s; got\n%v", what, samples)
		case <-look.C:
		}
	}
}
