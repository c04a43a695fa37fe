package main

import (
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hamba/avro/v2"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
)

func TestInitAndPlanReadWhatARegistryDescribes(t *testing.T) {
	d := newHost(t)
	d.write("api-key", "key\n")
	t.Setenv("FEEDSINK_SECRETS", ".")
	registry := srfake.New()
	t.Cleanup(registry.Close)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	const text = `{"type":"record","name":"Order","fields":[{"name":"ref","type":"string"},{"name":"total","type":"double"}]}`
	client, err := sr.NewClient(sr.URLs(registry.URL()))
	if err != nil {
		t.Fatal(err)
	}
	made, err := client.CreateSchema(t.Context(), "orders-value", sr.Schema{Schema: text, Type: sr.TypeAvro})
	if err != nil {
		t.Fatal(err)
	}
	found, err := client.SchemaByVersion(t.Context(), "orders-value", 1)
	if err != nil {
		t.Fatal(err)
	}
	producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(producer.Close)
	for _, ref := range []string{"A1", "A2"} {
		payload, err := avro.Marshal(avro.MustParse(text), map[string]any{"ref": ref, "total": 1.5})
		if err != nil {
			t.Fatal(err)
		}
		record := &kgo.Record{Topic: "orders", Value: append(binary.BigEndian.AppendUint32([]byte{0}, uint32(made.ID)), payload...)}
		if ref == "A2" { // its schema is named by a header
			guid, err := hex.DecodeString(strings.ReplaceAll(found.GUID, "-", ""))
			if err != nil {
				t.Fatal(err)
			}
			record.Value, record.Headers = payload, []kgo.RecordHeader{{Key: "__value_schema_id", Value: append([]byte{1}, guid...)}}
		}
		if err := producer.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, failed := d.run("init --brokers " + cluster.ListenAddrs()[0] + " --topic orders"); code != 1 || !strings.Contains(failed, "--registry") {
		t.Errorf("without the registry: got code %d, %q, want 1 and what to add", code, failed)
	}
	if code, out, failed := d.run("init --brokers " + cluster.ListenAddrs()[0] + " --topic orders --registry " + registry.URL() + " --out orders.yaml"); code != 0 {
		t.Fatalf("init: got code %d, %s %s", code, out, failed)
	}
	written, err := os.ReadFile("orders.yaml")
	if err != nil || !strings.Contains(string(written), "format: avro") || !strings.Contains(string(written), "{from: ref, to: businessKey}") {
		t.Errorf("got %s, %v, want an Avro mapping keyed by ref", written, err)
	}
	if code, out, failed := d.run("plan -c orders.yaml --show"); code != 0 || !strings.Contains(out, "no record would be a dead letter") || !strings.Contains(out, `"A2"`) {
		t.Errorf("plan: got code %d, %s %s", code, out, failed)
	}
}

func TestInitSaysWhatARegistryRefuses(t *testing.T) {
	d := newHost(t)
	registry := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(registry.Close)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(producer.Close)
	record := &kgo.Record{Topic: "orders", Value: []byte{4}, Headers: []kgo.RecordHeader{{Key: "__value_schema_id", Value: []byte("\x010123456789abcdef")}}}
	if err := producer.ProduceSync(t.Context(), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	code, _, failed := d.run("init --brokers " + cluster.ListenAddrs()[0] + " --topic orders --registry " + registry.URL)
	if took := time.Since(began); code != 1 || took > 20*time.Second ||
		!strings.Contains(failed, "topic orders: schema registry: GET "+registry.URL+"/schemas/guids/") || !strings.Contains(failed, "does not find schemas by GUID; upgrade it") {
		t.Errorf("got code %d after %v, %q, want the registry's answer and what to do", code, took, failed)
	}
}
