package connector

import (
	"fmt"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/observe"
)

// gauged is the value of the metric's series with these label values, in the order of
// their names; of a histogram its count.
func gauged(families []*dto.MetricFamily, name, labels string) float64 {
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if f.GetName() == name && strings.Join(values, " ") == labels {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return -1
}

// TestFreshnessIsTheAgeOfTheOldestUnconfirmedRecord: of each mapping and lane by itself,
// by Kafka's timestamps, also after a restart.
func TestFreshnessIsTheAgeOfTheOldestUnconfirmedRecord(t *testing.T) {
	cluster, api, server := startBoth(t, kfake.SeedTopics(1, "crm", "shop", "dlq"))
	api.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4}, Answer: sandbox.Status(503)})
	api.Inject(sandbox.Fault{Match: sandbox.Match{Op: 11}, Answer: sandbox.Status(503)})
	broker := cluster.ListenAddrs()[0]
	produce := func(topic, value string, age time.Duration) {
		t.Helper()
		client, err := kgo.NewClient(kgo.SeedBrokers(broker))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		r := &kgo.Record{Topic: topic, Value: []byte(value), Timestamp: time.Now().Add(-age)}
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	produce("shop", `{"op":"upsert","businessKey":"o1","properties":{"status":"PAID"}}`, time.Hour)
	produce("crm", `{"op":"upsert","key":{"customerNumber":"C2"},"attributes":{"name":"later"}}`, 2*time.Hour)
	produce("shop", `{"op":"upsert","businessKey":"o2","properties":{"status":"PAID"}}`, time.Minute)
	age := func(s *Sink, labels string) time.Duration {
		return time.Duration(gauged(gathered(t, s), "feedsink_freshness_seconds", labels) * float64(time.Second)).Truncate(time.Hour)
	}
	waits := func(s *Sink) bool {
		return age(s, "immediate orders") == time.Hour && age(s, "batch customers") == 2*time.Hour && age(s, "immediate customers") == 0
	}
	start := func() (sink *Sink, end func()) {
		sink = assembled(t, Options{}, "BROKER="+broker, "SERVICE="+server.URL)
		return sink, runUntil(t, sink)
	}
	first, end := start()
	until(t, "the service has the file", func() bool { return len(api.Executions()) == 1 && waits(first) })
	end()
	sink, last := start()
	defer last()
	until(t, "both mappings wait after a restart as before", func() bool { return waits(sink) })
	st, _ := sink.Status().(observe.Status)
	if got := st.Mappings[0].Oldest["batch"]; got < 7200 || got > 7300 {
		t.Errorf("/status: got %v as the age of the oldest record of customers, want two hours", got)
	}
	api.ClearFaults()
	until(t, "all is confirmed", func() bool {
		families := gathered(t, sink)
		for _, labels := range []string{"immediate orders", "batch customers", "immediate customers"} {
			if gauged(families, "feedsink_freshness_seconds", labels) != 0 {
				return false
			}
		}
		return true
	})
	// A record is counted when its commit was acknowledged, a moment later.
	for labels, want := range map[string]float64{"immediate orders": 2, "batch customers": 1} {
		until(t, fmt.Sprintf("feedsink_delivery_seconds of %s has %v records", labels, want), func() bool {
			return gauged(gathered(t, sink), "feedsink_delivery_seconds", labels) == want
		})
	}
}
