package replay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/schemas"
)

// backfill runs one of a mapping's, as change wants it.
func (w *world) backfill(ctx context.Context, mapping string, change func(*replay.Backfill)) (replay.BackfillReport, error) {
	w.t.Helper()
	return w.backfillWith(ctx, ctx, mapping, change)
}

func (w *world) backfillWith(ctx, working context.Context, mapping string, change func(*replay.Backfill)) (report replay.BackfillReport, err error) {
	w.t.Helper()
	w.with(func(r *replay.Replay) { //nolint:contextcheck // the test's own ends with the test
		b := &replay.Backfill{Replay: r, BackfillConfig: replay.BackfillConfig{Asked: "--since 1h", Since: time.Now().Add(-time.Hour), Keys: 1 << 20}}
		for _, m := range w.router.Mappings() {
			if m.Name == mapping {
				b.Mapping = m
			}
		}
		if change != nil {
			change(b)
		}
		report, err = b.Run(ctx, working)
	})
	return report, err
}

// filled is backfill for runs that must end well.
func (w *world) filled(mapping string, change func(*replay.Backfill)) replay.BackfillReport {
	w.t.Helper()
	report, err := w.backfill(w.t.Context(), mapping, change)
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

func TestBackfillSendsTheNewestStateOfEachKey(t *testing.T) {
	for _, c := range []struct {
		name    string
		records []*kgo.Record
		calls   []string
	}{
		{"upserts", []*kgo.Record{customer("C", "upsert", "", `{"name":"old"}`), customer("C", "upsert", "", `{"name":"new"}`)}, []string{"upsert C name=new"}},
		{"upsert and patch", []*kgo.Record{customer("C", "upsert", "", `{"name":"old"}`), customer("C", "patch", "7", `{"city":"new"}`)}, []string{"upsert C name=old city=new"}},
		{"upsert and delete", []*kgo.Record{order("C", "upsert", `{"a":1}`), order("C", "delete", `{}`)}, []string{"delete C"}},
		{"delete and upsert", []*kgo.Record{order("C", "delete", `{}`), order("C", "upsert", `{"a":1}`)}, []string{"upsert C a=1"}},
		{"patches", []*kgo.Record{order("C", "patch", `{"a":1,"b":1}`), order("C", "patch", `{"a":2}`)}, []string{"patch C a=2 b=1"}},
		{"a create, whose row is its own", []*kgo.Record{order("C", "create", `{"a":1,"b":1}`), order("C", "patch", `{"a":2}`)}, []string{"upsert C a=2 b=1"}},
		{"what is broken", []*kgo.Record{order("C", "upsert", `{"a":1}`), order("C", "upsort", `{"a":2}`), {Topic: custom, Key: []byte("C"), Value: []byte("{")}}, []string{"upsert C a=1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := withRecords(t, c.records...)
			report := w.filled(c.records[0].Topic, nil)
			if !slices.Equal(w.calls, c.calls) || report.Sent != 1 || report.Keys != 1 || report.About || !report.Ended {
				t.Errorf("got calls %q and %+v, want %q", w.calls, report, c.calls)
			}
		})
	}
}

// An upsert that goes by file clears what it does not name. So does the call that repeats it.
func TestBackfillByCallsSaysWhatTheRowSays(t *testing.T) {
	w := newWorld(t)
	filed := func(properties string) *kgo.Record {
		return &kgo.Record{Topic: divided, Key: []byte("F"), Value: fmt.Appendf(nil, `{"op":"upsert","businessKey":"F","properties":%s}`, properties)}
	}
	w.produce(filed(`{"file":1,"name":"old"}`), filed(`{"file":2}`))
	w.caughtUp()
	report := w.filled("filed", func(b *replay.Backfill) {
		column := func(name string) spool.Column {
			return spool.Column{Header: name, Section: schemas.Properties, Name: name}
		}
		rows, err := spool.NewRows(spool.Key{Section: schemas.Properties, Name: "businessKey"},
			[]spool.Column{column("businessKey"), column("file"), column("name")}, spool.CSV{Separator: ",", Enclosing: `"`, Encoding: "UTF-8"})
		if err != nil {
			t.Fatal(err)
		}
		b.Replay.Rows = map[*router.Compiled]*spool.Rows{b.Mapping: rows}
	})
	if want := []string{"upsert F file=2 name=<nil>"}; !slices.Equal(w.calls, want) || report.Sent != 1 {
		t.Errorf("got calls %q and %+v, want %q", w.calls, report, want)
	}
}

func TestBackfillOfPartsOfTheKeysSendsEachOnce(t *testing.T) {
	w := newWorld(t)
	for i := range 300 {
		w.produce(order(fmt.Sprintf("o%d", i%100), "upsert", fmt.Sprintf(`{"seq":%d}`, i)))
	}
	w.caughtUp()
	told := 0.0
	report := w.filled(custom, func(b *replay.Backfill) {
		b.Keys, b.Replay.Round = 12<<10, 3
		b.Tell = func(r replay.BackfillReport) {
			if r.Done < told {
				t.Errorf("told %v done, after %v", r.Done, told)
			}
			told = r.Done
		}
	})
	if report.Sent != 100 || len(w.calls) != 100 || !report.About || told != 1 {
		t.Errorf("got %+v, %d calls, %v done; want each of 100 keys once", report, len(w.calls), told)
	}
	for i := range 100 {
		if got := w.value(fmt.Sprintf("o%d", i), "seq"); got != fmt.Sprint(200+i) {
			t.Errorf("o%d: got %s, want %d", i, got, 200+i)
		}
	}
}

// What comes after the span is live traffic's; the state that goes out is never older.
func TestBackfillNeverSendsWhatNewerRecordsReplaced(t *testing.T) {
	w := withRecords(t, order("replaced", "upsert", `{"a":1}`), order("changed", "upsert", `{"a":1,"b":1}`), order("deleted", "upsert", `{"a":1}`), order("alone", "upsert", `{"a":1}`))
	w.produce(order("replaced", "upsert", `{"a":2}`), order("changed", "patch", `{"a":2}`), order("deleted", "delete", `{}`), order("other", "upsert", `{"a":2}`))
	report := w.filled(custom, nil)
	slices.Sort(w.calls)
	if want := []string{"upsert alone a=1", "upsert changed a=2 b=1"}; !slices.Equal(w.calls, want) || report.Sent != 2 || report.Newer != 2 || report.Keys != 4 {
		t.Errorf("got calls %q and %+v, want %q", w.calls, report, want)
	}
}

// A newer record is applied by the sink while the older state is on its way.
func TestBackfillBehindANewerRecordSendsItAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		newer *kgo.Record
		want  string
	}{
		{"upsert", order("C", "upsert", `{"a":2}`), "2"},
		{"patch", order("C", "patch", `{"a":3}`), "3"},
		{"delete", order("C", "delete", `{}`), "no row"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := withRecords(t, order("C", "upsert", `{"a":1}`))
			w.before = func(*schemas.Write) error {
				w.before = nil
				w.produce(c.newer) // which the sink applies before the backfill's call
				return nil
			}
			w.filled(custom, nil)
			if got := w.value("C", "a"); got != c.want {
				t.Errorf("got %s after calls %q, want %s", got, w.calls, c.want)
			}
		})
	}
}

// A profile that was deleted while its older state was on its way is deleted again.
func TestBackfillBringsNoDeletedProfileBack(t *testing.T) {
	w := withRecords(t, customer("C", "upsert", "", `{"name":"old"}`))
	w.before = func(*schemas.Write) error {
		w.before = nil
		w.produce(&kgo.Record{Topic: profile, Key: []byte("C")})
		return nil
	}
	w.filled(profile, nil)
	if got := w.value("C", "name"); got != "no row" {
		t.Errorf("got %s after calls %q, want no row", got, w.calls)
	}
}

// The first run dies with a call on its way that is applied later than newer records.
func TestBackfillAfterACrashSendsTheNewestStateLast(t *testing.T) {
	for _, again := range []string{"the same", "restart"} {
		t.Run(again, func(t *testing.T) {
			w := withRecords(t, order("C", "upsert", `{"a":1}`))
			w.held = true
			ctx, crash := context.WithCancel(t.Context())
			go func() {
				for {
					w.mu.Lock()
					sent := len(w.late) > 0
					w.mu.Unlock()
					if sent {
						crash()
						return
					}
				}
			}()
			if _, err := w.backfill(ctx, custom, nil); !errors.Is(err, context.Canceled) {
				t.Fatalf("the run that dies: got %v", err)
			}
			w.held = false
			w.produce(order("C", "upsert", `{"a":2}`))
			w.rows["C"] = map[string]any{"a": 2.0}
			w.waiting = w.land
			report := w.filled(custom, func(b *replay.Backfill) { b.Restart = again == "restart" })
			if got := w.value("C", "a"); got != "2" || len(w.waits) != 1 {
				t.Errorf("got %s after calls %q and waits %v, want 2, sent after what the first run may have sent", got, w.calls, w.waits)
			}
			if report.Resumed != (again == "the same") {
				t.Errorf("resumed: got %v", report.Resumed)
			}
		})
	}
}

func TestBackfillGoesOnWhereItWas(t *testing.T) {
	w := newWorld(t)
	for i := range 20 {
		w.produce(order(fmt.Sprintf("o%d", i), "upsert", `{"a":1}`))
	}
	w.caughtUp()
	ctx, interrupt := context.WithCancel(t.Context())
	few := func(b *replay.Backfill) { b.Replay.Round = 5 }
	_, err := w.backfill(t.Context(), custom, func(b *replay.Backfill) {
		few(b)
		b.Behind = func(context.Context) (string, error) {
			if len(w.calls) == 10 {
				interrupt()
				return "", ctx.Err()
			}
			return "", nil
		}
	})
	if !errors.Is(err, context.Canceled) || len(w.calls) != 10 {
		t.Fatalf("interrupted: got %v, %d calls", err, len(w.calls))
	}
	if _, err := w.backfill(t.Context(), custom, func(b *replay.Backfill) { b.Asked = "--since 2h" }); !errors.Is(err, replay.ErrUnfinished) {
		t.Errorf("another span: got %v, want it refused", err)
	}
	var mapping *router.Compiled
	_, err = w.backfill(t.Context(), custom, func(b *replay.Backfill) {
		mapping = b.Mapping
		mapping.Fingerprint++
	})
	mapping.Fingerprint--
	if !errors.Is(err, replay.ErrUnfinished) || !strings.Contains(err.Error(), "the mapping was changed since; --restart") {
		t.Errorf("another mapping: got %v, want it refused, and --restart named", err)
	}
	report := w.filled(custom, few)
	slices.Sort(w.calls)
	if got := len(slices.Compact(slices.Clone(w.calls))); got != 20 || len(w.calls) != 20 || report.Sent != 20 || !report.Resumed || len(w.waits) > 0 {
		t.Errorf("got %d calls of %d keys, %+v and waits %v; want each of 20 keys once", len(w.calls), got, report, w.waits)
	}
	if report = w.filled(custom, nil); report.Resumed || report.Sent != 20 {
		t.Errorf("after its end: got %+v, want one that begins anew", report)
	}
}

// An attempt without an answer may be applied after what the sink sends meanwhile.
func TestBackfillSendsOnceMoreWhatAnEarlierAttemptMayOverwrite(t *testing.T) {
	w := withRecords(t, order("C", "upsert", `{"a":1}`), order("D", "upsert", `{"a":1}`))
	var lost *schemas.Write
	w.before = func(wr *schemas.Write) error {
		if wr.Key != "C" || lost != nil {
			return nil
		}
		kept := *wr
		kept.Cells = slices.Clone(wr.Cells)
		lost = &kept
		return no{503, true}
	}
	w.waiting = func() {
		w.produce(order("C", "patch", `{"a":2}`))
		w.apply(lost)
	}
	report := w.filled(custom, nil)
	if got := w.value("C", "a"); got != "2" || report.Sent != 2 || len(w.waits) != 1 || w.waits[0] < late-time.Minute {
		t.Errorf("got %s after calls %q, waits %v, %+v; want the newest state once more", got, w.calls, w.waits, report)
	}
}

// Dead letters never came to the table: the state before them is the newest.
func TestBackfillLeavesOutDeadLetters(t *testing.T) {
	w := newWorld(t)
	r := w.produce(order("C", "upsert", `{"a":1}`), order("C", "upsert", `{"a":2}`), order("D", "upsert", `{"a":1}`), order("D", "upsert", `{"a":2}`),
		order("E", "upsert", `{"a":1}`), order("E", "upsert", `{"a":2}`), order("F", "upsert", `{"a":1}`), order("F", "upsert", `{"a":2}`))
	w.deadLetter(r[1], refused)
	w.deadLetter(r[3], refused)
	renamed, elsewhere := refused, refused
	renamed.Mapping, renamed.Table = "former", custom // the mapping's former name
	elsewhere.Mapping, elsewhere.Table = "removed", "another"
	w.deadLetter(r[5], renamed)
	w.deadLetter(r[7], elsewhere)
	w.caughtUp()
	w.run(func(r *replay.Replay) { r.Filter.Keys = []string{"D"} })
	w.calls, w.rows = nil, map[string]map[string]any{}
	report := w.filled(custom, nil)
	if c, d := w.value("C", "a"), w.value("D", "a"); c != "1" || d != "2" || report.DeadLetters != 2 {
		t.Errorf("got C %s, D %s, %+v; want 1, and 2 of the letter that was replayed", c, d, report)
	}
	if e, f := w.value("E", "a"), w.value("F", "a"); e != "1" || f != "2" {
		t.Errorf("got E %s, F %s; want 1, as the letter is of the mapping's former name, and 2, as it is another table's", e, f)
	}
}

// What the sink has confirmed since --until it does not send again: the newest state is the backfill's.
func TestBackfillUntilSendsWhatWasConfirmedSince(t *testing.T) {
	w := newWorld(t)
	before, until := time.Now().Add(-2*time.Minute), time.Now().Add(-time.Minute)
	at := func(r *kgo.Record, t time.Time) *kgo.Record { r.Timestamp = t; return r }
	w.produce(at(order("C", "upsert", `{"a":1}`), before), at(order("D", "upsert", `{"a":1}`), before), at(order("F", "upsert", `{"a":1}`), before))
	r := w.produce(order("C", "upsert", `{"a":2}`), order("E", "upsert", `{"a":1}`), order("F", "upsert", `{"a":2}`))
	w.deadLetter(r[2], refused)
	w.caughtUp()
	w.produce(order("D", "upsert", `{"a":2}`)) // the sink's
	report := w.filled(custom, func(b *replay.Backfill) { b.Until = until })
	if got, want := strings.Join(slices.Sorted(slices.Values(w.calls)), ", "), "upsert C a=2, upsert F a=1"; got != want || report.Newer != 1 || report.Records != 3 {
		t.Errorf("got calls %s, %+v; want %s, and one key left to the sink", got, report, want)
	}
}

// What lay where a letter's record did, before the topic was deleted and created again, is another record.
func TestBackfillSendsWhatLiesWhereLettersOfAnEarlierTopicDid(t *testing.T) {
	w := newWorld(t)
	r := w.produce(order("C", "upsert", `{"a":1}`), order("C", "upsert", `{"a":2}`))
	w.deadLetter(r[1], refused)
	w.recreate(custom, order("C", "upsert", `{"a":11}`), order("C", "upsert", `{"a":12}`))
	w.caughtUp()
	if report := w.filled(custom, nil); w.value("C", "a") != "12" || report.DeadLetters != 0 {
		t.Errorf("got %s, %+v; want 12, and no dead letter", w.value("C", "a"), report)
	}
}

func TestBackfillThatOnlyLooksSendsAndNotesNothing(t *testing.T) {
	w := newWorld(t)
	for i := range 400 {
		w.produce(order(fmt.Sprintf("o%d", i), "upsert", `{"a":1}`))
	}
	w.caughtUp()
	for _, room := range []int64{1 << 20, 100 << 10} {
		report := w.filled(custom, func(b *replay.Backfill) { b.Replay.DryRun, b.Keys = true, room })
		if report.Keys < 300 || report.Keys > 500 || report.Calls != report.Sent || report.Sent != report.Keys || report.Records != 400 || report.About != (room < 1<<20) {
			t.Errorf("room for %d: got %+v, want about 400 keys", room, report)
		}
	}
	if len(w.calls) > 0 {
		t.Errorf("got calls %q", w.calls)
	}
	if report := w.filled(custom, nil); report.Resumed {
		t.Error("then: got a run that goes on, want one that begins")
	}
}

func TestBackfillCountsWhatItCannotSend(t *testing.T) {
	w := withRecords(t, customer("C", "patch", "", `{"name":"new"}`), customer("D", "upsert", "", `{"name":"new"}`), customer("E", "upsert", "", `{"name":"new"}`))
	w.before = func(wr *schemas.Write) error {
		if wr.Key == "E" {
			return no{400, false}
		}
		return nil
	}
	report := w.filled(profile, nil)
	if report.Sent != 1 || report.Left[replay.NeedsImport] != 1 || report.Refused["rejected"] != 1 || len(report.Notes) != 2 {
		t.Errorf("got %+v, want one sent, one left and one refused", report)
	}
	for _, n := range report.Notes {
		if !strings.HasPrefix(n.Record, "customers[0]@") {
			t.Errorf("note: got %+v, want the record's place", n)
		}
	}
	if _, err := w.backfill(t.Context(), batch, nil); !errors.Is(err, replay.ErrNeedsCalls) {
		t.Errorf("by imports only: got %v, want it refused", err)
	}
}

func TestBackfillSaysWhyThereIsNothing(t *testing.T) {
	w := newWorld(t)
	if _, err := w.backfill(t.Context(), custom, nil); !errors.Is(err, replay.ErrNothing) || !strings.Contains(err.Error(), "no record") {
		t.Errorf("an empty topic: got %v", err)
	}
	w.produce(order("C", "upsert", `{"a":1}`))
	if _, err := w.backfill(t.Context(), custom, nil); !errors.Is(err, replay.ErrNothing) || !strings.Contains(err.Error(), "still to confirm the 1 record") {
		t.Errorf("unconfirmed: got %v", err)
	}
}

// shows waits until the reader knows of so many partitions.
func (w *world) shows(partitions int) {
	w.t.Helper()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		spans, err := w.reader.Spans(w.t.Context(), custom)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(spans) == partitions {
			return
		}
		<-look.C
	}
}

// After partitions were added a key's newer records are in another one.
func TestBackfillKnowsTheNewestStateOverAddedPartitions(t *testing.T) {
	w := newWorld(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	produce := func(partition int32, age time.Duration, r *kgo.Record) {
		r.Partition, r.Timestamp = partition, time.Now().Add(-age)
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	add := func(to int) {
		if _, err := w.admin.UpdatePartitions(t.Context(), to, custom); err != nil {
			t.Fatal(err)
		}
		client.PurgeTopicsFromClient(custom) // or it would know the former partitions only
	}
	add(2)
	for _, key := range []string{"C", "D"} {
		produce(1, 3*time.Minute, order(key, "upsert", `{"a":1,"b":1}`))
		produce(1, 2*time.Minute, order(key, "patch", `{"a":2}`))
		produce(0, time.Minute, order(key, "patch", `{"b":3}`))
	}
	w.caughtUp()
	added := false
	_, err = w.backfill(t.Context(), custom, func(b *replay.Backfill) {
		b.Replay.Round = 1
		b.Behind = func(context.Context) (string, error) {
			if len(w.calls) == 1 && !added {
				added = true
				add(3)
				w.shows(3) //nolint:contextcheck // as above
			}
			return "", nil
		}
	})
	if err == nil || !strings.Contains(err.Error(), "new partitions") {
		t.Fatalf("partitions are added meanwhile: got %v, want the run to end", err)
	}
	produce(2, 0, order("C", "upsert", `{"a":4,"b":4}`)) // D was sent first
	report := w.filled(custom, nil)
	if want := []string{"upsert D a=2 b=3"}; !slices.Equal(w.calls, want) || report.Newer != 1 {
		t.Errorf("got calls %q and %+v, want %q, and C left to the sink", w.calls, report, want)
	}
}
