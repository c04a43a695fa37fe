//go:build !image

package e2e_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

// A topic is deleted and created again while an import of its records runs. The import is
// awaited, so that its rows do not land upon newer ones, and the new topic is read from its
// start.
func TestImportOfAnEarlierTopicIsAwaited(t *testing.T) {
	t.Parallel()
	for name, stopped := range map[string]bool{"stopped": true, "running": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			const yaml = head + deadLetters + mappings
			w.service.Hold()
			sink := w.start(yaml)
			w.produce(customer("C1", "basic", 1), customer("C2", "basic", 1))
			w.until("the import is on record", func() bool { return strings.Contains(get(t, sink.AdminAddress(), "/imports"), `"importing"`) })
			ledgers := map[string]kadm.Offsets{}
			if stopped { // brokers drop what was committed together with the topic, or keep it
				sink.stop()
				for _, lane := range []string{"immediate", "batch"} {
					committed, err := w.admin.FetchOffsets(t.Context(), w.prefix+"sink-"+lane)
					if err != nil {
						t.Fatal(err)
					}
					committed.KeepFunc(func(o kadm.OffsetResponse) bool { return o.Topic == w.topic("customers") })
					ledgers[w.prefix+"sink-"+lane] = committed.Offsets()
				}
			}

			w.recreate("customers")
			for group, os := range ledgers {
				if err := w.admin.CommitAllOffsets(t.Context(), group, os); err != nil {
					t.Fatal(err)
				}
			}
			w.produce(customer("C1", "basic", 2), customer("C3", "basic", 2))
			if stopped {
				w.start(yaml)
			}
			w.until("the import is awaited", func() bool {
				return strings.Contains(w.logs.String(), "adopting the import of a former owner")
			})
			if got := len(w.service.Executions()); got != 1 {
				t.Errorf("while the earlier topic's import runs: got %d imports, want it alone", got)
			}
			w.service.Release()
			w.settled()
			for key, want := range map[string]string{"C1": "2", "C2": "1", "C3": "2"} {
				if got := w.seq("customers", key); got != want {
					t.Errorf("%s: got seq %s, want %s", key, got, want)
				}
			}
			if got := len(w.service.Executions()); got != 2 {
				t.Errorf("imports: got %d, want one of each topic", got)
			}
		})
	}
}

// recreate deletes a topic and creates it again.
func (w *world) recreate(topic string) {
	w.t.Helper()
	name := w.topic(topic)
	if _, err := w.admin.DeleteTopic(w.t.Context(), name); err != nil {
		w.t.Fatal(err)
	}
	w.until("it is deleted", func() bool {
		details, err := w.admin.ListTopics(w.t.Context(), name)
		return err == nil && !details.Has(name)
	})
	w.createTopics(partitions, topic)
	w.client.PurgeTopicsFromClient(name)
}
