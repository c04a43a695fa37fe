package replay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/schemas"
)

// filed is a record of a profile that goes by file, which keeps what it does not name.
func filed(key, attributes string) *kgo.Record {
	return &kgo.Record{Topic: profile, Key: []byte(key), Value: fmt.Appendf(nil, `{"op":"upsert","key":{"number":%q},"attributes":%s}`, key, attributes)}
}

func TestBackfillByCallsLeavesProfilesThatGoByFile(t *testing.T) {
	w := withRecords(t, customer("called", "upsert", "", `{"name":"a"}`), filed("filed", `{"name":"b"}`),
		customer("both", "upsert", "", `{"name":"old","city":"c"}`), filed("both", `{"name":"d"}`),
		customer("covered", "upsert", "", `{"name":"old"}`), filed("covered", `{"name":"e"}`),
		filed("called since", `{"name":"old"}`), customer("called since", "upsert", "", `{"city":"f"}`),
		filed("made anew", `{"name":"old"}`), &kgo.Record{Topic: profile, Key: []byte("made anew")}, filed("made anew", `{"city":"g"}`),
		customer("patched", "patch", "7", `{"city":"h"}`), filed("patched", `{"name":"h"}`))
	look := w.filled(profile, func(b *replay.Backfill) { b.Replay.DryRun = true })
	report := w.filled(profile, nil)
	slices.Sort(w.calls)
	want := []string{"upsert both name=d city=c", "upsert called name=a", "upsert called since city=f", "upsert covered name=e", "upsert made anew city=g"}
	slices.Sort(want)
	if !slices.Equal(w.calls, want) || report.Sent != 5 || report.Left[replay.BatchOnly] != 2 {
		t.Errorf("got calls %q and %+v, want %q and two left", w.calls, report, want)
	}
	if look.Sent != 5 || look.Calls != 5 || look.Left[replay.BatchOnly] != 2 {
		t.Errorf("dry run: got %+v, want 5 calls and two left", look)
	}
	for _, n := range report.Notes {
		if n.Why != replay.BatchOnly || !strings.Contains(n.Message, "--as-calls") || !strings.Contains(n.Message, "--by file") {
			t.Errorf("note: got %+v, want what may be done", n)
		}
	}
	w.calls = nil
	if report = w.filled(profile, func(b *replay.Backfill) { b.Replay.AsCalls = true }); report.Sent != 7 || len(w.calls) != 7 {
		t.Errorf("as calls: got %q and %+v, want all sent", w.calls, report)
	}
}

// What a newer record by file does not name is the letter's still.
func TestLetterOfAProfileThatARecordByFileFollowedIsAppliedBelowIt(t *testing.T) {
	w := newWorld(t)
	r := w.produce(customer("C", "upsert", "", `{"name":"old","city":"c"}`), filed("C", `{"name":"new"}`),
		customer("D", "upsert", "", `{"name":"old"}`),
		&kgo.Record{Topic: profile, Key: []byte("D"), Value: []byte(`{"op":"upsert","key":{"number":"D"},"attributes":{"name":"new"},"segments":{"tier":"iron"}}`)})
	w.deadLetter(r[0], refused)
	w.deadLetter(r[2], refused)
	w.caughtUp()
	got := w.run(nil)
	if want := []string{"upsert C name=new city=c"}; !slices.Equal(w.calls, want) || got.Applied != 1 || got.Superseded != 1 {
		t.Errorf("got calls %q and %+v, want %q", w.calls, got, want)
	}
}

// A record by file that comes during the call of an older patch is not sent by a call.
func TestRecordByFileThatComesDuringTheCallIsNotSentByACall(t *testing.T) {
	for _, asCalls := range []bool{false, true} {
		w := newWorld(t)
		w.rows["C"] = map[string]any{"city": "kept"}
		w.deadLetter(w.produce(customer("C", "patch", "id-C", `{"name":"old"}`))[0], refused)
		w.caughtUp()
		w.before = func(*schemas.Write) error {
			w.before = nil
			w.produce(filed("C", `{"name":"new"}`))
			return nil
		}
		got := w.run(func(r *replay.Replay) { r.AsCalls = asCalls })
		want, left := "kept", 1
		if asCalls {
			want, left = "nothing", 0
		}
		if city := w.value("C", "city"); city != want || got.Left[replay.NeedsImport] != left {
			t.Errorf("as calls %v: got %s after calls %q, %+v; want %s, and %d left", asCalls, city, w.calls, got, want, left)
		}
	}
}
