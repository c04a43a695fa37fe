package replay_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/schemas"
)

func TestOlderValueNeverReplacesANewerOne(t *testing.T) {
	for _, c := range []struct {
		name    string
		records []*kgo.Record // the first is the dead letter
		calls   []string
	}{
		{"upsert, then upsert", []*kgo.Record{customer("C", "upsert", "", `{"name":"old"}`), customer("C", "upsert", "", `{"name":"new"}`)}, nil},
		{"upsert, then delete", []*kgo.Record{customer("C", "upsert", "", `{"name":"old"}`), customer("C", "delete", "7", `{}`)}, nil},
		{"upsert, then tombstone", []*kgo.Record{customer("C", "upsert", "", `{"name":"old"}`), {Topic: profile, Key: []byte("C")}}, nil},
		{"upsert, then patch of another value", []*kgo.Record{customer("C", "upsert", "", `{"name":"old"}`), customer("C", "patch", "7", `{"city":"new"}`)}, []string{"upsert C name=old city=new"}},
		{"upsert, then patch of the value", []*kgo.Record{customer("C", "upsert", "", `{"name":"old","city":"old"}`), customer("C", "patch", "7", `{"city":"new"}`)}, []string{"upsert C name=old city=new"}},
		{"patch, then patch of the value", []*kgo.Record{customer("C", "patch", "7", `{"name":"old"}`), customer("C", "patch", "7", `{"name":"new"}`)}, nil},
		{"delete, then upsert", []*kgo.Record{customer("C", "delete", "7", `{}`), customer("C", "upsert", "", `{"name":"new"}`)}, nil},
		{"delete, then patch", []*kgo.Record{customer("C", "delete", "7", `{}`), customer("C", "patch", "7", `{"name":"new"}`)}, nil},
		{"record, then record with all values", []*kgo.Record{order("C", "upsert", `{"a":1}`), order("C", "upsert", `{"a":2,"b":2}`)}, nil},
		{"record, then record with other values", []*kgo.Record{order("C", "upsert", `{"a":1,"b":1}`), order("C", "upsert", `{"a":2}`)}, []string{"upsert C a=2 b=1"}},
		{"create, then create", []*kgo.Record{order("C", "create", `{"a":1}`), order("C", "create", `{"a":2}`)}, nil},
		{"create, then patch", []*kgo.Record{order("C", "create", `{"a":1,"b":1}`), order("C", "patch", `{"a":2}`)}, []string{"create C a=2 b=1"}},
		{"upsert, then merge", []*kgo.Record{order("C", "upsert", `{"a":1,"b":1}`), order("C", "merge", `{"a":2}`)}, []string{"upsert C a=2 b=1"}},
		{"profile's merge, then upsert", []*kgo.Record{customer("C", "merge", "", `{"name":"old","city":"old"}`), customer("C", "upsert", "", `{"name":"new"}`)}, nil},
		{"profile's upsert, then merge", []*kgo.Record{customer("C", "upsert", "", `{"name":"old","city":"old"}`), customer("C", "merge", "", `{"city":"new"}`)}, []string{"upsert C name=old city=new"}},
		{"profile's merge, then merge of the value", []*kgo.Record{customer("C", "merge", "", `{"name":"old"}`), customer("C", "merge", "", `{"name":"new"}`)}, nil},
		{"profile's delete, then merge", []*kgo.Record{customer("C", "delete", "7", `{}`), customer("C", "merge", "", `{"name":"new"}`)}, nil},
		{"merge, then merge of the value", []*kgo.Record{order("C", "merge", `{"a":1}`), order("C", "merge", `{"a":2}`)}, nil},
		{"merge, then merge of another value", []*kgo.Record{order("C", "merge", `{"a":1}`), order("C", "merge", `{"b":2}`)}, []string{"merge C a=1 b=2"}},
		{"merge, then patch", []*kgo.Record{order("C", "merge", `{"a":1,"b":1}`), order("C", "patch", `{"a":2}`)}, []string{"merge C a=2 b=1"}},
		{"patch, then merge", []*kgo.Record{order("C", "patch", `{"a":1,"b":1}`), order("C", "merge", `{"a":2}`)}, []string{"merge C a=2 b=1"}},
		{"merge, then upsert with other values", []*kgo.Record{order("C", "merge", `{"a":1,"b":1}`), order("C", "upsert", `{"a":2}`)}, []string{"upsert C a=2 b=1"}},
		{"merge, then delete", []*kgo.Record{order("C", "merge", `{"a":1}`), order("C", "delete", `{}`)}, nil},
		{"delete, then merge", []*kgo.Record{order("C", "delete", `{}`), order("C", "merge", `{"a":1}`)}, nil},
		{"another row follows", []*kgo.Record{order("C", "upsert", `{"a":1}`), order("D", "upsert", `{"a":2}`)}, []string{"upsert C a=1"}},
		{"what follows is broken", []*kgo.Record{order("C", "upsert", `{"a":1}`), order("C", "upsort", `{"a":2}`), {Topic: custom, Key: []byte("C"), Value: []byte("{")}}, []string{"upsert C a=1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := withLetter(t, c.records...)
			report := w.run(nil)
			if !slices.Equal(w.calls, c.calls) {
				t.Errorf("calls: got %q, want %q", w.calls, c.calls)
			}
			if want := len(c.calls); report.Applied != want || report.Superseded != 1-want || report.Selected != 1 || !report.Ended() {
				t.Errorf("report: got %+v, want %d applied, else superseded", report, want)
			}
			if report = w.run(nil); report.Selected != 0 || report.Done != 1 || !slices.Equal(w.calls, c.calls) {
				t.Errorf("a second run: got %+v and calls %v, want nothing to do", report, w.calls)
			}
		})
	}
}

// The sink applies a newer record while the call of the dead letter is on its way.
func TestRecordThatComesDuringTheCallWins(t *testing.T) {
	for _, c := range []struct {
		name    string
		comes   *kgo.Record
		applied schemas.Write // by the sink
		want    string
	}{
		{"upsert", customer("C", "upsert", "", `{"name":"new"}`), schemas.Write{Op: schemas.Upsert}, "new"},
		{"patch", customer("C", "patch", "7", `{"name":"new"}`), schemas.Write{Op: schemas.Patch}, "new"},
		{"delete", customer("C", "delete", "7", `{}`), schemas.Write{Op: schemas.Delete}, "no row"},
		{"delete without the service's id", customer("C", "delete", "", `{}`), schemas.Write{Op: schemas.Delete}, "no row"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := withLetter(t, customer("C", "upsert", "", `{"name":"old"}`))
			times := 0
			w.before = func(*schemas.Write) error {
				if times++; times == 1 {
					w.produce(c.comes) // and the sink is faster than this call
				}
				return nil
			}
			if got := w.run(nil); !got.Ended() {
				t.Errorf("report: got %+v, want the letter ended", got)
			}
			if got := w.value("C", "name"); got != c.want {
				t.Errorf("C: got %s, want %s, the newest; calls %q", got, c.want, w.calls)
			}
			if times != 2 {
				t.Errorf("calls: got %d %q, want the letter's and the newest state's", times, w.calls)
			}
		})
	}
}

func TestKilledRunLeavesNoOlderValue(t *testing.T) {
	w := withLetter(t, order("C", "upsert", `{"seq":1}`))
	// The call arrives, and the process ends before it knows.
	w.lost = true
	if _, err := w.replay(func(r *replay.Replay) { r.GiveUp = 300 * time.Millisecond }); err == nil {
		t.Fatal("the first run came to an end")
	}
	// Meanwhile the sink applied a newer record, before that call.
	w.lost = false
	w.produce(order("C", "upsert", `{"seq":2}`))
	w.caughtUp()
	w.calls = nil
	if got := w.run(nil); got.Superseded != 1 {
		t.Errorf("report: got %+v, want the letter superseded", got)
	}
	if got := w.value("C", "seq"); got != "2" {
		t.Errorf("C: got %s, want 2; calls %q", got, w.calls)
	}
}

func TestLetterThatFailsAgainComesBackWithOneMoreAttempt(t *testing.T) {
	w := newWorld(t)
	r := w.produce(order("o1", "upsert", `{"seq":1}`))[0]
	r.Headers = []kgo.RecordHeader{{Key: "trace", Value: []byte{0, 255}}, {Key: "__connect.errors.topic", Value: []byte("elsewhere")}}
	w.deadLetter(r, refused)
	w.caughtUp()
	w.before = func(*schemas.Write) error { return no{status: 400} }
	for attempt := 1; attempt <= 3; attempt++ {
		if got := w.run(nil); got.Refused["rejected"] != 1 || got.Selected != 1 || got.Ended() {
			t.Fatalf("attempt %d: got %+v, want it refused", attempt, got)
		}
		letters := w.letters()
		last := letters[len(letters)-1]
		if len(letters) != attempt+1 || last.Attempts != attempt || last.Record.Offset != r.Offset || last.Mapping != custom {
			t.Fatalf("attempt %d: got %d letters, the last %+v", attempt, len(letters), last)
		}
		if got := last.Record; !bytes.Equal(got.Key, r.Key) || !bytes.Equal(got.Value, r.Value) || !got.Timestamp.Equal(r.Timestamp) ||
			len(got.Headers) != 2 || got.Headers[1].Key != "__connect.errors.topic" {
			t.Fatalf("attempt %d: the record is not as it was: %+v", attempt, got)
		}
	}
	if got := w.run(nil); got.Left[replay.MaxAttempts] != 1 || len(w.letters()) != 4 {
		t.Errorf("after 3 attempts: got %+v and %d letters, want it left", got, len(w.letters()))
	}
	w.before = nil
	if got := w.run(func(r *replay.Replay) { r.MaxAttempts = 4 }); got.Applied != 1 || w.value("o1", "seq") != "1" {
		t.Errorf("with more attempts: got %+v, want it applied", got)
	}
}

func TestWhatCannotBeReplayedIsLeftAndSaysWhy(t *testing.T) {
	for _, c := range []struct {
		why    string
		record *kgo.Record
		letter deadletter.Reason
		change func(*world, *kgo.Record)
		allow  func(*replay.Replay) // makes it go, nil: nothing does
		ended  string               // by this command
		says   string               // how; "": not looked at
	}{
		{
			ended: "discard",
			why:   replay.NeedsImport, record: customer("C", "patch", "", `{"name":"x"}`), letter: refused,
		},
		{
			ended: "discard",
			why:   replay.NeedsImport, record: customer("C", "merge", "7", `{"name":"x"}`), letter: refused,
			says: "no call can merge a profile; import its row (feedsink import --mapping customers --op merge FILE.csv), " +
				"or produce its record again, then end the letter with feedsink dlq discard",
		},
		{
			ended: "discard",
			why:   replay.NeedsImport, record: order("..", "delete", `{}`), letter: refused,
			says: `no call can delete a record whose key is "." or ".."; import its row (feedsink import --mapping orders --op delete FILE.csv), ` +
				"then end the letter with feedsink dlq discard",
		},
		{
			ended: "discard",
			why:   replay.NeedsImport, record: order(".", "patch", `{"a":1}`), letter: refused,
		},
		{
			ended: "discard",
			why:   replay.NeedsImport, record: order(".", "merge", `{"a":1}`), letter: refused,
		},
		{
			ended: "discard",
			why:   replay.NeedsImport, record: customer("C", "patch", "..", `{"name":"x"}`), letter: refused,
			says: `no call can patch a profile whose id is "." or ".."; import its row (feedsink import --mapping customers --op patch FILE.csv), `,
		},
		{
			ended: "replay --as-calls",
			why:   replay.BatchOnly, letter: refused,
			record: &kgo.Record{Topic: batch, Key: []byte("C"), Value: []byte(`{"op":"upsert","key":{"number":"C"},"attributes":{"name":"x"}}`)},
			allow:  func(r *replay.Replay) { r.AsCalls = true },
		},
		{ // of a mapping that makes calls too
			ended: "replay --as-calls",
			why:   replay.BatchOnly, letter: refused,
			record: &kgo.Record{Topic: profile, Key: []byte("C"), Value: []byte(`{"op":"upsert","key":{"number":"C"},"attributes":{"name":"x"}}`)},
			allow:  func(r *replay.Replay) { r.AsCalls = true },
		},
		{
			ended: "discard",
			why:   replay.NoMapping, record: order("C", "upsert", `{"a":1}`), letter: deadletter.Reason{Mapping: "gone", Code: "rejected"},
		},
		{
			ended: "replay --assume-newest",
			why:   replay.Unknowable, record: order("C", "upsert", `{"a":1}`), letter: refused,
			change: func(w *world, r *kgo.Record) {
				w.produce(order("D", "upsert", `{"a":1}`), order("D", "upsert", `{"a":2}`))
				gone := kadm.Offsets{}
				gone.AddOffset(custom, 0, r.Offset+2, -1)
				if _, err := w.admin.DeleteRecords(w.t.Context(), gone); err != nil {
					w.t.Fatal(err)
				}
			},
			allow: func(r *replay.Replay) { r.AssumeNewest = true },
		},
		{
			ended: "replay", // which alone knows that the record is another one
			why:   replay.Unknowable, record: order("C", "upsert", `{"a":1}`), letter: refused,
			change: func(w *world, _ *kgo.Record) { w.recreate(custom, order("E", "upsert", `{"a":3}`)) },
			allow:  func(r *replay.Replay) { r.AssumeNewest = true },
		},
		{
			ended: "replay --assume-newest",
			why:   replay.Unknowable, record: order("C", "upsert", `{"a":1}`), letter: refused,
			change: func(w *world, _ *kgo.Record) { w.remove(custom) },
			allow:  func(r *replay.Replay) { r.AssumeNewest = true },
		},
		{
			ended: "replay --max-attempts 4",
			why:   replay.MaxAttempts, record: order("C", "upsert", `{"a":1}`),
			letter: deadletter.Reason{Stage: deadletter.Delivering, Code: "rejected", Attempts: 3},
			allow:  func(r *replay.Replay) { r.MaxAttempts = 4 },
		},
	} {
		t.Run(c.why, func(t *testing.T) {
			w := newWorld(t)
			r := w.produce(c.record)[0]
			w.deadLetter(r, c.letter)
			if c.change != nil {
				c.change(w, r)
			}
			w.caughtUp()
			for range 2 { // it stays
				got := w.run(nil)
				if got.Left[c.why] != 1 || got.Selected != 1 || len(w.calls) != 0 {
					t.Fatalf("got %+v and calls %q, want it left", got, w.calls)
				}
				if !strings.Contains(got.Notes[0].Message, c.says) {
					t.Errorf("note: got %q, want %q", got.Notes[0].Message, c.says)
				}
			}
			if got := w.endedBy(false); got != c.ended {
				t.Errorf("ended by: got %q, want %q", got, c.ended)
			}
			if c.allow == nil {
				w.discard(replay.Discard{Reason: "nothing to be done"})
				if got := w.run(nil); got.Selected != 0 || got.Done != 1 {
					t.Errorf("discarded: got %+v, want nothing selected", got)
				}
				return
			}
			if got := w.run(c.allow); got.Applied != 1 || len(w.calls) != 1 {
				t.Errorf("allowed: got %+v and calls %q, want it applied", got, w.calls)
			}
		})
	}
}

func TestLetterWaitsForWhatIsBeforeItsRecord(t *testing.T) {
	w := withRecords(t, order("C", "upsert", `{"seq":1}`))
	r := w.produce(order("C", "upsert", `{"seq":2}`))
	w.deadLetter(r[0], refused)
	if got := w.run(nil); got.Left[replay.Unconfirmed] != 1 || len(w.calls) != 0 {
		t.Errorf("got %+v and calls %q, want it left", got, w.calls)
	}
	w.caughtUp()
	if got := w.run(nil); got.Applied != 1 {
		t.Errorf("once it is confirmed: got %+v, want it applied", got)
	}
}

func TestDryRunSendsAndMarksNothing(t *testing.T) {
	w := newWorld(t)
	r := w.produce(order("a", "upsert", `{"seq":1}`), order("b", "upsert", `{"seq":1}`), order("b", "upsert", `{"seq":2}`),
		&kgo.Record{Topic: custom, Key: []byte("c"), Value: []byte("{")}, order("d", "upsort", `{}`))
	w.deadLetter(r[0], refused)
	w.deadLetter(r[1], refused)
	w.deadLetter(r[3], deadletter.Reason{Code: "decode"})
	w.deadLetter(r[4], deadletter.Reason{Code: "value"})
	w.caughtUp()
	for range 2 {
		got := w.run(func(r *replay.Replay) { r.DryRun = true })
		if got.Applied != 1 || got.Superseded != 1 || got.Refused["decode"] != 1 || got.Refused["value"] != 1 || len(got.Notes) != 2 {
			t.Errorf("got %+v, want one of each", got)
		}
	}
	if len(w.calls) != 0 || len(w.letters()) != 4 {
		t.Errorf("got calls %q and %d letters, want none and 4", w.calls, len(w.letters()))
	}
}

func TestEveryLetterIsReplayedOnceWhateverTheFilter(t *testing.T) {
	w := newWorld(t)
	var records []*kgo.Record
	for i := range 300 {
		records = append(records, order(fmt.Sprintf("o%d", i), "upsert", fmt.Sprintf(`{"seq":%d}`, i)))
	}
	for i, r := range w.produce(records...) {
		l := refused
		l.Code = []string{"rejected", "conflict", "not_found"}[i%3]
		w.deadLetter(r, l)
	}
	w.caughtUp()
	for i, filter := range []replay.Filter{
		{Reasons: []string{"conflict"}},
		{Offsets: &replay.Offsets{First: 0, Last: 149}},
		{Keys: []string{"o299"}},
		{},
	} {
		want := []int{100, 100, 1, 99}[i]
		if got := w.run(func(r *replay.Replay) { r.Filter, r.Round = filter, 7 }); got.Applied != want {
			t.Errorf("run %d: got %d applied, want %d", i, got.Applied, want)
		}
	}
	if len(w.calls) != 300 || len(w.rows) != 300 {
		t.Errorf("got %d calls to %d rows, want 300 each", len(w.calls), len(w.rows))
	}
}

func TestLetterIsReplayedForItsMappingAloneOrForAll(t *testing.T) {
	for _, c := range []struct {
		name   string
		letter deadletter.Reason
		calls  int
	}{
		{"of one mapping", deadletter.Reason{Code: "rejected", Mapping: "left"}, 1},
		{"that nobody could decode", deadletter.Reason{Code: "decode"}, 2},
	} {
		w := newWorld(t)
		r := order("C", "upsert", `{"a":1}`)
		r.Topic = shared
		w.deadLetter(w.produce(r)[0], c.letter)
		w.caughtUp()
		if got := w.run(nil); got.Applied != 1 || len(w.calls) != c.calls {
			t.Errorf("a letter %s: got %+v and calls %q, want %d", c.name, got, w.calls, c.calls)
		}
	}
}

func TestLettersOfOthersAreNotTouched(t *testing.T) {
	w := newWorld(t)
	r := w.produce(order("C", "upsert", `{"a":1}`))[0]
	w.deadLetter(r, refused)
	w.produce(&kgo.Record{Topic: topic, Value: []byte("whatever")})
	w.caughtUp()
	if err := w.reader.Commit(t.Context(), "other-immediate", map[cluster.TopicPartition]cluster.Commit{{Topic: custom}: {Offset: 1}}); err != nil {
		t.Fatal(err)
	}
	if got := w.run(func(r *replay.Replay) { r.Connector = "other" }); got.Foreign != 2 || got.Selected != 0 || len(w.calls) != 0 {
		t.Errorf("got %+v and calls %q, want both foreign", got, w.calls)
	}
}

// What followed a row that matches no record cannot be known.
func TestRowOfNoRecordIsLeft(t *testing.T) {
	w := newWorld(t)
	r := w.produce(order("o1", "upsert", `{"seq":1}`))
	w.deadLetter(r[0], refused)
	w.deadLetter(&kgo.Record{Key: []byte("o9"), Value: []byte("businessKey,error\no9,bad\n")},
		deadletter.Reason{Stage: deadletter.Delivering, Code: "import_row", Message: "bad", Mapping: "orders", Execution: "17"})
	w.caughtUp()
	for range 2 {
		report := w.run(nil)
		if report.Left[replay.NoRecord] != 1 || report.Ended() || len(report.Notes) != 1 || report.Notes[0].Record != "row of execution 17" {
			t.Errorf("report: got %+v, want the row left, as of no record", report)
		}
	}
	if got := w.value("o1", "seq"); got != "1" {
		t.Errorf("o1: got %s, want 1", got)
	}
	if got := w.run(func(r *replay.Replay) { r.Filter.Offsets = &replay.Offsets{First: 0, Last: 100} }); got.Selected != 0 {
		t.Errorf("of offsets from 0: got %+v, want it not meant: it has none", got)
	}
}
