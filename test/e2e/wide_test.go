//go:build !kafka

package e2e_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// TestHundredMappingsWithTwoThousandPartitionsInOneMember has one member do what
// a large company might give to a dozen.
func TestHundredMappingsWithTwoThousandPartitionsInOneMember(t *testing.T) {
	const tables, partitionsEach, events = 100, 20, 10
	w := newWorld(t, func(c *sandbox.Config) {
		for i := range tables {
			name := fmt.Sprintf("wide%02d", i)
			c.Tables = append(c.Tables, sandbox.Table{Name: name, Custom: true, Fields: []sandbox.Field{{Name: "seq", Type: sandbox.Number}}})
			c.ETLs = append(c.ETLs, sandbox.ETL{ID: fmt.Sprint(1000 + i), Loads: []sandbox.Load{{Table: name, Mode: sandbox.CreateOrUpdate}}})
		}
	})
	var yaml strings.Builder
	// A slow machine is busy with so many for longer than a short session lasts.
	yaml.WriteString(strings.Replace(head, "sessionTimeout: 10s", "sessionTimeout: 2m", 1) + deadLetters + "mappings:\n")
	topics := make([]string, tables)
	for i := range tables {
		name := fmt.Sprintf("wide%02d", i)
		topics[i] = name
		fmt.Fprintf(&yaml, `
  - name: %[1]s
    topics: ["${PREFIX}%[1]s"]
    customTable: %[1]s
    key: businessKey
    routes: [{when: 'properties.seq == 0', lane: immediate}, {lane: batch}]
    imports:
      upsert: {etl: "%[2]d", mode: CREATE_OR_UPDATE}
      columns: [businessKey, seq]
      roll: {rows: 500, bytes: 1MiB, age: 500ms}
      slotsPerDay: 1000
`, name, 1000+i)
	}
	w.createTopics(partitionsEach, topics...)
	w.patience *= 6
	var records []*kgo.Record
	for i := range tables {
		for seq := range events {
			key := fmt.Sprintf("k%d", seq)
			records = append(records, event(fmt.Sprintf("wide%02d", i), key, fmt.Sprintf(`{"op":"upsert","businessKey":%q,"properties":{"seq":%d}}`, key, seq)))
		}
	}
	w.produce(records...)
	began := time.Now()
	sink := w.start(yaml.String())
	w.until("the member is ready", func() bool { return len(sink.Unready()) == 0 })
	ready := time.Since(began)
	w.until("every table has its rows", func() bool {
		for i := range tables {
			if w.service.Len(fmt.Sprintf("wide%02d", i)) != events {
				return false
			}
		}
		return true
	})
	done := time.Since(began)
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	begin := time.Now()
	status := get(t, sink.AdminAddress(), "/status")
	took := time.Since(begin)
	if got := strings.Count(status, `"table": "wide`); got < tables {
		t.Errorf("tables in /status: got %d, want %d", got, tables)
	}
	begin = time.Now()
	metrics := get(t, sink.AdminAddress(), "/metrics")
	t.Logf("ready after %v, all rows after %v; heap of broker, service and sink %d MiB; /status %d KiB in %v, /metrics %d KiB in %v",
		ready, done, memory.HeapInuse>>20, len(status)>>10, took, len(metrics)>>10, time.Since(begin))
	begin = time.Now()
	sink.stop()
	t.Logf("stopped after %v", time.Since(begin))
}
