//go:build linux && !image

package e2e_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
)

// What the chart gives a member of the immediate lane, and a process that is
// bounded as by default.
const (
	memoryLimit = 256 << 20
	goMemLimit  = "220MiB"
)

// Records of which the mapping needs two fields, far more of them than there is
// memory, compressed to next to nothing. The service gets to its first call when
// as many wait as may, of one class or of fifty.
func TestMemoryIsBoundedHoweverLargeTheRecords(t *testing.T) {
	t.Run("one class", func(t *testing.T) { memoryIsBounded(t, 1, 3500, 60_000, memoryLimit) })
	// Less by far: else each of 200 partitions holds all that it has polled.
	t.Run("50 classes", func(t *testing.T) { memoryIsBounded(t, 50, 10_500, 20_000, memoryLimit-36<<20) })
}

func memoryIsBounded(t *testing.T, classes, records, size int, most int64) {
	w := newWorld(t, func(c *sandbox.Config) {
		of := c.Tables[slices.IndexFunc(c.Tables, func(t sandbox.Table) bool { return t.Name == "orders" })]
		for i := range classes {
			of.Name = fmt.Sprint("orders-", i)
			c.Tables = append(slices.Clone(c.Tables), of)
		}
	})
	yaml := strings.Replace(head, "timeout: 2s", "timeout: 30s", 1) + deadLetters + "mappings:\n"
	var topics []string
	for i := range classes {
		topics = append(topics, fmt.Sprint("orders-", i))
		w.createTopics(partitions, topics[i])
		yaml += fmt.Sprintf(`
  - name: orders-%d
    topics: ["${PREFIX}orders-%d"]
    customTable: orders-%d
    key: businessKey
    fields: [{from: id, to: businessKey}, {from: status, to: status}]
    routes: [{lane: immediate, weight: %d}]
`, i, i, i, 1+i%10)
		w.produceLarge(topics[i], records/classes, size)
	}
	w.produceLarge(topics[0], 1, 12<<20) // alone more than a partition's part
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4}, Delay: 10 * time.Second, Apply: true})
	sink := w.runAs(yaml, map[string]string{"GOMEMLIMIT": goMemLimit})
	address := sink.admin(w)
	w.until("as many records wait as may", func() bool {
		return w.gauge(address, "feedsink_pending_bytes") > 0.4*w.gauge(address, "feedsink_pending_max_bytes")
	})
	w.service.ClearFaults()
	got := 0
	for _, topic := range topics {
		w.until("all are confirmed", func() bool { return w.lag("immediate", topic) == 0 })
		got += w.service.Len(topic)
	}
	if got != records+1 {
		t.Errorf("orders: got %d, want %d", got, records+1)
	}
	w.until("nothing is pending once all are confirmed", func() bool { return w.gauge(address, "feedsink_pending_bytes") == 0 })
	resident := peak(t, sink)
	t.Logf("%d MiB resident at the peak, for %d MiB of records", resident>>20, records*size>>20)
	if resident > most {
		t.Errorf("resident memory at its peak: got %d MiB, want at most %d MiB", resident>>20, most>>20)
	}
	sink.terminate(t)
}

// produceLarge sends n records of that size, mostly padding.
func (w *world) produceLarge(topic string, n, size int) {
	w.t.Helper()
	client, err := kgo.NewClient(w.reach(kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.MaxBufferedBytes(64<<20),
		kgo.ProducerBatchMaxBytes(16<<20), kgo.BrokerMaxWriteBytes(100<<20))...)
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	padding := bytes.Repeat([]byte("x"), size)
	for i := range n {
		r := &kgo.Record{Topic: w.topic(topic), Key: fmt.Append(nil, size, i), Value: fmt.Appendf(nil, `{"id":"%s-%d-%d","status":"PAID","blob":"%s"}`, topic, size, i, padding)}
		client.Produce(w.t.Context(), r, func(_ *kgo.Record, err error) {
			if err != nil {
				w.t.Errorf("produce: %v", err)
			}
		})
	}
	if err := client.Flush(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// gauge is the value of a metric without labels.
func (w *world) gauge(address, name string) float64 {
	w.t.Helper()
	for line := range strings.Lines(get(w.t, address, "/metrics")) {
		if value, is := strings.CutPrefix(line, name+" "); is {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				w.t.Fatal(err)
			}
			return v
		}
	}
	return 0
}

// peak is the most memory that the process ever had, in bytes. What getrusage
// says of it also counts this process, which it was until its program was loaded.
func peak(t *testing.T, p *process) (bytes int64) {
	t.Helper()
	status, err := os.Open(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	defer status.Close()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		if text, is := strings.CutPrefix(lines.Text(), "VmHWM:"); is {
			var kib int64
			if _, err := fmt.Sscan(text, &kib); err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("the process's status has no VmHWM")
	return 0
}
