//go:build !image

package e2e_test

import (
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/replay"
)

// A record that the mapping took before its condition was changed holds the newest value: a
// backfill does not send the one before it, unless that is asked for. Of a mapping that has
// always had the condition it does.
func TestBackfillAfterAChangedConditionLeavesWhatItWouldOverwrite(t *testing.T) {
	t.Parallel()
	const condition = `when: 'properties.status != "HIDDEN"'`
	changed := strings.Replace(routed(allByCall), "    key: businessKey\n", "    key: businessKey\n    "+condition+"\n", 1)
	for name, first := range map[string]string{"changed": routed(allByCall), "always": changed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			sink := w.start(first)
			w.produce(order("O1", "NEW", 1), order("O1", "HIDDEN", 2))
			w.settled()
			sink.stop()
			w.start(changed)
			w.produce(order("O2", "NEW", 3))
			w.settled()
			wantSeq, left := "1", int64(0)
			if name == "changed" {
				wantSeq, left = "2", 1
			}
			report, err := ops.Backfill(t.Context(), w.config(changed), backfillOf("orders"))
			if err != nil || report.Left[replay.Unknowable] != left || report.Sent != 2-left {
				t.Errorf("got %+v, %v; want %d left", report, err, left)
			}
			if row, _ := w.service.Row("orders", "O1"); row.Text("seq") != wantSeq {
				t.Errorf("O1: got seq %s, want %s", row.Text("seq"), wantSeq)
			}
			all := backfillOf("orders")
			all.AssumeNewest = true
			if report, err = ops.Backfill(t.Context(), w.config(changed), all); err != nil || report.Sent != 2 {
				t.Errorf("assumed to be the newest: got %+v, %v; want both sent", report, err)
			}
		})
	}
}
