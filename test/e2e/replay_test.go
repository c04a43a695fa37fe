//go:build !image

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/dev/sandbox"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/replay"
)

// text is a body as it is sent.
type text string

func (t text) AppendJSON(b []byte) []byte { return append(b, t...) }

// A replay is cut off with a call on its way, the profile is deleted by a tombstone,
// which the sink imports, and then what stands in front of the service delivers that
// call.
func TestInterruptedReplayBringsNoDeletedProfileBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	cfg := w.config(head + deadLetters + mappings)
	cfg.Service.Timeout = time.Minute // the next run comes while the call may still be applied
	w.begin(cfg)
	const body = `{"attributes":{"customerNumber":"C1","seq":1},"segments":{"tier":"gold"}}`
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 1}, Answer: sandbox.Status(400)})
	w.produce(customer("C1", "gold", 1))
	w.settled()
	if got := len(w.dead()); got != 1 {
		t.Fatalf("dead letters: got %d, want 1", got)
	}
	w.service.ClearFaults()

	// The call is on its way when the replay is cut off.
	w.service.Inject(sandbox.Fault{Match: sandbox.Match{Op: 1}, Answer: sandbox.Hang(0)})
	options := ops.ReplayOptions{Config: replay.Config{MaxAttempts: 5, GiveUp: time.Minute}, Log: slog.New(slog.DiscardHandler)}
	ctx, cut := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := ops.Replay(ctx, cfg, options)
		ended <- err
	}()
	w.until("the replay's call is on its way", func() bool { return w.service.Faults()[0].Fired > 0 })
	cut()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("the replay that was cut off: got %v", err)
	}
	w.service.ClearFaults()
	w.produce(&kgo.Record{Topic: "customers", Key: []byte("C1")})
	w.settled()

	late := func() {
		client, err := build.NewService(cfg.Service)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if _, err := client.UpsertProfile(t.Context(), "customers", text(body)); err != nil {
			t.Fatal(err)
		}
	}
	landed := false
	options.Wait = func(context.Context, time.Duration) error {
		late()
		landed = true
		return nil
	}
	report, err := ops.Replay(t.Context(), cfg, options)
	if err != nil || report.Superseded != 1 {
		t.Errorf("the next replay: got %+v, %v, want the letter superseded", report, err)
	}
	if _, is := w.service.Row("customers", "C1"); is || !landed {
		t.Errorf("the profile is there: %v, the late call landed: %v; want it deleted after that", is, landed)
	}
	if got := len(w.dead()); got != 1 {
		t.Errorf("dead letters: got %d, want the one there was", got)
	}
}

// A tombstone whose import was refused row by row is a letter that no call can send.
func TestReplayLeavesATombstoneToItsImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	cfg := w.config(head + deadLetters + mappings)
	w.begin(cfg)
	if err := w.service.RejectRows(sandbox.Rejection{Table: "customers", Column: "customerNumber", Match: "^C1$"}); err != nil {
		t.Fatal(err)
	}
	w.produce(&kgo.Record{Topic: "customers", Key: []byte("C1")})
	w.settled()
	dead := len(w.dead())
	if dead != 1 {
		t.Fatalf("dead letters: got %d, want 1", dead)
	}
	for range 2 {
		report, err := ops.Replay(t.Context(), cfg, ops.ReplayOptions{Config: replay.Config{MaxAttempts: 5, GiveUp: time.Minute}, Log: slog.New(slog.DiscardHandler)})
		if err != nil || report.Left[replay.NeedsImport] != 1 || len(report.Notes) != 1 {
			t.Fatalf("replay: got %+v, %v, want the letter left for its import", report, err)
		}
		if !strings.Contains(report.Notes[0].Message, "feedsink import --mapping customers --op delete FILE.csv") {
			t.Errorf("note: got %q, want what to do", report.Notes[0].Message)
		}
	}
	if got := len(w.dead()); got != dead {
		t.Errorf("dead letters: got %d, want %d", got, dead)
	}
	calls := slices.DeleteFunc(w.service.Calls(), func(c sandbox.Call) bool { return c.Op > 3 })
	if len(calls) != 0 {
		t.Errorf("calls to the profile table: got %s, want none", fmt.Sprint(calls))
	}
}
