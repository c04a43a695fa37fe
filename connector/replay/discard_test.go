package replay_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/schemas"
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
	w := withLetter(t, order("C", "upsert", `{"a":1}`))
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
	w := withLetter(t, order("C", "upsert", `{"a":1}`))
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
		"an upsert that may have been":    {record: `{"op":"upsert","key":{"number":"C"},"attributes":{"name":"x"},"segments":{"tier":"gold"}}`, letter: refused, tried: true, want: "replay"},
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

// What has not come to the table says nothing of the row to an older dead letter.
func TestNewerDeadLettersDoNotCountAsFollowing(t *testing.T) {
	for _, c := range []struct {
		name       string
		old, newer *kgo.Record
		discarded  bool
		refuses    string // what the service refuses of the newer one
		calls      []string
	}{
		{name: "upsert, then a discarded upsert", old: order("C", "upsert", `{"a":1}`), newer: order("C", "upsert", `{"a":2}`), discarded: true, calls: []string{"upsert C a=1"}},
		{name: "patch, then a discarded patch", old: order("C", "patch", `{"a":1}`), newer: order("C", "patch", `{"b":2}`), discarded: true, calls: []string{"patch C a=1"}},
		{name: "delete, then a discarded upsert", old: order("C", "delete", `{}`), newer: order("C", "upsert", `{"a":2}`), discarded: true, calls: []string{"delete C"}},
		{name: "both are replayed", old: order("C", "upsert", `{"a":1}`), newer: order("C", "patch", `{"a":2}`), calls: []string{"upsert C a=1", "patch C a=2"}},
		{name: "the newer one is refused again", old: order("C", "patch", `{"a":1}`), newer: order("C", "create", `{"a":2}`), refuses: "create", calls: []string{"patch C a=1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.produce(c.old, c.newer)
			w.deadLetter(c.newer, refused) // letters come in any order
			w.deadLetter(c.old, refused)
			w.caughtUp()
			if c.discarded {
				w.discard(replay.Discard{Reason: "not wanted", Filter: replay.Filter{Offsets: &replay.Offsets{First: c.newer.Offset, Last: c.newer.Offset}}})
			}
			w.before = func(w *schemas.Write) error {
				if w.Op.String() == c.refuses {
					return no{status: 400}
				}
				return nil
			}
			report := w.run(nil)
			if !slices.Equal(w.calls, c.calls) || report.Applied != len(c.calls) || report.Superseded != 0 {
				t.Errorf("got calls %q and %+v, want %q, each of a letter that is applied", w.calls, report, c.calls)
			}
		})
	}
}

// An older dead letter is sent once more, as an earlier try at it may land late: so is the newer one.
func TestLettersOfARowAreSentOnceMoreInTheirOrder(t *testing.T) {
	w := newWorld(t)
	for _, r := range w.produce(order("C", "upsert", `{"a":1}`), order("C", "upsert", `{"a":2}`)) {
		w.deadLetter(r, refused)
	}
	w.caughtUp()
	times := 0
	w.before = func(*schemas.Write) error {
		if times++; times == 1 {
			return no{status: 503, transient: true}
		}
		return nil
	}
	report := w.run(nil)
	want := []string{"upsert C a=1", "upsert C a=2", "upsert C a=1", "upsert C a=2"}
	if !slices.Equal(w.calls, want) || report.Applied != 2 {
		t.Errorf("got calls %q and %+v, want %q and both applied", w.calls, report, want)
	}
}

// The sink posts a dead letter for a newer record while the older one's calls are on their way.
func TestRecordThatTheSinkIsRefusedMeanwhileIsOneDeadLetter(t *testing.T) {
	for _, call := range []int{1, 2} { // during which the sink is refused
		w := withLetter(t, order("C", "upsert", `{"a":1}`))
		newer, times := order("C", "upsert", `{"a":2}`), 0
		w.before = func(*schemas.Write) error {
			times++
			if times == 1 {
				w.produce(newer)
			}
			if times == call {
				w.deadLetter(newer, refused)
			}
			if times == 2 {
				return no{status: 400}
			}
			return nil
		}
		report := w.run(nil)
		if n := len(w.letters()); n != 2 || report.Applied != 1 || w.value("C", "a") != "1" {
			t.Errorf("refused during call %d: got %d letters, %+v and a=%s, want one of each record and a=1 applied", call, n, report, w.value("C", "a"))
		}
	}
}

// A newer record is refused as the older one's newest state, and the sink has still to bring it to its end.
func TestRefusedRecordThatTheSinkHasNotConfirmedIsOneDeadLetter(t *testing.T) {
	for _, refuses := range []bool{true, false} { // the sink's call, too
		w := withLetter(t, order("C", "upsert", `{"a":1}`))
		newer, times := order("C", "upsert", `{"a":2}`), 0
		w.before = func(*schemas.Write) error {
			if times++; times == 1 {
				w.produce(newer)
				return nil
			}
			return no{status: 400}
		}
		if report := w.run(nil); report.Left[replay.Unconfirmed] != 1 || len(w.letters()) != 1 {
			t.Errorf("got %+v and %d letters, want it left", report, len(w.letters()))
		}
		if refuses {
			w.deadLetter(newer, refused)
			w.before = nil
		}
		w.caughtUp()
		if report := w.run(func(r *replay.Replay) { r.Filter.Offsets = &replay.Offsets{First: 0, Last: 0} }); report.Selected != 1 || report.Left[replay.Unconfirmed] != 0 || len(w.letters()) != 2 {
			t.Errorf("once it is confirmed, the sink refused %v: got %+v and %d letters, want one of each record", refuses, report, len(w.letters()))
		}
	}
}
