package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What a new user does with a topic of JSON that nobody has described: init, plan,
// check, run.
func TestFourCommandsLeadFromATopicToItsTable(t *testing.T) {
	d := newHost(t)
	d.write("api-key", "key\n")
	for name, value := range map[string]string{"FEEDSINK_SECRETS": ".", "FEEDSINK_SPOOL": d.dir, "FEEDSINK_BASE_URL": d.url, "FEEDSINK_AUTH_URL": d.url} {
		t.Setenv(name, value)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "shop.orders", "feedsink.dlq"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	for i := range 20 {
		value := fmt.Sprintf(`{"ref":"A%d","total":%d.5,"status":"PAID","buyer":{"city":"Lyon"}}`, i, i)
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "shop.orders", Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{
		"init --brokers " + cluster.ListenAddrs()[0] + " --topic shop.orders --out orders.yaml",
		"plan -c orders.yaml", "check -c orders.yaml --online",
	} {
		if code, out, failed := d.run(line); code != 0 {
			t.Fatalf("%s: got code %d, %s %s", line, code, out, failed)
		}
	}
	d.unlisten("orders.yaml")
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	root := newRoot()
	root.SetArgs([]string{"run", "-c", "orders.yaml", "--log-level", "error"})
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for d.service.Len("orders") < 20 && ctx.Err() == nil {
		<-tick.C
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("run ended with: %v", err)
	}
	row, _ := d.service.Row("orders", "A7")
	if d.service.Len("orders") != 20 || fmt.Sprintf("%v %v %v", row.Values["total"], row.Values["status"], row.Values["buyerCity"]) != "7.5 PAID Lyon" {
		t.Errorf("got %d rows, A7 %v, want 20 and what was sent", d.service.Len("orders"), row.Values)
	}
}

func TestLaneThatNoMappingUsesIsWrongUsage(t *testing.T) {
	d := newHost(t)
	d.change(`{name: emailAddress, "null": immediate}`, "emailAddress")
	d.change("upsert: {mode", `upsert: {etl: "8", mode`)
	d.change("admin: {webhook", `admin: {listen: "127.0.0.1:0", webhook`)
	code, _, failed := d.run("run --lane immediate")
	const want = "--lane immediate: no mapping of feedsink.yaml uses this lane; add a route to it, or run the other lane alone"
	if code != exitUsage || failed != want {
		t.Errorf("got code %d, %s\nwant %d, %s", code, failed, exitUsage, want)
	}
}

// unlisten has the sink take any free port.
func (d *host) unlisten(file string) {
	d.t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		d.t.Fatal(err)
	}
	d.write(file, strings.Replace(string(data), "mappings:", "admin: {listen: \"127.0.0.1:0\"}\nmappings:", 1))
}
