package replay_test

import (
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/schemas"
)

// imports are those of the service, and the sink's pauses.
type imports struct {
	*world
	slots, perDay int
	taken         int
	files         []string // one for each import: its op and rows
	rows          []string // of the import under way, not landed yet
	pausing       func()   // the sink sends this before it is paused
	loading       func()   // happens while an import is loaded
	launched      error
	end           replay.ImportEnd
	notHeld       error
	paused        bool
	left          int // how many pauses were left to their ends
	awaited       []string
}

func (i *imports) Slots(context.Context) (left, perDay int, err error) {
	return i.slots, i.perDay, nil
}

func (i *imports) TakeSlot(context.Context) error {
	i.slots--
	i.taken++
	return nil
}

func (i *imports) Pause(context.Context, func(string)) (replay.Pause, error) {
	if i.pausing != nil {
		i.pausing()
		i.pausing = nil
	}
	i.paused = true
	return i, nil
}

func (i *imports) Held(context.Context) error { return i.notHeld }

func (i *imports) Resume(context.Context) error {
	i.paused = false
	return nil
}

func (i *imports) Leave() time.Time {
	i.left++
	return time.Now()
}

func (i *imports) Launch(_ context.Context, op schemas.Op, path string) (string, error) {
	if !i.paused {
		i.t.Error("a file is sent while live traffic is not paused")
	}
	i.rows = nil
	for _, row := range contents(i.t, path) {
		i.rows = append(i.rows, op.String()+" "+row)
	}
	i.files = append(i.files, strings.Join(i.rows, ", "))
	return fmt.Sprint(len(i.files)), i.launched
}

func (i *imports) Await(ctx context.Context, execution string, _ int64, asked func()) (replay.ImportEnd, error) {
	i.awaited = append(i.awaited, execution)
	asked()
	if i.loading != nil {
		i.loading()
	}
	if err := ctx.Err(); err != nil {
		return replay.ImportEnd{}, err
	}
	if !i.end.Failed {
		i.land()
	}
	return i.end, nil
}

// land has the rows of the import come to the table.
func (i *imports) land() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, row := range i.rows {
		op, rest, _ := strings.Cut(row, " ")
		key, cell, _ := strings.Cut(rest, "=")
		if delete(i.world.rows, key); op != "delete" {
			i.world.rows[key] = map[string]any{"name": cell}
		}
	}
	i.rows = nil
}

// contents are a file's rows, key=name each, in the order of the keys.
func contents(t *testing.T, path string) (rows []string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(z).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		rows = append(rows, strings.Join(line, "="))
	}
	slices.Sort(rows)
	return rows
}

func visit(key, op, name string) *kgo.Record {
	return &kgo.Record{Topic: batch, Key: []byte(key), Value: fmt.Appendf(nil, `{"op":%q,"key":{"number":%q},"attributes":{"name":%q}}`, op, key, name)}
}

// live is what the sink applies, and has confirmed where nothing else is said.
func (w *world) live(key, name string) {
	w.produce(visit(key, "upsert", name))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rows[key] = map[string]any{"name": name}
}

func (w *world) imports() *imports { return &imports{world: w, slots: 10, perDay: 10} }

// byFile runs a backfill of the visits by file.
func (i *imports) byFile(ctx, working context.Context, change func(*replay.Backfill)) (report replay.BackfillReport, err error) {
	i.t.Helper()
	dir, err := spool.Open(i.t.TempDir())
	if err != nil {
		i.t.Fatal(err)
	}
	defer dir.Close()
	return i.backfillWith(ctx, working, batch, func(b *replay.Backfill) {
		mapping := build.BatchMapping(b.Mapping)
		rows, err := mapping.Rows()
		if err != nil {
			i.t.Fatal(err)
		}
		b.Files = &replay.Files{Imports: i, Dir: dir, Rows: rows, Compression: "GZIP", Rand: rand.New(rand.NewPCG(1, 1))}
		if change != nil {
			change(b)
		}
	})
}

func (i *imports) loaded(change func(*replay.Backfill)) replay.BackfillReport {
	i.t.Helper()
	report, err := i.byFile(i.t.Context(), i.t.Context(), change)
	if err != nil || !report.Ended || i.paused {
		i.t.Fatalf("got %+v, %v, paused %v; want it ended and live traffic to go on", report, err, i.paused)
	}
	return report
}

func (i *imports) sent(want ...string) {
	i.t.Helper()
	if !slices.Equal(i.files, want) || len(i.calls) > 0 || i.taken != len(want) {
		i.t.Errorf("got files %q, calls %q and %d slots taken, want the files %q alone", i.files, i.calls, i.taken, want)
	}
}

func TestBackfillByFileSendsOneFileForEachOp(t *testing.T) {
	w := withRecords(t, visit("A", "upsert", "old"), visit("A", "upsert", "new"), visit("B", "upsert", "old"), visit("B", "patch", "new"),
		visit("C", "upsert", "old"), visit("C", "delete", "old"), visit("D", "patch", "new"), &kgo.Record{Topic: batch, Key: []byte("E")})
	i := w.imports()
	look, err := i.byFile(t.Context(), t.Context(), func(b *replay.Backfill) { b.Replay.DryRun = true })
	if err != nil || look.Files == nil || look.Files.Rows != 5 || look.Files.Imports != 3 || look.Files.Left != 10 || len(i.files) > 0 {
		t.Errorf("a dry run: got %+v, %+v, %v and files %q", look, look.Files, err, i.files)
	}
	report := i.loaded(nil)
	i.sent("delete C, delete E", "upsert A=new, upsert B=new", "patch D=new")
	if report.Sent != 5 || report.Keys != 5 || report.Resumed {
		t.Errorf("got %+v, want 5 keys sent", report)
	}
}

// What the sink sends until it is paused is in the files; a key that it may still create
// is its own.
func TestBackfillByFileHoldsWhatCameBeforeThePause(t *testing.T) {
	w := withRecords(t, visit("A", "upsert", "1"), visit("B", "upsert", "1"), visit("C", "delete", "1"))
	i := w.imports()
	i.pausing = func() {
		w.live("A", "2")
		w.live("other", "2")
	}
	i.loaded(nil)
	i.sent("delete C", "upsert A=2, upsert B=1")
	if got := w.value("A", "name"); got != "2" {
		t.Errorf("A: got %s, want 2", got)
	}
}

// The first run dies while its import is loaded: live traffic goes on beside it, and the
// import lands last.
func TestBackfillByFileAfterACrashSendsTheNewestStates(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*imports, context.CancelFunc)
		awaited int
		waits   int // of the next run, without an execution to ask for
	}{
		{"during the import", func(i *imports, crash context.CancelFunc) { i.loading = crash }, 3, 0},
		{"the launch is not answered", func(i *imports, _ context.CancelFunc) { i.launched = errors.New("no answer") }, 1, 1},
		{"the pause is not held", func(i *imports, _ context.CancelFunc) { i.notHeld = errors.New("ended") }, 3, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := withRecords(t, visit("A", "upsert", "1"), visit("B", "upsert", "1"))
			i := w.imports()
			ctx, crash := context.WithCancel(t.Context())
			defer crash()
			c.change(i, crash)
			if report, err := i.byFile(ctx, ctx, nil); err == nil || report.Ended || i.left != 1 {
				t.Fatalf("got %+v, %v, left %d; want the run to die and the pause to stay until its end", report, err, i.left)
			}
			w.live("A", "2")
			w.caughtUp()
			i.loading, i.launched, i.notHeld = nil, nil, nil
			w.waiting = i.land // which the next run waits for, if it knows of no execution
			report := i.loaded(nil)
			if a, b := w.value("A", "name"), w.value("B", "name"); a != "2" || b != "1" || !report.Resumed || report.Sent != 2 {
				t.Errorf("got A %s, B %s, %+v; want 2 and 1", a, b, report)
			}
			if len(i.files) != 2 || i.files[1] != "upsert A=2, upsert B=1" || len(i.awaited) != c.awaited || len(w.waits) != c.waits {
				t.Errorf("got files %q, awaited %q, waits %v", i.files, i.awaited, w.waits)
			}
		})
	}
}

// A run that was interrupted ends its import, and the next one goes on with the files that
// are left.
func TestInterruptedBackfillByFileGoesOnWithTheFilesThatAreLeft(t *testing.T) {
	w := withRecords(t, visit("A", "upsert", "1"), visit("B", "delete", "1"))
	i := w.imports()
	ctx, interrupt := context.WithCancel(t.Context())
	i.loading = interrupt
	if _, err := i.byFile(ctx, t.Context(), nil); !errors.Is(err, context.Canceled) || i.paused || i.left > 0 {
		t.Fatalf("interrupted: got %v, want the import to end and live traffic to go on", err)
	}
	i.sent("delete B")
	if report := i.loaded(nil); !report.Resumed || report.Sent != 2 {
		t.Errorf("got %+v, want it to go on", report)
	}
	i.sent("delete B", "upsert A=1")
}

// A key that was deleted and written again is not deleted for it.
func TestBackfillByFileDeletesNoRowThatIsThere(t *testing.T) {
	w := withRecords(t, visit("A", "upsert", "1"), visit("A", "delete", "1"), visit("A", "upsert", "2"), visit("B", "delete", "1"))
	i := w.imports()
	i.loaded(nil)
	i.sent("delete B", "upsert A=2")
}

// Where a row has to be deleted, since what brings it back does not say all of it, both
// imports are made, on one day, also when the run is interrupted between them.
func TestBackfillByFileBringsBackWhatItDeletes(t *testing.T) {
	for _, c := range []struct {
		name   string
		slots  int
		change func(i *imports, interrupt func())
	}{
		{"interrupted", 2, func(i *imports, interrupt func()) { i.loading = interrupt }},
		{"one slot left today", 1, func(i *imports, _ func()) {
			i.waiting = func() {
				if len(i.files) > 0 {
					i.t.Errorf("got files %q while a slot is waited for", i.files)
				}
				i.slots = 2 // the next day
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := withRecords(t, visit("A", "upsert", "1"), visit("A", "delete", "1"), visit("A", "merge", "2"))
			i := w.imports()
			i.slots = c.slots
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			c.change(i, interrupt)
			if report, err := i.byFile(ctx, t.Context(), nil); err != nil || !report.Ended || i.paused {
				t.Errorf("got %+v, %v, paused %v; want it ended", report, err, i.paused)
			}
			i.sent("delete A", "merge A=2")
		})
	}
}

func TestBackfillByFileKeepsToTheSlots(t *testing.T) {
	w := withRecords(t, visit("A", "upsert", "1"), visit("B", "delete", "1"))
	i := w.imports()
	i.slots = 1
	w.waiting = func() {
		if i.paused {
			t.Error("live traffic is paused while a slot is waited for")
		}
		w.waiting = nil
		w.live("A", "2")
		i.slots = 1 // the next day
	}
	i.loaded(nil)
	i.sent("delete B", "upsert A=2")
	if len(w.waits) != 1 || w.waits[0] != time.Minute {
		t.Errorf("waits: got %v, want one for a slot", w.waits)
	}
	w.produce(visit("C", "upsert", "1"))
	w.caughtUp()
	i.slots, i.perDay = 0, 0
	if _, err := i.byFile(t.Context(), t.Context(), nil); err == nil || !strings.Contains(err.Error(), "a backfill may use 0 a day") {
		t.Errorf("no slots on any day: got %v, want it refused", err)
	}
}

func TestBackfillByFileCountsWhatTheServiceRefuses(t *testing.T) {
	w := withRecords(t, visit("A", "upsert", "1"), visit("B", "upsert", "1"))
	i := w.imports()
	i.end = replay.ImportEnd{Failed: true}
	if report, err := i.byFile(t.Context(), t.Context(), nil); err == nil || !strings.Contains(err.Error(), "execution 1: the import of 2 rows to upsert has FAILED") || report.Ended || i.paused || i.left > 0 {
		t.Errorf("FAILED: got %+v, %v, want the run to end and live traffic to go on", report, err)
	}
	i.end = replay.ImportEnd{Unread: true, Read: 1}
	if report, err := i.byFile(t.Context(), t.Context(), nil); err == nil || !strings.Contains(err.Error(), "execution 2: the import has FINISHED, but the service has read 1 of its 2 rows to upsert") || report.Ended || report.Sent != 0 || i.paused || i.left > 0 {
		t.Errorf("fewer rows read: got %+v, %v, want the run to end and live traffic to go on", report, err)
	}
	i.end = replay.ImportEnd{InError: 1}
	report := i.loaded(nil)
	if i.sent("upsert A=1, upsert B=1", "upsert A=1, upsert B=1", "upsert A=1, upsert B=1"); !report.Resumed {
		t.Errorf("got %+v, want the op sent again", report)
	}
	if report.Sent != 1 || report.Refused["import_row"] != 1 || len(report.Notes) != 1 || !strings.Contains(report.Notes[0].Message, "1 of 2 rows") {
		t.Errorf("a row in error: got %+v", report)
	}
	i.launched = replay.ErrNotStarted
	if _, err := i.byFile(t.Context(), t.Context(), nil); !errors.Is(err, replay.ErrNotStarted) || i.paused || i.left > 0 {
		t.Errorf("refused: got %v, want live traffic to go on", err)
	}
}

func TestBackfillByFileSaysWhereTheServiceDoesNotCount(t *testing.T) {
	w := withRecords(t, visit("A", "upsert", "1"), visit("B", "upsert", "1"))
	i := w.imports()
	i.end = replay.ImportEnd{InError: -1}
	report := i.loaded(nil)
	_, counted := report.Refused["import_row"]
	if text := report.Text(); counted || report.Untold != 2 || !strings.Contains(text, "unknown of 2 rows: the service does not say") || !strings.Contains(report.ProgressText(), "0 refused (unknown of 2)") {
		t.Errorf("got %+v and\n%s\nwant the rows in error unknown", report, text)
	}
}
