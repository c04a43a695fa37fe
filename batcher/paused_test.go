package batcher

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/schemas"
)

// pausable is a world whose mappings a person may pause, by name.
func pausable(t *testing.T, paused *atomic.Pointer[string], mappings ...files.Mapping) *world {
	t.Helper()
	w := newWorld(t)
	w.open(Config{Paused: func(mapping string) bool { p := paused.Load(); return p != nil && *p == mapping }}, mappings...)
	w.run()
	return w
}

func TestPausedMappingsFileGrowsUntilItIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var paused atomic.Pointer[string]
		paused.Store(new("customers"))
		m := testMapping()
		m.Roll.Rows = 2
		w := pausable(t, &paused, m)
		w.append(write(schemas.Upsert, "1"), write(schemas.Upsert, "2"), write(schemas.Upsert, "3"))
		time.Sleep(5 * time.Hour)
		w.said()
		if w.b.UnderWay("customers") {
			t.Error("under way: got true, want nothing on its way")
		}
		paused.Store(nil)
		time.Sleep(time.Minute)
		w.lastSaid(`5h0m3s confirm upsert 1/1 attempt 1 "e1" holds 100-102`)
	})
}

func TestFileThatWasNotSentWaitsWhileItsMappingIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var paused atomic.Pointer[string]
		m := testMapping()
		m.Roll.Rows, m.RetryFailed = 1, 1
		w := pausable(t, &paused, m)
		w.results = []contract.Results{{Status: contract.Failed}}
		w.append(write(schemas.Upsert, "1"))
		time.Sleep(time.Second)
		paused.Store(new("customers"))
		if !w.b.UnderWay("customers") {
			t.Error("an import that runs: got not under way, want it to end first")
		}
		time.Sleep(time.Hour)
		w.lastSaid(`2s poll e1: FAILED`)
		if got := w.b.Status()[0].Import; got == nil || got.Step != contract.Paused || w.b.UnderWay("customers") {
			t.Errorf("its further try: got %+v, want it paused, and nothing under way", got)
		}
		paused.Store(nil)
		time.Sleep(time.Minute)
		w.lastSaid(`1h0m3s confirm upsert 1/1 attempt 2 "e2" holds 100-100`)
	})
}

func TestOpenFileGoesOutWhenItIsAskedFor(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start(testMapping())
		if _, err := w.b.Roll("customers", false); !errors.Is(err, ErrNothingOpen) {
			t.Errorf("without a row: got %v, want %v", err, ErrNothingOpen)
		}
		w.append(write(schemas.Upsert, "1"), write(schemas.Delete, "2"))
		time.Sleep(time.Minute)
		asked, err := w.b.Roll("customers", false)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		files, ok := asked.Files(ctx)
		if !ok || len(files) != 2 || files[0] != w.b.Status()[0].Import.File {
			t.Errorf("files: got %q, %t, want the two imports that follow", files, ok)
		}
		time.Sleep(time.Minute)
		if _, ok := asked.Files(t.Context()); !ok || w.b.Status()[0].Rows != 0 {
			t.Error("want all sent, and that it can be asked what it became")
		}
		w.lastSaid(`1m4s confirm upsert 2/2 attempt 1 "e2" holds 100-101`)
	})
}

// asksReserve is a gate that lets further tries go, and nothing else.
type asksReserve struct{ openGate }

func (asksReserve) Wait(_ string, _ *contract.Import, further bool) time.Duration {
	if further {
		return 0
	}
	return time.Hour
}

func TestReserveIsTakenOnlyIfThatIsAskedFor(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.open(Config{Gate: asksReserve{}}, testMapping())
		w.run()
		w.append(write(schemas.Upsert, "1"))
		asked, err := w.b.Roll("customers", false)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		w.said()
		if again, err := w.b.Roll("customers", true); err != nil || again != asked {
			t.Errorf("asked again: got %p, %v, want the same %p", again, err, asked)
		}
		time.Sleep(time.Minute)
		w.lastSaid(`1h0m2s confirm upsert 1/1 attempt 1 "e1" holds 100-100`)
	})
}
