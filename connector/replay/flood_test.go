package replay_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/schemas"
)

// What the service takes of a round is done, what it refuses stays a dead letter that no
// run has sent, and dead letters of later rounds are not tried.
func TestRunThatStopsEndsItsRound(t *testing.T) {
	w := newWorld(t)
	for _, r := range w.produce(order("good", "upsert", `{"seq":1}`), order("bad1", "upsert", `{"seq":1}`),
		order("bad2", "upsert", `{"seq":1}`), order("later", "upsert", `{"seq":1}`)) {
		w.deadLetter(r, refused)
	}
	w.deadLetter(w.produce(&kgo.Record{Topic: custom, Key: []byte("undecodable"), Value: []byte("{")})[0], deadletter.Reason{Stage: deadletter.Decoding, Code: "decode"})
	w.caughtUp()
	w.before = func(wr *schemas.Write) error {
		if strings.HasPrefix(wr.Key, "bad") {
			return no{status: 422}
		}
		return nil
	}
	refusals := 0
	stops := func(r *replay.Replay) {
		r.Round = 3
		r.Flood = func(of string, _ deadletter.Stage, why *deadletter.Reason) string {
			if of == "mapping "+custom && why != nil {
				refusals++
			}
			if refusals == 2 {
				return "two refused alike"
			}
			return ""
		}
	}
	report, err := w.replay(stops)
	if !errors.Is(err, replay.ErrFlood) || !strings.Contains(err.Error(), "mapping "+custom+": two refused alike") {
		t.Fatalf("got %v, want that it stops, with the reason", err)
	}
	if report.Applied != 1 || report.Left[replay.Flood] != 2 || report.Selected != 5 || len(w.calls) != 1 {
		t.Errorf("got %+v and calls %q, want one applied, two left and two not tried", report, w.calls)
	}
	if got := len(w.letters()); got != 5 {
		t.Errorf("letters: got %d, want the 5 that there were", got)
	}
	w.before = nil
	if report = w.run(nil); report.Done != 1 || report.Applied != 3 || report.Refused["decode"] != 1 || len(w.waits) != 0 {
		t.Errorf("the next run: got %+v after waits %v, want the rest applied at once", report, w.waits)
	}
}
