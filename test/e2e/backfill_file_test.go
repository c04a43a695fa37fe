//go:build !image

package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/schemas"
)

// filedBy is a backfill that may go by file, beside that sink.
func (w *world) filedBy(sink *running, mapping, by string) ops.BackfillOptions {
	w.t.Helper()
	o := backfillOf(mapping)
	o.By = by
	var err error
	if o.Sink, err = admin.NewClient("http://"+sink.AdminAddress(), admin.Credentials{}); err != nil {
		w.t.Fatal(err)
	}
	return o
}

// byHand are the one-shot imports so far.
func (w *world) byHand() (n int) {
	for _, e := range w.service.Executions() {
		if e.ETL == "" {
			n++
		}
	}
	return n
}

// Both lanes write the customers, and newer records of theirs come while the file is loaded.
func TestBackfillByFileKeepsLiveTrafficOfItsTableWaiting(t *testing.T) {
	t.Parallel()
	const keys = 20
	w := newWorld(t, nil)
	cfg := w.config(head + deadLetters + mappings)
	sink := w.begin(cfg)
	for seq := range 3 {
		for i := range keys {
			w.produce(customer(fmt.Sprintf("C%d", i), []string{"gold", "basic"}[i%2], seq))
		}
	}
	w.settled()
	w.lose(cfg, "customers")
	w.service.Hold()
	type result struct {
		report replay.BackfillReport
		err    error
	}
	ended := make(chan result, 1)
	go func() {
		report, err := ops.Backfill(t.Context(), cfg, w.filedBy(sink, "customers", replay.ByFile))
		ended <- result{report, err}
	}()
	w.until("the backfill's file is loaded", func() bool { return w.byHand() == 1 })
	if got, want := pausedLanes(t, sink, "customers"), "immediate:backfill by file batch:backfill by file"; got != want {
		t.Errorf("paused: got %q, want %q", got, want)
	}
	w.produce(customer("C0", "gold", 9), customer("C1", "basic", 9))
	w.produce(order("O", "NEW", 1))
	w.until("the other mapping goes on", func() bool { return w.service.Len("orders") == 1 })
	if n := w.service.Len("customers"); n > 0 {
		t.Errorf("customers while the file is loaded: got %d, want none sent", n)
	}
	w.service.Release()
	got := <-ended
	if got.err != nil || got.report.Sent != keys || got.report.By != replay.ByFile || !got.report.Ended {
		t.Fatalf("got %+v, %v, want all keys sent by file", got.report, got.err)
	}
	w.settled()
	for i := range keys {
		want := 2
		if i < 2 {
			want = 9
		}
		w.holds("customers", fmt.Sprintf("C%d", i), want)
	}
	if got := pausedLanes(t, sink, "customers"); got != "" {
		t.Errorf("paused after it: got %q, want nothing", got)
	}
}

// The mapping makes no calls. One import FAILS, the next run is killed while its import is
// loaded, and newer records come: the table ends right, within its slots.
func TestBackfillByFileThatIsKilledIsGoneOnWith(t *testing.T) {
	t.Parallel()
	const keys, slots = 10, 1000
	w := newWorld(t, withOrdersETL)
	const yaml = head + deadLetters + rowsAlone
	cfg := w.config(yaml)
	sink := w.begin(cfg)
	settled := func() {
		w.until("the batch lane is at the end of the log", func() bool { return w.lag("batch", "orders") == 0 })
	}
	for i := range keys {
		w.produce(order(fmt.Sprintf("O%d", i), "NEW", 1))
	}
	settled()
	w.lose(cfg, "orders")

	look := w.filedBy(sink, "orders", replay.ByAuto)
	look.DryRun, look.Sink = true, nil
	if report, err := ops.Backfill(t.Context(), cfg, look); err != nil || report.Calls != keys || report.Files.Rows != keys || report.Files.Imports != 1 || report.By != replay.ByFile || report.Files.Left == 0 {
		t.Errorf("a dry run: got %+v, %+v, %v, want both ways counted", report, report.Files, err)
	}
	w.service.FailImports("orders", 1, "invalid file")
	if _, err := ops.Backfill(t.Context(), cfg, w.filedBy(sink, "orders", replay.ByAuto)); err == nil || !strings.Contains(err.Error(), "has FAILED") {
		t.Fatalf("an import that fails: got %v", err)
	}
	if got := pausedLanes(t, sink, "orders"); got != "" {
		t.Errorf("paused after it: got %q, want nothing", got)
	}

	w.service.Hold()
	file := filepath.Join(w.dir, "feedsink.yaml")
	if err := os.WriteFile(file, []byte(w.through.in(yaml)), 0o600); err != nil {
		t.Fatal(err)
	}
	doomed := exec.CommandContext(t.Context(), binary, "backfill", "-c", file, "--mapping", "orders", "--since", "1h", "--server", "http://"+sink.AdminAddress())
	for _, name := range environment {
		value, _ := w.env(name)
		doomed.Env = append(doomed.Env, name+"="+value)
	}
	if err := doomed.Start(); err != nil {
		t.Fatal(err)
	}
	w.until("its import is on record", func() bool {
		commits, err := w.admin.FetchOffsets(t.Context(), w.prefix+"sink-backfill.orders.progress")
		at, _ := commits.Lookup(w.topic("orders"), 0)
		return err == nil && strings.Contains(at.Metadata, `"underWay":{"execution"`)
	})
	if err := doomed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = doomed.Wait() // it was killed
	w.produce(order("O0", "PAID", 2))
	w.service.Release()
	report, err := ops.Backfill(t.Context(), cfg, w.filedBy(sink, "orders", replay.ByAuto))
	for errors.Is(err, cluster.ErrHeld) { // a busy broker may be late to forget the one that was killed
		report, err = ops.Backfill(t.Context(), cfg, w.filedBy(sink, "orders", replay.ByAuto))
	}
	if err != nil || !report.Resumed || !report.Ended || report.Sent != keys || w.byHand() != 3 {
		t.Fatalf("the next run: got %+v, %v and %d imports, want it to go on and send all again", report, err, w.byHand())
	}
	settled()
	w.holds("orders", "O0", 2)
	for i := 1; i < keys; i++ {
		w.holds("orders", fmt.Sprintf("O%d", i), 1)
	}
	left, err := ops.SlotsLeft(t.Context(), cfg, "orders")
	if made := len(w.service.Executions()); err != nil || left != slots-made {
		t.Errorf("slots left: got %d, %v after %d imports, want each of %d counted", left, err, made, slots)
	}
}

// An import of the sink may hold rows of the same keys. That of a bundle is on record by one of
// its tables.
func TestBackfillByFileWaitsForTheSinksImport(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		configure func(*sandbox.Config)
		mappings  string
	}{"alone": {withOrdersETL, rowsAlone}, "in a bundle": {withCRMBundle, crmBundle}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.configure)
			cfg := w.config(head + deadLetters + c.mappings)
			sink := w.begin(cfg)
			w.produce(order("O", "NEW", 1))
			w.until("the batch lane is at the end of the log", func() bool { return w.lag("batch", "orders") == 0 })
			w.service.Hold()
			w.produce(order("O", "PAID", 2))
			w.until("the sink's import is loaded", func() bool { return len(w.service.Executions()) == 2 })
			var told atomic.Bool
			o := w.filedBy(sink, "orders", replay.ByAuto)
			o.Tell = func(r replay.BackfillReport) {
				if strings.Contains(r.Waiting, "waiting for the end of the sink's import") {
					told.Store(true)
				}
			}
			ended := make(chan error, 1)
			go func() {
				_, err := ops.Backfill(t.Context(), cfg, o)
				ended <- err
			}()
			w.until("the backfill waits, or does not", func() bool { return told.Load() || w.byHand() > 0 })
			if w.byHand() > 0 {
				t.Error("got a file sent beside the sink's import, want it to wait")
			}
			w.service.Release()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			w.holds("orders", "O", 2)
		})
	}
}

// A lane that does not run notes no pause, for which the other would wait.
func TestBackfillByFilePausesNothingWhileALaneDoesNotRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	cfg := w.config(head + deadLetters + mappings)
	sink := w.begin(cfg)
	w.produce(customer("C", "gold", 1))
	w.settled()
	sink.stop()
	w.lanes = []schemas.Lane{schemas.Batch}
	sink = w.begin(cfg)
	w.produce(customer("D", "basic", 1))
	w.until("the batch lane has its partitions", func() bool { return w.lag("batch", "customers") == 0 })
	if _, err := ops.Backfill(t.Context(), cfg, w.filedBy(sink, "customers", replay.ByFile)); err == nil || !strings.Contains(err.Error(), "sink-immediate has no members") {
		t.Errorf("got %v, want which members are missing", err)
	}
	if got := pausedLanes(t, sink, "customers"); got != "" {
		t.Errorf("got %q paused, want nothing", got)
	}
}

// Without the sink the table would not be paused, nor the import counted; a person's pause is left alone.
func TestBackfillByFileSaysWhatItNeeds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOrdersETL)
	cfg := w.config(head + deadLetters + rowsAlone)
	sink := w.begin(cfg)
	w.produce(order("O", "NEW", 1))
	w.until("the batch lane is at the end of the log", func() bool { return w.lag("batch", "orders") == 0 })
	alone := w.filedBy(sink, "orders", replay.ByAuto)
	alone.Sink = nil
	if _, err := ops.Backfill(t.Context(), cfg, alone); err == nil || !strings.Contains(err.Error(), "--server") {
		t.Errorf("without a sink: got %v, want what to do", err)
	}
	said(t, sink, 0, "pause --mapping orders --reason rebuilt")
	w.until("the pause is in all ledgers", func() bool {
		_, err := ops.Backfill(t.Context(), cfg, w.filedBy(sink, "orders", replay.ByAuto))
		return err != nil && strings.Contains(err.Error(), "feedsink resume --mapping orders first")
	})
	calls := w.filedBy(sink, "orders", replay.ByCalls)
	calls.Restart = true
	if report, err := ops.Backfill(t.Context(), cfg, calls); err == nil || !strings.Contains(err.Error(), "feedsink resume --mapping orders first") || report.Sent != 0 {
		t.Errorf("by calls, paused by a person: got %+v, %v, want nothing sent, and what to do", report, err)
	}
	if got, want := pausedLanes(t, sink, "orders"), "batch:rebuilt"; got != want || w.byHand() != 0 {
		t.Errorf("paused by a person: got %q and %d imports, want %q and none", got, w.byHand(), want)
	}
}
