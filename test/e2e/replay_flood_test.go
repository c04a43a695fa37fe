//go:build !image

package e2e_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/replay"
)

// Whatever it is that refuses the letters, a replay with it in place posts no second
// letter of each.
func TestReplayThatIsRefusedAlikeStopsInsteadOfFillingTheTopic(t *testing.T) {
	t.Parallel()
	const records = 3 * floodRecords
	for _, c := range []struct {
		name   string
		record func(i int) *kgo.Record
		calls  int64 // at most
	}{
		{"by the service", func(i int) *kgo.Record { return order(fmt.Sprintf("o%d", i), "PAID", i) }, floodRecords},
		{"by the mapping", func(i int) *kgo.Record {
			return &kgo.Record{Topic: "orders", Key: fmt.Appendf(nil, "o%d", i), Value: []byte(`{"op":"no such operation"}`)}
		}, 0},
		{"by the decoder", func(i int) *kgo.Record {
			return &kgo.Record{Topic: "orders", Key: fmt.Appendf(nil, "o%d", i), Value: []byte("{")}
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			cfg := w.config(head + deadLetters + mappings)
			flood := cfg.DLQ.Flood
			cfg.DLQ.Flood.Records = 0
			w.begin(cfg)
			w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 4}, Answer: sandbox.Status(422)})
			produced := make([]*kgo.Record, records)
			for i := range produced {
				produced[i] = c.record(i)
			}
			w.produce(produced...)
			w.settled()
			if got := len(w.dead()); got != records {
				t.Fatalf("dead letters: got %d, want %d", got, records)
			}

			again := *cfg
			again.DLQ.Flood = flood
			options := ops.ReplayOptions{Config: replay.Config{MaxAttempts: 5, GiveUp: time.Minute}, Log: slog.New(slog.NewTextHandler(w.logs, nil))}
			before := w.service.CallCount(4)
			report, err := ops.Replay(t.Context(), &again, options)
			if err == nil || !strings.Contains(err.Error(), "orders") || !strings.Contains(err.Error(), "95 of its last 95") || !strings.Contains(err.Error(), "dlq.flood") {
				t.Errorf("got %v, want that orders was refused alike, how often, and what decides it", err)
			}
			if len(report.Refused) != 0 || report.Left[replay.Flood] == 0 || report.Left[replay.Flood] > floodRecords {
				t.Errorf("got %+v, want at most %d tried, all of them left", report, floodRecords)
			}
			if got := len(w.dead()); got != records {
				t.Errorf("dead letters: got %d, want the %d that there were", got, records)
			}
			if got := w.service.CallCount(4) - before; got > c.calls {
				t.Errorf("calls: got %d, want at most %d", got, c.calls)
			}
			if c.calls == 0 {
				return
			}
			w.write(head + deadLetters + mappings)
			if out, code := w.execute("dlq replay"); code != 1 || !strings.Contains(out, "(flood ") || !strings.Contains(out, "stay dead letters") {
				t.Errorf("the command: got exit code %d, %s, want 1, how many and what became of them", code, out)
			}
			w.service.ClearFaults()
			report, err = ops.Replay(t.Context(), &again, options)
			if err != nil || report.Applied != records || strings.Contains(w.logs.String(), "an earlier run did not end") {
				t.Errorf("without the cause: got %+v, %v, want all applied at once", report, err)
			}
		})
	}
}
