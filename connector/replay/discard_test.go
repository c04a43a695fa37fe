package replay_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/replay"
)

func TestDiscardedLettersAreLeftAndKeepTheirReason(t *testing.T) {
	w := newWorld(t)
	for _, key := range []string{"A", "B", "C", "D"} {
		w.deadLetter(w.produce(order(key, "upsert", `{"seq":1}`))[0], refused)
	}
	w.caughtUp()
	if got := w.discard(replay.Discard{Reason: "not for us", Filter: replay.Filter{Keys: []string{"A"}}, DryRun: true}); got.Discarded != 1 {
		t.Errorf("dry run: got %+v, want 1 to be discarded", got)
	}
	if got := w.discarded(); !slices.Equal(got, []string{"", "", "", ""}) {
		t.Errorf("after a dry run: got %q, want none discarded", got)
	}
	w.discard(replay.Discard{Reason: "not for us", Filter: replay.Filter{Keys: []string{"A", "C"}}})
	got := w.discard(replay.Discard{Reason: "äöü; again", Filter: replay.Filter{Keys: []string{"A", "B"}}})
	if got.Discarded != 1 || got.Done != 1 {
		t.Errorf("once more: got %+v, want one discarded and one that was", got)
	}
	if got, want := w.discarded(), []string{"not for us", "äöü; again", "not for us", ""}; !slices.Equal(got, want) {
		t.Errorf("reasons: got %q, want %q", got, want)
	}
	if got := w.run(nil); got.Selected != 1 || got.Applied != 1 || got.Done != 3 {
		t.Errorf("replay: got %+v, want the other one applied", got)
	}
	if got := w.discard(replay.Discard{Reason: "all"}); got.Discarded != 0 || got.Done != 4 {
		t.Errorf("what was replayed: got %+v, want nothing discarded", got)
	}
	if got := len(w.letters()); got != 4 {
		t.Errorf("letters: got %d in the topic, want all 4", got)
	}
}

// A crash after the reasons were kept leaves the letters discarded.
func TestReasonAloneEndsALetter(t *testing.T) {
	w := newWorld(t)
	w.deadLetter(w.produce(order("C", "upsert", `{"a":1}`))[0], refused)
	w.caughtUp()
	w.discard(replay.Discard{Reason: "old"})
	lost := map[cluster.TopicPartition]cluster.Commit{{Topic: topic}: {Metadata: "lost"}}
	if err := w.reader.Commit(t.Context(), replay.MarksPrefix("sink")+".0", lost); err != nil {
		t.Fatal(err)
	}
	if got := w.discarded(); !slices.Equal(got, []string{"old"}) {
		t.Errorf("reasons: got %q, want the one that was given", got)
	}
	if got := w.run(nil); got.Selected != 0 || got.Done != 1 {
		t.Errorf("replay: got %+v, want the letter left", got)
	}
}

func TestDiscardLeavesWhatAnInterruptedReplayMayHaveSent(t *testing.T) {
	w := newWorld(t)
	w.deadLetter(w.produce(order("C", "upsert", `{"a":1}`))[0], refused)
	w.caughtUp()
	w.killed()
	if got := w.discard(replay.Discard{Reason: "old"}); got.Tried != 1 || got.Discarded != 0 {
		t.Errorf("got %+v, want the letter left", got)
	}
	if got := w.endedBy(true); got != "replay" {
		t.Errorf("ended by: got %q, want replay", got)
	}
	if got := w.discard(replay.Discard{Reason: "old", Tried: true}); got.Discarded != 1 {
		t.Errorf("with --tried: got %+v, want it discarded", got)
	}
}

func TestEndedByNamesDiscardWhereAReplayWouldFailAgain(t *testing.T) {
	for name, c := range map[string]struct {
		record string
		letter deadletter.Reason
		tried  bool
		want   string
	}{
		"it cannot be decoded":            {record: "nonsense", letter: deadletter.Reason{Stage: deadletter.Decoding, Code: "decode"}, want: "discard"},
		"its mapping refuses it":          {record: `{"op":"upsert"}`, letter: deadletter.Reason{Stage: deadletter.Transforming, Code: "value"}, want: "discard"},
		"a patch that may have been":      {record: `{"op":"patch","key":{"number":"C"},"attributes":{"name":"x"}}`, letter: refused, tried: true, want: "discard --tried"},
		"an upsert that may have been":    {record: `{"op":"upsert","key":{"number":"C"},"attributes":{"name":"x"}}`, letter: refused, tried: true, want: "replay"},
		"a patch that has a profile's id": {record: `{"op":"patch","profileId":"1","key":{"number":"C"},"attributes":{"name":"x"}}`, letter: refused, want: "replay"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := customer("C", "", "", "{}")
			r.Value = []byte(c.record)
			w.deadLetter(w.produce(r)[0], c.letter)
			w.caughtUp()
			if got := w.endedBy(c.tried); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestReasonsAreWords(t *testing.T) {
	for text, want := range map[string]bool{"": false, " ": false, strings.Repeat("x", 201): false, strings.Repeat("x", 200): true} {
		if err := replay.CheckReason(text); (err == nil) != want {
			t.Errorf("%.10q (%d bytes): got %v, want taken %t", text, len(text), err, want)
		}
	}
}
