package ops_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/ops"
)

const whyYAML = `
kafka: {brokers: [%q], group: sink}
service: {baseURL: "http://localhost:1", authURL: "http://localhost:1", entity: acme, apiKey: none}
mappings:
  - {name: copied, topics: [orders], customTable: orders, key: businessKey, routes: [{lane: immediate}],
     fields: [{from: id, to: businessKey}, {from: status, to: status}]}
  - {name: computed, topics: [orders], customTable: orders2, key: businessKey, routes: [{lane: immediate}],
     fields: [{expr: 'lower(id)', to: businessKey}, {from: status, to: status}]}
`

// How fast a topic of an embedded broker, which shares the processors, is searched for a
// key: where bytes tell most records from those of the key, and where each is decoded.
func BenchmarkWhy(b *testing.B) {
	const records = 1_000_000
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(12, "orders"))
	if err != nil {
		b.Fatal(err)
	}
	defer cluster.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	padding := strings.Repeat("x", 230)
	for i := range records {
		key := fmt.Sprintf("k%07d", i/4)
		client.Produce(b.Context(), &kgo.Record{Topic: "orders", Key: []byte(key), Value: fmt.Appendf(nil, `{"id":%q,"status":"PAID","note":%q}`, key, padding)}, nil)
	}
	if err := client.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	cfg, err := config.Parse("feedsink.yaml", fmt.Appendf(nil, whyYAML, cluster.ListenAddrs()[0]), func(string) (string, bool) { return "", false })
	if err != nil {
		b.Fatal(err)
	}
	for _, mapping := range []string{"copied", "computed"} {
		b.Run(mapping, func(b *testing.B) {
			for b.Loop() {
				report, err := ops.Why(b.Context(), cfg, ops.WhyOptions{
					Name: mapping, Keys: []string{"k0001000"}, Log: slog.New(slog.DiscardHandler), Progress: func(int64, int64) {},
				})
				if err != nil || report.Read != records || len(report.Keys[0].Records) != 4 {
					b.Fatalf("got %v, %d read, %d found", err, report.Read, len(report.Keys[0].Records))
				}
			}
			b.ReportMetric(float64(b.N)*records/b.Elapsed().Seconds(), "records/s")
		})
	}
}
