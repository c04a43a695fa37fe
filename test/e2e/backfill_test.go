//go:build !image

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/kafka/cluster"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/replay"
)

func backfillOf(mapping string) ops.BackfillOptions {
	return ops.BackfillOptions{
		BackfillConfig: replay.BackfillConfig{Asked: "--since 1h", Since: time.Now().Add(-time.Hour)},
		Name:           mapping, Rate: config.Rate{Calls: 10_000, Per: time.Second}, GiveUp: time.Minute, Log: slog.New(slog.DiscardHandler),
	}
}

// lose takes all rows out of the table, beside the sink.
func (w *world) lose(cfg *config.Config, table string) {
	w.t.Helper()
	client, err := build.NewService(cfg.Service)
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	for key, row := range w.service.Rows(table) {
		if table == "orders" {
			err = client.DeleteRecord(w.t.Context(), table, key)
		} else {
			err = client.DeleteProfile(w.t.Context(), table, row.ID)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	if n := w.service.Len(table); n > 0 {
		w.t.Fatalf("table %s: %d rows are left", table, n)
	}
}

// Both lanes write the customers. Rows are lost, and while they are sent again newer
// records come: each table ends as if nothing had been lost, and no import was made for it.
func TestBackfillBesideLiveTrafficEndsWithTheNewestStates(t *testing.T) {
	t.Parallel()
	const keys = 60
	w := newWorld(t, nil)
	cfg := w.config(head + deadLetters + mappings)
	w.begin(cfg)
	tier := func(i, seq int) string { return []string{"gold", "basic"}[(i+seq)%2] }
	for seq := range 3 {
		for i := range keys {
			w.produce(customer(fmt.Sprintf("C%d", i), tier(i, seq), seq), order(fmt.Sprintf("O%d", i), "NEW", seq))
		}
	}
	w.produce(event("orders", "O0", `{"op":"delete","businessKey":"O0"}`), event("orders", "O1", `{"op":"patch","businessKey":"O1","properties":{"status":"PAID"}}`))
	w.settled()
	w.lose(cfg, "customers")
	w.lose(cfg, "orders")
	imports := len(w.service.Executions())

	// The first half is left to the backfills alone.
	for mapping, sent := range map[string]int64{"customers": keys, "orders": keys} {
		look := backfillOf(mapping)
		look.DryRun = true
		if report, err := ops.Backfill(t.Context(), cfg, look); err != nil || report.Calls != sent || w.service.Len(mapping) > 0 {
			t.Fatalf("%s, a dry run: got %+v, %v and %d rows, want %d calls and none made", mapping, report, err, w.service.Len(mapping), sent)
		}
		if report, err := ops.Backfill(t.Context(), cfg, backfillOf(mapping)); err != nil || report.Sent != sent || !report.Ended {
			t.Fatalf("%s: got %+v, %v", mapping, report, err)
		}
	}
	if got := len(w.service.Executions()); got != imports {
		t.Errorf("imports: got %d, want the %d of the sink", got, imports)
	}
	w.same(keys, 2)
	if row, is := w.service.Row("orders", "O1"); !is || row.Text("status") != "PAID" {
		t.Errorf("O1: got %v, want what was patched", row.Values)
	}

	w.lose(cfg, "customers")
	w.lose(cfg, "orders")
	produced := make(chan struct{})
	go func() {
		defer close(produced)
		for seq := 3; seq < 9; seq++ {
			for i := range keys / 2 {
				w.produce(customer(fmt.Sprintf("C%d", 2*i), tier(i, seq), seq), order(fmt.Sprintf("O%d", 2*i), "NEW", seq))
			}
		}
	}()
	for _, mapping := range []string{"customers", "orders"} {
		o := backfillOf(mapping)
		o.Rate = config.Rate{Calls: 100, Per: time.Second} // live traffic overtakes it
		if report, err := ops.Backfill(t.Context(), cfg, o); err != nil || !report.Ended {
			t.Errorf("%s: got %+v, %v", mapping, report, err)
		}
	}
	<-produced
	w.settled()
	for i := range keys {
		want := 2
		if i%2 == 0 {
			want = 8
		}
		w.holds("customers", fmt.Sprintf("C%d", i), want)
		w.holds("orders", fmt.Sprintf("O%d", i), want)
	}
}

// same compares all rows but O0, which was deleted.
func (w *world) same(keys, seq int) {
	w.t.Helper()
	for i := range keys {
		w.holds("customers", fmt.Sprintf("C%d", i), seq)
		if i > 0 {
			w.holds("orders", fmt.Sprintf("O%d", i), seq)
		}
	}
	if _, is := w.service.Row("orders", "O0"); is {
		w.t.Error("O0 is there, which was deleted")
	}
}

func (w *world) holds(table, key string, seq int) {
	w.t.Helper()
	if row, is := w.service.Row(table, key); !is || row.Text("seq") != fmt.Sprint(seq) {
		w.t.Errorf("%s %s: got %v (is there: %v), want seq %d", table, key, row.Values, is, seq)
	}
}

// Calls are live traffic's first: a backlog of the immediate lane has to be confirmed, also
// one of a topic that it has committed nothing of.
func TestBackfillWaitsWhileTheImmediateLaneIsBehind(t *testing.T) {
	t.Parallel()
	onlyOrders := "mappings:\n" + mappings[strings.Index(mappings, "  - name: orders"):]
	for name, before := range map[string]string{"committed": mappings, "without a commit": onlyOrders} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			sink := w.begin(w.config(head + deadLetters + before))
			w.produce(order("O", "NEW", 1))
			if before == mappings {
				w.produce(old(customer("C", "gold", 1)))
			}
			w.settled()
			sink.stop()
			backfillBehind(t, w, w.config(head+deadLetters+mappings))
		})
	}
}

func old(r *kgo.Record) *kgo.Record {
	r.Timestamp = time.Now().Add(-time.Minute)
	return r
}

func backfillBehind(t *testing.T, w *world, cfg *config.Config) {
	t.Helper()
	for i := range 200 {
		w.produce(old(customer(fmt.Sprintf("C%d", i), "gold", 1)))
	}
	before := w.service.CallCount(4)
	waited := false
	o := backfillOf("orders")
	o.Tell = func(r replay.BackfillReport) {
		if r.Waiting == "" || waited {
			return
		}
		waited = true
		if !strings.Contains(r.Waiting, "has 200 records older than 30s to confirm") || w.service.CallCount(4) != before {
			t.Errorf("got %q and %d calls, want none while 200 records wait", r.Waiting, w.service.CallCount(4)-before)
		}
		w.begin(cfg)
	}
	if report, err := ops.Backfill(t.Context(), cfg, o); err != nil || report.Sent != 1 || !waited {
		t.Errorf("got %+v, %v, waited %v; want the key sent once live traffic is", report, err, waited)
	}
}

// One at a time for a mapping; what Ctrl-C ends, the next one goes on with.
func TestInterruptedBackfillIsGoneOnWith(t *testing.T) {
	t.Parallel()
	const keys = 40
	w := newWorld(t, nil)
	cfg := w.config(head + deadLetters + mappings)
	w.begin(cfg)
	for i := range keys {
		w.produce(order(fmt.Sprintf("O%d", i), "NEW", 1))
	}
	w.settled()
	w.lose(cfg, "orders")
	slow := backfillOf("orders")
	slow.Rate = config.Rate{Calls: 1, Per: time.Minute} // none is in flight when it is interrupted
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var first replay.BackfillReport
	go func() {
		var err error
		first, err = ops.Backfill(ctx, cfg, slow)
		ended <- err
	}()
	w.until("the first call is made", func() bool { return w.service.Len("orders") > 0 })
	var others sync.WaitGroup
	for name, other := range map[string]func() error{
		"a second one": func() error {
			_, err := ops.Backfill(t.Context(), cfg, backfillOf("orders"))
			return err
		},
		"a replay": func() error {
			_, err := ops.Replay(t.Context(), cfg, ops.ReplayOptions{Config: replay.Config{MaxAttempts: 5, GiveUp: time.Minute}, Log: slog.New(slog.DiscardHandler)})
			return err
		},
	} {
		others.Go(func() {
			if err := other(); !errors.Is(err, cluster.ErrHeld) || !strings.Contains(err.Error(), "sink-backfill.orders, at ") {
				t.Errorf("%s: got %v, want it refused", name, err)
			}
		})
	}
	others.Wait()
	interrupt()
	if err := <-ended; !errors.Is(err, context.Canceled) || first.Sent == 0 || first.Sent == keys {
		t.Fatalf("the first one: got %+v, %v, want it interrupted", first, err)
	}
	report, err := ops.Backfill(t.Context(), cfg, backfillOf("orders"))
	if err != nil || !report.Resumed || report.Sent != keys {
		t.Errorf("the next one: got %+v, %v, want it to go on", report, err)
	}
	calls := 0
	for _, c := range w.service.Calls() {
		if c.Op == 4 {
			calls++
		}
	}
	if calls != 2*keys || w.service.Len("orders") != keys {
		t.Errorf("got %d calls and %d rows, want each key sent twice: by the sink and by a backfill", calls, w.service.Len("orders"))
	}
}
