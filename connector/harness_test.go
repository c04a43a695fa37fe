package connector

import (
	"cmp"
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/observe"
)

// bothLanes are the routes of customers, unless a variable ROUTES has others.
const bothLanes = `[{when: 'attributes.name == "now"', lane: immediate, weight: 3, name: urgent, within: 1m, objective: 0.999}, {lane: batch, within: 2h}]`

const sinkConfig = `
kafka: {brokers: ["${BROKER}"], group: feedsink, sessionTimeout: "${SESSION:-45s}"}
service: {baseURL: "${SERVICE}", authURL: "${SERVICE}", entity: acme, apiKey: the-api-key, rate: {calls: ${CALLS:-0}}}
dlq: {topic: dlq}
receipts: {topic: "${RECEIPTS:-}", keyFile: "${RECEIPTS_KEY:-}"}
spool: {dir: "${DIR}"}
admin: {listen: "${ADMIN:-127.0.0.1:0}"}
mappings:
  - name: customers
    topics: [crm]
    profileTable: customers
    key: customerNumber
    routes: ` + bothLanes + `
    imports:
      upsert: {etl: "101", mode: CREATE_OR_UPDATE}
      columns: [customerNumber, name]
      roll: {rows: 1000, bytes: 1MiB, age: "${AGE:-20ms}"}
      slotsPerDay: ${SLOTS:-12}
  - name: orders
    topics: [shop]
    customTable: orders
    key: businessKey
    routes: [{lane: immediate}]
`

// assemble makes a sink with variables NAME=VALUE; closed is an address where nobody
// answers.
func assemble(t *testing.T, opts Options, variables ...string) (*Sink, error) {
	t.Helper()
	env := map[string]string{"BROKER": closed, "SERVICE": "http://" + closed, "DIR": t.TempDir()}
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	yaml := strings.Replace(sinkConfig, bothLanes, cmp.Or(env["ROUTES"], bothLanes), 1)
	cfg, err := config.Parse("feedsink.yaml", []byte(yaml), func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	})
	if err != nil {
		t.Fatal(err)
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	opts.Version = "v1"
	opts.CommitEvery, opts.FirstPoll = cmp.Or(opts.CommitEvery, 10*time.Millisecond), 10*time.Millisecond
	return New(cfg, opts)
}

// assembled is assemble where nothing hinders it.
func assembled(t *testing.T, opts Options, variables ...string) *Sink {
	t.Helper()
	sink, err := assemble(t, opts, variables...)
	if err != nil {
		t.Fatal(err)
	}
	return sink
}

// running is one that runs until the test ends.
func running(t *testing.T, opts Options, variables ...string) *Sink {
	t.Helper()
	sink := assembled(t, opts, variables...)
	run(t, sink)
	return sink
}

const closed = "127.0.0.1:1"

// run runs the sink until the test ends.
func run(t *testing.T, s *Sink) {
	t.Helper()
	t.Cleanup(runUntil(t, s))
}

// runUntil runs the sink until end is called.
func runUntil(t *testing.T, s *Sink) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// until waits for a condition, looking again at short intervals.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", what)
		case <-look.C:
		}
	}
}

// startBoth starts a broker and the service, until the test ends.
func startBoth(t *testing.T, topics ...kfake.Opt) (*kfake.Cluster, *sandbox.Sandbox, *httptest.Server) {
	t.Helper()
	cluster, err := kfake.NewCluster(append(topics, kfake.NumBrokers(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	api, _ := startService(t)
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	return cluster, api, server
}

// atWork is a sink that has seen a bit of everything: a record in each lane,
// one of the other lane, one that is broken, one that the service refuses.
func atWork(t *testing.T) *Sink {
	t.Helper()
	cluster, api, server := startBoth(t, kfake.SeedTopics(1, "crm", "shop", "dlq", "receipts"))
	broker := cluster.ListenAddrs()[0]
	sink := running(t, Options{}, "BROKER="+broker, "SERVICE="+server.URL, "RECEIPTS=receipts")
	// How many partitions were committed, and all offsets together.
	committed := func() (partitions int, total int64) {
		st, _ := sink.Status().(observe.Status)
		for _, l := range st.Lanes {
			for _, p := range l.Partitions {
				if p.Committed >= 0 {
					partitions, total = partitions+1, total+p.Committed
				}
			}
		}
		return partitions, total
	}
	until(t, "both lanes have begun: one that comes later begins where the other one stands, and counts nothing below", func() bool {
		partitions, _ := committed()
		return partitions == 3
	})
	client, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	api.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4}, Count: 1, Answer: sandbox.Status(503)})
	for _, r := range []struct{ topic, value string }{
		{"crm", `{"op":"upsert","key":{"customerNumber":"C1"},"attributes":{"name":"now"}}`},
		{"crm", `{"op":"upsert","key":{"customerNumber":"C2"},"attributes":{"name":"later"}}`},
		{"shop", `{"op":"upsert","businessKey":"o1","properties":{"status":"PAID"}}`},
		{"shop", `{"op":"patch","businessKey":"nobody","properties":{"status":"PAID"}}`},
		{"shop", `{`},
	} {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: r.topic, Value: []byte(r.value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "everything is committed", func() bool {
		_, total := committed()
		return total == 7 && len(sink.Unready()) == 0 // both lanes read crm
	})
	return sink
}
