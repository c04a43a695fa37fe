package batcher

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/schemas"
)

func TestStartSweepsLeftoversAndKeepsWhatIsNotOurs(t *testing.T) {
	w := newWorld(t)
	gone := []string{
		"customers-20261121T100000Z-abcdef.journal",
		"customers-20261121T100000Z-abcdef.upsert.csv.gz",
		"customers-20261121T100000Z-abcdef.create2.csv.zip.part",
		"orders-20261121T100000Z-abcdef.delete.csv.gz.errors.part",
	}
	stay := []string{
		"customers-20261121T100000Z-abcdef.delete.csv.gz.errors",
		"customers-20261121T100000Z-abcdef.upsert.csv.failed",
		"my-notes.csv",
	}
	for _, name := range append(gone, stay...) {
		check(t, os.WriteFile(filepath.Join(w.dir, name), []byte("12345"), 0o600))
	}
	w.open(Config{}, testMapping())
	for _, name := range gone {
		if _, err := os.Stat(filepath.Join(w.dir, name)); !os.IsNotExist(err) {
			t.Errorf("%s after the start: got %v, want it gone", name, err)
		}
	}
	for _, name := range stay {
		if _, err := os.Stat(filepath.Join(w.dir, name)); err != nil {
			t.Errorf("%s after the start: got %v, want it kept", name, err)
		}
	}
	if got := w.b.SpoolBytes(); got != 10 {
		t.Errorf("spool bytes: got %d, want 10 of the two kept files", got)
	}
	if got := w.b.Status()[0].Kept; len(got) != 2 {
		t.Errorf("kept: got %q, want two files", got)
	}
	check(t, w.b.Close())
}

func TestSpoolHasOneProcess(t *testing.T) {
	w := newWorld(t)
	w.open(Config{}, testMapping())
	if s, err := spool.Open(w.dir); err == nil {
		t.Fatalf("second owner of the spool: got %v, want an error", s)
	}
	check(t, w.b.Close())
	s, err := spool.Open(w.dir)
	if err != nil {
		t.Fatalf("owner after the first has gone: got %v, want none", err)
	}
	check(t, s.Close())
}

func TestFilesAreTheOwnersAlone(t *testing.T) {
	w := newWorld(t)
	w.dir = filepath.Join(w.dir, "deep", "spool")
	w.open(Config{}, testMapping())
	file, err := w.b.spool.Create("x")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{w.dir: 0o700, file.Name(): 0o600} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("mode of %s: got %v, %v, want %v", path, info.Mode().Perm(), err, want)
		}
	}
	check(t, file.Close())
	check(t, w.b.Close())
}

func TestDiskErrorOnAppendAddsNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.hold = "trigger"
		w.start(testMapping())
		w.b.segment = 1 // every entry fills a segment
		w.append(write(schemas.Upsert, "1"))
		back := w.breakDisk()
		for range 3 {
			if err := w.b.Append("customers", write(schemas.Upsert, "2"), w.p, 101); err == nil {
				t.Fatal("append without a disk: got no error, want one")
			}
		}
		back()
		w.add("customers", write(schemas.Upsert, "3"), w.p, 102)
		if got := w.b.Status()[0].Rows; got != 2 {
			t.Errorf("rows: got %d, want 2: what was refused was not added", got)
		}
		if got := w.b.SpoolBytes(); got == 0 || w.b.Full() {
			t.Errorf("spool: got %d bytes, full %v, want some and not full", got, w.b.Full())
		}
		w.b.cfg.MaxBytes = w.b.SpoolBytes()
		if !w.b.Full() {
			t.Error("full at the limit: got false, want true")
		}
		lose(w.b, "customers")
		w.wantSpool()
	})
}

func TestSealIsRepeatedUntilTheDiskTakesIt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start(testMapping())
		w.append(write(schemas.Upsert, "1"))
		back := w.breakDisk()
		time.Sleep(2 * time.Hour)
		w.said()
		if got := w.b.Status()[0].Import; got == nil || got.Step != contract.Sealing {
			t.Errorf("import: got %+v, want it sealing", got)
		}
		back()
		time.Sleep(2 * time.Minute)
		w.lastSaid("confirm upsert 1/1")
		w.wantSpool()
	})
}

// TestFileWhoseSlotIsGoneOnceItCanGoWaits: an import by hand takes the last one while the disk
// refuses the file, or the ledger its intent.
func TestFileWhoseSlotIsGoneOnceItCanGoWaits(t *testing.T) {
	for name, fails := range map[string]func(*world) (back func()){
		"the disk was full": (*world).breakDisk,
		"the ledger had no room": func(w *world) func() {
			set := func(err error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.unfit = err
			}
			set(errors.New("no room"))
			return func() { set(nil) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, gate := fullFiles(t, func(m *files.Mapping) { m.Roll.Rows = 1 })
				gate.roll.Store(0)
				w.run()
				back := fails(w)
				w.append(write(schemas.Upsert, "1"))
				time.Sleep(time.Hour)
				gate.roll.Store(int64(12 * time.Hour))
				gate.retry.Store(int64(12 * time.Hour))
				back()
				time.Sleep(time.Hour)
				w.said()
				if got := w.b.Status()[0].Import; got == nil || got.Step != contract.Waiting {
					t.Errorf("import: got %+v, want it waiting", got)
				}
				gate.retry.Store(0)
				time.Sleep(2 * time.Minute)
				w.lastSaid("confirm upsert 1/1")
			})
		})
	}
}

// TestStopEndsAnIntentThatWaitsAfterTheLedgerRefusedIt: nothing was sent, so that nothing is left to await.
func TestStopEndsAnIntentThatWaitsAfterTheLedgerRefusedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, gate := fullFiles(t, func(m *files.Mapping) { m.Roll.Rows = 1 })
		gate.roll.Store(0)
		w.unfit = errors.New("no room")
		w.run()
		w.append(write(schemas.Upsert, "1"))
		synctest.Wait()
		gate.retry.Store(int64(12 * time.Hour))
		time.Sleep(time.Hour)
		begun := time.Now()
		if err := w.stop(); err != nil || time.Since(begun) > time.Second {
			t.Errorf("stop: got %v after %v, want nil at once", err, time.Since(begun))
		}
		w.said()
	})
}

// breakDisk has every use of the spool's directory fail, until back is called.
func (w *world) breakDisk() (back func()) {
	w.t.Helper()
	moved := w.dir + "-away"
	check(w.t, errors.Join(os.Rename(w.dir, moved), os.WriteFile(w.dir, nil, 0o600)))
	return func() {
		check(w.t, errors.Join(os.Remove(w.dir), os.Rename(moved, w.dir)))
	}
}

func TestRemovedSpoolIsMadeAnewWithItsLock(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.hold = "trigger"
		w.start(testMapping())
		check(t, os.RemoveAll(w.dir))
		w.append(write(schemas.Upsert, "1"))
		time.Sleep(2 * time.Hour)
		w.lastSaid("trigger is held")
		w.wantSpool("customers-*.upsert.csv.gz")
		if other, err := spool.Open(w.dir); err == nil {
			t.Error("a second process in the new directory: got no error, want one")
			_ = other.Close()
		}
	})
}

func TestFileThatIsGoneBeforeItIsSentAgainIsBuiltAnew(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.results = []contract.Results{{Status: contract.Failed, Reason: "busy"}}
		w.polling = func() {
			if err := os.RemoveAll(w.dir); err != nil {
				t.Error(err)
			}
		}
		m := testMapping()
		m.RetryFailed = 1
		w.start(m)
		w.append(write(schemas.Upsert, "1"))
		time.Sleep(2 * time.Hour)
		w.lastSaid(`start over at 1/1 attempt 2 "e1"`)
	})
}
